"""A progress bar in the terminal for reading large files."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

_UPDATES_PER_S = 4
# For each file that is being read: functions that return the position and the size in bytes
_watched: list[tuple[Callable[[], float], int]] = []


@contextlib.contextmanager
def watched(file: IO[Any]) -> Iterator[None]:
    """Show an open file in the progress bar, within this context.

    The bar appears only within the context `shown`.

    Args:
        file: The file, open for reading in binary or text mode. Another thread asks for its position.
    """
    binary = getattr(file, "buffer", file)
    with watched_position(binary.tell, os.fstat(file.fileno()).st_size):
        yield


@contextlib.contextmanager
def watched_position(position_bytes: Callable[[], float], size_bytes: int) -> Iterator[None]:
    """Show a file that a library reads in the progress bar, within this context.

    The bar appears only within the context `shown`. Use `watched` for a Python file object.

    Args:
        position_bytes: A function that returns how many bytes of the file have been read. Another thread calls it a few
            times per second.
        size_bytes: The size of the file.
    """
    entry = (position_bytes, size_bytes)
    _watched.append(entry)
    try:
        yield
    finally:
        _watched.remove(entry)


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Show a progress bar for file reading while this context lasts.

    The bar shows how many bytes have been read of all files in a context `watched` or `watched_position`. It appears on
    standard error, while there is such a file, and disappears at the end. Nothing is shown if standard error is not a
    terminal that can draw a bar.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield
        return
    columns = ("{task.description}", progress.BarColumn(), progress.DownloadColumn(binary_units=True), "left:")
    ended = threading.Event()
    # rich would otherwise print on standard error what the program prints on standard output
    with progress.Progress(
        *columns,
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task("Reading", total=None, visible=False)

        def update() -> None:
            while not ended.wait(1 / _UPDATES_PER_S):
                files = list(_watched)
                # a file may be closed meanwhile
                with contextlib.suppress(ValueError):
                    read_bytes = sum(position_bytes() for position_bytes, _ in files)
                    bar.update(
                        task,
                        completed=read_bytes,
                        total=sum(size for _, size in files),
                        visible=bool(files),
                        refresh=True,
                    )

        thread = threading.Thread(target=update, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
