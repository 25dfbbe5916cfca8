"""Draw the architecture page's two pictures and write its tables: `python docs/images/draw_architecture.py`.

The order of the layers comes from the import contract in pyproject.toml and from src/twin/CMakeLists.txt. `PLACES`
declares each place in the code once; the boxes of the drawings and the rows of the table refer to it.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
DRAWINGS = {"cell": "docs/images/life-of-a-cell.svg", "request": "docs/images/life-of-a-request.svg"}


class Place(NamedTuple):
    """A place in the code: a file, a name defined in the file, and the file of its tests."""

    file: str
    symbol: str
    test: str


_PACKAGE, _TWIN = "src/iopatterns", "src/twin"
PLACES = {
    # ---- the life of a cell
    "configuration": Place(f"{_PACKAGE}/configuration/config.py", "load_config", "tests/unit/test_config.py"),
    "grid": Place(f"{_PACKAGE}/configuration/grid.py", "expand_grid", "tests/unit/test_grid.py"),
    "job": Place(f"{_PACKAGE}/workflow/batches.py", "study_batches", "tests/unit/test_batches.py"),
    "pre-write checks": Place(
        f"{_PACKAGE}/measuring/drives/prewrite_checks.py", "PrewriteChecks", "tests/drives/test_block_drive.py"
    ),
    "settings": Place(f"{_PACKAGE}/measuring/tuning/disk_settings.py", "set_on_disk", "tests/guest/test_settings.py"),
    "fio": Place(f"{_PACKAGE}/measuring/fio/command_line.py", "fio_command_line", "tests/drives/test_measure.py"),
    "restoring": Place(
        f"{_PACKAGE}/measuring/drives/restoring.py", "restored_on_exit", "tests/attacks/test_restore.py"
    ),
    "raw file": Place(f"{_PACKAGE}/measuring/cell.py", "_keep", "tests/attacks/test_sidecars.py"),
    "tidy table": Place(f"{_PACKAGE}/analysis/collect.py", "measurement_table", "tests/unit/test_quantities.py"),
    "notebook": Place(
        f"{_PACKAGE}/workflow/notebooks.py", "execute_notebook", "tests/unit/test_notebook_parameters.py"
    ),
    "outputs": Place(f"{_PACKAGE}/analysis/outputs.py", "Outputs", "tests/unit/test_tables.py"),
    "published": Place(f"{_PACKAGE}/analysis/published.py", "load_values", "tests/unit/test_published.py"),
    "judging": Place(f"{_PACKAGE}/judging/claims.py", "Judge", "tests/unit/judging/test_criteria.py"),
    "scorecard": Place(
        f"{_PACKAGE}/judging/scorecard.py", "judge_study", "tests/unit/judging/test_claims_of_studies.py"
    ),
    "paper": Place(f"{_PACKAGE}/workflow/report.py", "compile_report", "tests/unit/test_report.py"),
    # ---- the life of a request
    "start": Place(f"{_PACKAGE}/twin/running.py", "run_on_twin", "tests/twin/test_fio.py"),
    "preload": Place(f"{_TWIN}/preload/file_calls.cc", "pwrite", "tests/native/preload_test.cc"),
    "clock": Place(f"{_TWIN}/clock/timeline.cc", "Timeline::hand_over", "tests/native/clock_test.cc"),
    "block layer": Place(f"{_TWIN}/host/block_layer.cc", "BlockLayer::submit", "tests/twin/test_host.py"),
    "scheduler": Place(f"{_TWIN}/host/scheduler.cc", "make_scheduler", "tests/native/host_test.cc"),
    "link": Place(f"{_TWIN}/link/link.cc", "Link::send", "tests/native/host_test.cc"),
    "controller": Place(f"{_TWIN}/controller/ssd.cc", "Ssd::start", "tests/native/controller_test.cc"),
    "ftl": Place(f"{_TWIN}/ftl/page_ftl.cc", "PageFtl::write", "tests/native/ftl_test.cc"),
    "flash": Place(f"{_TWIN}/flash/flash.cc", "Flash::array_read", "tests/native/flash_test.cc"),
    "completion": Place(f"{_TWIN}/preload/drive_file.cc", "advance", "tests/twin/test_device.py"),
    # ---- only in the table
    "cell name": Place(f"{_PACKAGE}/raw/cells.py", "specification_digest", "tests/unit/test_grid.py"),
    "options": Place(f"{_PACKAGE}/configuration/factors.py", "_TABLE", "tests/unit/test_factors.py"),
    "criteria": Place(f"{_PACKAGE}/judging/claims.py", "Criterion", "tests/unit/judging/test_criteria.py"),
    "own time": Place(f"{_TWIN}/clock/timeline.h", "advance", "tests/native/clock_test.cc"),
    "study files": Place(f"{_PACKAGE}/configuration/study_files.py", "PLACES", "tests/workflow/test_study_commands.py"),
    "intervals": Place(f"{_PACKAGE}/analysis/statistics.py", "mean_interval", "tests/unit/test_statistics.py"),
    "kinds": Place(f"{_PACKAGE}/measuring/drives/__init__.py", "open_drive", "tests/unit/test_kinds.py"),
    "journal": Place(f"{_PACKAGE}/measuring/tuning/journal.py", "Journal", "tests/attacks/test_restore.py"),
    "garbage collection": Place(f"{_TWIN}/ftl/page_ftl.cc", "PageFtl::collect", "tests/native/ftl_test.cc"),
    "records": Place(f"{_PACKAGE}/workflow/provenance.py", "changed_results", "tests/attacks/test_provenance.py"),
    "outputs of users": Place(f"{_PACKAGE}/base/ownership.py", "OutputFile", "tests/attacks/test_named_outputs.py"),
    "storage": Place(
        f"{_PACKAGE}/measuring/drives/storage_layers.py", "storage_doubts", "tests/attacks/test_memory_is_no_disk.py"
    ),
    "mode page": Place(f"{_TWIN}/scsi/scsi_target.cc", "ScsiTarget::mode_select", "tests/native/scsi_test.cc"),
}

# A box of a drawing: title, what happens, name of the place. The text on files that are no code begins with their path.
Box = tuple[str, str, str]
CELL: tuple[Box, ...] = (
    ("Configuration and grid", "config/ is read and checked", "configuration"),
    ("Cell", "one combination of levels, named by a hash", "grid"),
    ("Job", "several cells of one drive, in one process", "job"),
    ("Pre-write checks", "may this drive be written? else stop", "pre-write checks"),
    ("Tune", "settings recorded, changed and read back", "settings"),
    ("fio × repetitions", "each repetition with a seed of its own", "fio"),
    ("Restore", "each setting as it was, also after a crash", "restoring"),
    ("Raw file and metadata file", "data/raw/: one pair as each repetition ends", "raw file"),
    ("Tidy table", "results/measurements/: a row per repetition", "tidy table"),
    ("Notebook", "notebooks/: one per study, run by papermill", "notebook"),
    ("Tables, figures, numbers", "results/: everything that the paper shows", "outputs"),
    ("Published values and claims", "data/published/: each with its place", "published"),
    ("Judging", "each claim's check is computed and decided", "judging"),
    ("Scorecard", "results/scorecard.json: verdicts and errors", "scorecard"),
    ("Paper", "paper/: typst sets numbers, types none", "paper"),
)
REQUEST: tuple[Box, ...] = (
    ("fio's call", "twin run starts unmodified fio", "start"),
    ("Preload library", "pwrite() on the drive's path ends here", "preload"),
    ("Virtual clock and turn", "one thread at a time, the earliest first", "clock"),
    ("Block layer", "requests are split, merged and queued", "block layer"),
    ("I/O scheduler", "which queued request goes next", "scheduler"),
    ("Link", "a slot, then transfer at the link's rate", "link"),
    ("Controller", "write buffer, read cache, read-ahead", "controller"),
    ("FTL", "maps pages, collects garbage", "ftl"),
    ("Flash", "dies and channels: read, program, erase", "flash"),
    ("Completion", "the thread goes on at this time", "completion"),
)
# The rows of the table: the question "where is …" and the places that answer it
WHERE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("an I/O scheduler modelled?", ("scheduler",)),
    ("a claim judged?", ("criteria", "scorecard")),
    ("a setting of a drive restored?", ("restoring", "journal")),
    ("an fio option added?", ("options",)),
    ("virtual time advanced?", ("clock", "own time")),
    ("a call of the C library replaced?", ("preload",)),
    ("a completion passed back to the program?", ("completion",)),
    ("a drive checked before it is written?", ("pre-write checks",)),
    ("a kind of drive chosen?", ("kinds",)),
    ("fio's command line made?", ("fio",)),
    ("a cell named?", ("cell name",)),
    ("the place of a study's files declared?", ("study files",)),
    ("a raw file given its name?", ("raw file",)),
    ("a changed file noticed?", ("records",)),
    ("an output that a user names written?", ("outputs of users",)),
    ("it found out what stores a drive's data?", ("storage",)),
    ("it decided what one job measures?", ("job",)),
    ("a confidence interval computed?", ("intervals",)),
    ("garbage collection modelled?", ("garbage collection",)),
    ("a bit of the caching mode page changed?", ("mode page",)),
)


# ---- The layers


def package_layers() -> list[str]:
    """Return the layers of the package from top to bottom, as in the import contract."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(each["layers"] for each in contracts if each.get("containers") == ["iopatterns"])
    return layers


def twin_folders() -> list[str]:
    """Return the folders of src/twin, each after the folders whose headers it includes."""
    text = (ROOT / "src/twin/CMakeLists.txt").read_text(encoding="utf-8")
    return ["core", *re.findall(r"^twin_library\((\w+)", text, flags=re.MULTILINE), "preload"]


# ---- The drawings

_WIDTH, _MARGIN, _GUTTER = 760, 20, 50
_BOX_WIDTH, _BOX_HEIGHT, _GAP = 325, 88, 26
_MONOSPACE, _CODE_SIZE, _CODE_ADVANCE = "DejaVu Sans Mono, Menlo, Consolas, monospace", 11, 6.6
_STYLE = """
  svg { --paper: #ffffff; --box: #f4f6f9; --line: #9aa5b1; --ink: #1d2733; --soft: #4a5766; --mark: #0b62a8; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #15191f; --box: #212831; --line: #5f6b79; --ink: #e8edf2; --soft: #b6c0cb; --mark: #7cc0f5; }
  }
  text { font-family: DejaVu Sans, Verdana, Helvetica, Arial, sans-serif; fill: var(--ink); font-size: 12px; }
  .title { font-size: 14px; font-weight: bold; }
  .code { font-family: MONOSPACE; font-size: 11px; fill: var(--soft); }
  .layer { font-family: MONOSPACE; font-size: 11px; fill: var(--mark); }
  .paper { fill: var(--paper); }
  .box { fill: var(--box); stroke: var(--line); }
  .frame { fill: none; stroke: var(--mark); stroke-dasharray: 5 4; }
  .way { fill: none; stroke: var(--mark); stroke-width: 1.5; marker-end: url(#head); }
  .head { fill: var(--mark); }
""".replace("MONOSPACE", _MONOSPACE)


def _text(x: float, y: float, text: str, kind: str = "", room: float = _WIDTH) -> str:
    """Return an SVG line of text; code has the same width in every font.

    Raises:
        ValueError: The text is wider than `room`.
    """
    advance = {"title": 9.2, "code": _CODE_ADVANCE, "layer": _CODE_ADVANCE}.get(kind, 6.9)
    width = len(text) * advance
    if width > room:
        raise ValueError(f"{text!r} is {width:.0f} px wide, but the box has {room:.0f} px: shorten the text")
    fixed = f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"' if kind in {"code", "layer"} else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{fixed}>{escape(text)}</text>'


def _box(x: float, y: float, number: int, box: Box) -> Iterator[str]:
    title, what, place = box
    file, test = PLACES[place].file, PLACES[place].test
    folder, name = file.rsplit("/", 1)
    room = _BOX_WIDTH - 20
    yield f'<rect class="box" x="{x:g}" y="{y:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6"/>'
    yield _text(x + 10, y + 19, f"{number} {title}", "title", room)
    yield _text(x + 10, y + 35, what, "", room)
    for line, text in enumerate((f"{folder}/", name, test)):
        yield _text(x + 10, y + 51 + 15 * line, text, "code", room)


def _position(index: int, left: int, top: int) -> tuple[int, int]:
    """Return the position of a box: the first `left` boxes are in the left column, the others in the right column."""
    column, row = (0, index) if index < left else (1, index - left)
    return _MARGIN + column * (_BOX_WIDTH + _GUTTER), top + row * (_BOX_HEIGHT + _GAP)


def _svg(height: int, description: str, content: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' role="img" aria-label="{escape(description)}">'
    )
    arrow = (
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    )
    paper = f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", arrow, paper, *content, "</svg>"]) + "\n"


def _way(*points: tuple[float, float]) -> str:
    return '<polyline class="way" points="' + " ".join(f"{x:g},{y:g}" for x, y in points) + '"/>'


def _down(boxes: Sequence[int], left: int, top: int) -> Iterator[str]:
    """Yield an arrow from each given box to the box below it."""
    for index in boxes:
        x, y = _position(index, left, top)
        yield _way((x + 30, y + _BOX_HEIGHT), (x + 30, y + _BOX_HEIGHT + _GAP))


def _over(last: int, left: int, top: int) -> str:
    """Return the arrow from the last box of the left column to the first one of the right column."""
    x, y = _position(last, left, top)
    middle, beside = y + _BOX_HEIGHT / 2, x + _BOX_WIDTH
    across = beside + _GUTTER / 2
    return _way((beside, middle), (across, middle), (across, top + 44), (beside + _GUTTER, top + 44))


def _layers(heading: str, layers: Sequence[str], y: int) -> Iterator[str]:
    """Yield the heading and the layers, in as many lines as needed."""
    yield _text(_MARGIN, y, heading)
    line = ""
    for layer in layers:
        longer = f"{line} › {layer}" if line else layer
        if len(f"{longer} ›") * _CODE_ADVANCE > _WIDTH - 2 * _MARGIN:
            y += 17
            yield _text(_MARGIN, y, f"{line} ›", "layer")
            longer = layer
        line = longer
    yield _text(_MARGIN, y + 17, line, "layer")


def cell() -> str:
    """Return the drawing of the life of a cell."""
    left, top = 8, 84
    content = [
        *_layers("Layers of src/iopatterns: a module imports only from layers to its right", package_layers(), 24)
    ]
    for index, box in enumerate(CELL):
        content += _box(*_position(index, left, top), index + 1, box)
    content += [*_down((*range(7), 8, 9, 11, 12, 13), left, top), _over(7, left, top)]
    x, y = _position(3, left, top)
    height = 4 * _BOX_HEIGHT + 3 * _GAP + 16
    content.append(f'<rect class="frame" x="{x - 9}" y="{y - 8}" width="{_BOX_WIDTH + 18}" height="{height}" rx="8"/>')
    content.append(_text(x + 46, y - 12, "for each cell, under the lock of the drive"))
    for source, target, beside in ((8, 12, 24), (10, 14, 12)):
        x, y = _position(source, left, top)
        _, down = _position(target, left, top)
        edge, out = x + _BOX_WIDTH, x + _BOX_WIDTH + beside
        content.append(_way((edge, y + 30), (out, y + 30), (out, down + 44), (edge, down + 44)))
    x, y = _position(7, left, top)
    return _svg(y + _BOX_HEIGHT + 20, "The life of a cell, from configuration to paper", content)


def request() -> str:
    """Return the drawing of the life of a request in virtual time."""
    left, top = 5, 84
    heading = "Folders of src/twin: each includes only headers of folders to its left"
    content = [*_layers(heading, twin_folders(), 24)]
    for index, box in enumerate(REQUEST):
        content += _box(*_position(index, left, top), index + 1, box)
    content += [*_down((*range(4), *range(5, 9)), left, top), _over(4, left, top)]
    (x, y), (clock_x, clock_y) = _position(9, left, top), _position(2, left, top)
    edge, back = clock_x + _BOX_WIDTH, clock_y + 44
    content.append(_way((x, y + 60), (x - 12, y + 60), (x - 12, back), (edge, back)))
    bottom = y + _BOX_HEIGHT
    content += [
        _text(
            _MARGIN,
            bottom + 26,
            "All events of the drive are in one queue, ordered by time: src/twin/core/event_queue.h.",
        ),
        _text(
            _MARGIN,
            bottom + 43,
            "When every thread waits, the clock jumps to the earliest event, and the host does not wait.",
        ),
        _text(_MARGIN, bottom + 60, "For a hard disk, src/twin/disk/ takes the place of controller, FTL and flash."),
    ]
    return _svg(bottom + 76, "The life of a request in virtual time, from fio's call to its completion", content)


# ---- The table of the page


def _named(place: Place) -> str:
    return f"`{place.file}`: `{place.symbol}`"


def where() -> str:
    """Return the page's table of places in the code."""
    rows = ["| where is … | file and name | tests |", "|---|---|---|"]
    for question, names in WHERE:
        places = [PLACES[name] for name in names]
        tests = dict.fromkeys(f"`{place.test}`" for place in places)
        rows.append(f"| {question} | {'; '.join(map(_named, places))} | {', '.join(tests)} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the text of the page with a new table of places."""
    begin, end = "<!-- where: written by docs/images/draw_architecture.py -->\n", "<!-- end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{where()}\n\n{end}{after}"


if __name__ == "__main__":
    (ROOT / DRAWINGS["cell"]).write_text(cell(), encoding="utf-8")
    (ROOT / DRAWINGS["request"]).write_text(request(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
