"""N-to-N: each rank writes a file of its own with records of many sizes, reads its index back, and appends to a log."""

from mpi4py import MPI

RECORDS = 120

rank = MPI.COMM_WORLD.rank
with open(f"n_to_n.{rank}.log", "ab", buffering=0) as log:
    index = []
    with open(f"n_to_n.{rank}.out", "w+b", buffering=0) as file:
        for number in range(RECORDS):
            # from 200 bytes to 100 kB, the same in each run
            size_bytes = 200 + (number * number * 7919 + rank * 104729) % 100_000
            index.append((file.tell(), size_bytes))
            file.write(bytes([number % 256]) * size_bytes)
            if number % 20 == 0:
                log.write(f"record {number}\n".encode())
        for offset, size_bytes in index[::5]:
            file.seek(offset)
            assert len(file.read(min(size_bytes, 4096))) > 0
    MPI.COMM_WORLD.Barrier()
    log.write(b"done\n")
