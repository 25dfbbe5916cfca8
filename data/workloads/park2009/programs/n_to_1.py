"""N-to-1, not strided: each rank writes its own segment of one file through MPI-IO, then reads it back."""

from mpi4py import MPI

REQUEST_BYTES = 65536
REQUESTS = 32

ranks = MPI.COMM_WORLD
segment = ranks.rank * REQUESTS * REQUEST_BYTES
file = MPI.File.Open(ranks, "n_to_1.out", MPI.MODE_CREATE | MPI.MODE_RDWR)
block = bytearray([ranks.rank + 1]) * REQUEST_BYTES
for number in range(REQUESTS):
    file.Write_at(segment + number * REQUEST_BYTES, block)
file.Sync()
ranks.Barrier()
for number in range(REQUESTS):
    read = bytearray(REQUEST_BYTES)
    file.Read_at(segment + number * REQUEST_BYTES, read)
    assert read == block
file.Close()
