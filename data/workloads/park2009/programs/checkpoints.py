"""Checkpoints in the manner of S3D's: a grid in blocks, 16 variables, written collectively into one file each time."""

import numpy as np
from mpi4py import MPI

CHECKPOINTS = 2
BLOCK = 24  # points in each direction of the block of a rank
COMPONENTS = {"species": 11, "velocity": 3, "pressure": 1, "temperature": 1}

ranks = MPI.COMM_WORLD
grid = MPI.Compute_dims(ranks.size, 3)
at = ranks.Create_cart(grid).Get_coords(ranks.rank)
whole = [BLOCK * count for count in grid]
for checkpoint in range(CHECKPOINTS):
    file = MPI.File.Open(ranks, f"field.{checkpoint}", MPI.MODE_CREATE | MPI.MODE_WRONLY)
    begin = 0
    for number, count in enumerate(COMPONENTS.values()):
        shape, block = [count, *whole], [count, BLOCK, BLOCK, BLOCK]
        view = MPI.DOUBLE.Create_subarray(shape, block, [0, *(BLOCK * place for place in at)])
        view.Commit()
        file.Set_view(begin, MPI.DOUBLE, view)
        file.Write_all(np.full(block, float(number)))
        view.Free()
        begin += int(np.prod(shape)) * 8
    file.Close()
