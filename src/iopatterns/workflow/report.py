"""Compile the report from its typst source to a PDF."""

import os
from collections.abc import Mapping
from pathlib import Path

import typst

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError


class ReportError(IoPatternsError):
    """The report cannot be compiled; the message has the cause, such as typst's error."""


def compile_report(
    source: Path | str,
    output: Path | str,
    root: Path | str | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
) -> Path:
    """Compile a typst file to a PDF, and return the path of the PDF.

    The same inputs give the same bytes on every machine. Only the fonts that come with typst are used. The date in the
    PDF is the environment variable SOURCE_DATE_EPOCH (seconds since 1970), or 0 if the variable is not set. The PDF is
    written completely or not at all.

    Args:
        source: The path of the typst file.
        output: The path of the PDF to write.
        root: The folder that ``/`` means in the source. None: the parent of the folder of `source`, which is the
            project's folder for ``paper/report.typ``.
        inputs: The values of ``sys.inputs`` in the document, by name.

    Raises:
        ReportError: The source does not exist or does not compile, or SOURCE_DATE_EPOCH is not a whole number.
    """
    source, output = Path(source), Path(output)
    if not source.is_file():
        raise ReportError(f"{source}: there is no such typst file")
    pdf = _pdf(
        source.resolve(),
        Path(root).resolve() if root is not None else source.resolve().parent.parent,
        dict(inputs or {}),
        _epoch(),
    )
    files.write_atomically(output, lambda temporary: temporary.write_bytes(pdf))
    return output


def _epoch() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "0")
    if not text.isdecimal():
        raise ReportError(f"SOURCE_DATE_EPOCH is {text!r}. It must be a whole number of seconds since 1970")
    return int(text)


def _pdf(source: Path, root: Path, inputs: dict[str, str], timestamp: int) -> bytes:
    try:
        compiler = typst.Compiler(str(source), root=str(root), ignore_system_fonts=True, sys_inputs=inputs)
        pdf = compiler.compile(format="pdf", timestamp=timestamp)
    except typst.TypstError as error:
        raise ReportError(_message(error, root)) from None
    except RuntimeError as error:  # for example if the source is outside of root
        raise ReportError(f"{source}: typst: {error}") from None
    assert isinstance(pdf, bytes)
    return pdf


def _message(error: typst.TypstError, root: Path) -> str:
    """Return an error message with typst's diagnostic.

    The diagnostic names file and line, and has a caret below the error.
    """
    text = getattr(error, "diagnostic", "") or error.message
    return f"the report does not compile (paths are relative to {root}):\n{text.strip()}"
