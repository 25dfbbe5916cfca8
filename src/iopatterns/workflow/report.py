"""Typesets the report: a typst source with generated tables, figures and numbers becomes one PDF."""

import os
from collections.abc import Mapping
from pathlib import Path

import typst

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError


class ReportError(IoPatternsError):
    """The report cannot be typeset; the message is typst's own, with the file and line it gives."""


def compile_report(
    source: Path | str,
    output: Path | str,
    root: Path | str | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
) -> Path:
    """Compile the typst file ``source`` to the PDF ``output`` and return the path of ``output``.

    ``root`` is the folder that ``/`` means in the source (default: the folder above that of ``source``, which
    is the project's for ``paper/report.typ``). ``inputs`` are the document's ``sys.inputs``. The date
    in the PDF is SOURCE_DATE_EPOCH (seconds since 1970), or 0. Only the fonts that come
    with typst are used, so that the same input gives the same bytes on every machine. ``output`` appears
    whole or not at all. Raises ReportError.
    """
    source, output = Path(source), Path(output)
    if not source.is_file():
        raise ReportError(f"{source}: there is no such file to typeset")
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
        raise ReportError(f"SOURCE_DATE_EPOCH is {text!r}, but must be whole seconds since 1970")
    return int(text)


def _pdf(source: Path, root: Path, inputs: dict[str, str], timestamp: int) -> bytes:
    try:
        compiler = typst.Compiler(str(source), root=str(root), ignore_system_fonts=True, sys_inputs=inputs)
        pdf = compiler.compile(format="pdf", timestamp=timestamp)
    except typst.TypstError as error:
        raise ReportError(_message(error, root)) from None
    except RuntimeError as error:  # for example a source outside of root
        raise ReportError(f"{source}: typst: {error}") from None
    assert isinstance(pdf, bytes)
    return pdf


def _message(error: typst.TypstError, root: Path) -> str:
    """Return typst's diagnostic, which has file, line and a caret below the fault."""
    text = getattr(error, "diagnostic", "") or error.message
    return f"the report does not compile (paths are relative to {root}):\n{text.strip()}"
