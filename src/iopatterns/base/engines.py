"""The engines of fio that studies may name, by whether they have several requests of a job outstanding at once.

It imports nothing, for `twin run` reads it before every execution.
"""

# They have one request outstanding, whatever iodepth says
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2")
# Their queue depth is what iodepth says
ASYNCHRONOUS = ("libaio", "io_uring")
# The engines whose requests a simulated drive receives
SIMULATED = (*SYNCHRONOUS, "libaio")
# The engine that fio takes where none is named (HOWTO, "ioengine", on Linux)
DEFAULT = "psync"
