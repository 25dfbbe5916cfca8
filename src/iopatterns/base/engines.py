"""The engines of fio that studies may name, by whether they have several requests of a job outstanding at once.

It imports nothing, for `twin run` reads it before every execution.
"""

# They have one request outstanding, whatever iodepth says
SYNCHRONOUS_ENGINES = ("sync", "psync", "vsync", "pvsync", "pvsync2")
# Their queue depth is what iodepth says
ASYNCHRONOUS_ENGINES = ("libaio", "io_uring")
# The engines whose requests a simulated drive receives
SIMULATED_ENGINES = (*SYNCHRONOUS_ENGINES, "libaio")
# The engine that fio takes where none is named (HOWTO, "ioengine", on Linux)
DEFAULT_ENGINE = "psync"
