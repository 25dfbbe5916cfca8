"""The I/O engines of fio that studies may use.

This module imports nothing, because `twin run` imports it before each repetition.
"""

# Engines with one outstanding request per job, whatever the value of iodepth
SYNCHRONOUS_ENGINES = ("sync", "psync", "vsync", "pvsync", "pvsync2")
# Engines with up to iodepth outstanding requests
ASYNCHRONOUS_ENGINES = ("libaio", "io_uring")
# Engines whose requests a simulated drive receives
SIMULATED_ENGINES = (*SYNCHRONOUS_ENGINES, "libaio")
# The default engine of fio on Linux (HOWTO, "ioengine")
DEFAULT_ENGINE = "psync"
