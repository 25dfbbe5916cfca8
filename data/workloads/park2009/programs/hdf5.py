"""All ranks write one HDF5 file through h5py and MPI-IO: a chunked data set in slabs, and attributes."""

import h5py
import numpy as np
from mpi4py import MPI

STEPS = 4
ROWS = 256
COLUMNS = 512

ranks = MPI.COMM_WORLD
with h5py.File("fields.h5", "w", driver="mpio", comm=ranks) as file:
    for name in ("density", "energy"):
        shape = (STEPS, ranks.size * ROWS, COLUMNS)
        data = file.create_dataset(name, shape, dtype="f8", chunks=(1, 64, COLUMNS))
        data.attrs["unit"] = "1"
        for step in range(STEPS):
            slab = np.full((ROWS, COLUMNS), 100.0 * step + ranks.rank)
            data[step, ranks.rank * ROWS : (ranks.rank + 1) * ROWS] = slab
with h5py.File("fields.h5", "r", driver="mpio", comm=ranks) as file:
    assert file["density"][STEPS - 1, ranks.rank * ROWS, 0] == 100.0 * (STEPS - 1) + ranks.rank
