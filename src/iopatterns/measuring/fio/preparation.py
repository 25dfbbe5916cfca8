"""Writes with fio that bring a drive into a known state before it is measured."""

from pathlib import Path

from fio_parser_json.documents import read_documents

from iopatterns.measuring.fio.process import run_fio


def fill(descriptor: int, size_bytes: int) -> None:
    """Fill the start of an open file or block device with incompressible data.

    The data are written once, sequentially, bypassing the page cache, and are flushed. A file must already have at
    least `size_bytes` bytes, because fio would delete a shorter file.

    Args:
        descriptor: The file descriptor of the file or device.
        size_bytes: How many bytes to write.

    Raises:
        FioError: fio failed.
    """
    argv = [*_command(descriptor, size_bytes), "--rw=write", "--bs=1m", "--ioengine=psync", "--output=/dev/null"]
    run_fio(argv, expected_s=size_bytes / 2**20, descriptors=[descriptor])


def random_writes(descriptor: int, size_bytes: int, runtime_ms: int, randseed: int, output: Path) -> float:
    """Write 4 KiB blocks randomly at queue depth 32; return the IOPS.

    Args:
        descriptor: The file descriptor of the block device.
        size_bytes: The size of the part that is written, from the start of the device.
        runtime_ms: How long fio writes, in milliseconds.
        randseed: The seed of the offsets and of the data.
        output: The path of fio's JSON file, which is deleted afterwards.

    Raises:
        FioError: fio failed.
    """
    argv = [*_command(descriptor, size_bytes, randseed), "--rw=randwrite", "--bs=4k"]
    argv += ["--ioengine=libaio", "--iodepth=32", "--norandommap=1"]
    argv += ["--time_based=1", f"--runtime={runtime_ms}ms", "--output-format=json"]
    try:
        run_fio([*argv, f"--output={output}"], expected_s=runtime_ms / 1000, descriptors=[descriptor])
        (document,) = read_documents(output)
    finally:
        output.unlink(missing_ok=True)
    return float(document.jobs[0]["write"]["iops"])


def _command(descriptor: int, size_bytes: int, randseed: int = 1) -> list[str]:
    """Return the start of the fio command line of all writes that prepare a drive.

    The writes use direct I/O and incompressible data, and are flushed at the end.

    Args:
        descriptor: The descriptor of the file or device.
        size_bytes: The size of the part that is written.
        randseed: The seed of the offsets and of the data.
    """
    target = f"/proc/self/fd/{descriptor}"
    how = ["--allow_file_create=0", "--direct=1", "--end_fsync=1", "--thread=1"]
    # without refill_buffers fio writes one block repeatedly, which a drive may compress or deduplicate
    data = ["--refill_buffers=1", "--randrepeat=0", f"--randseed={randseed}", "--eta=never"]
    return ["fio", "--name=prepare", f"--filename={target}", f"--size={size_bytes}", *how, *data]
