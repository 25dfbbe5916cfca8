"""Links, paths, commands, keys and numbers in the documentation."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
import yaml
from support import RECORDED_KINDS, ROOT, file_cell, recorded_file, script

from iopatterns.cli import iopatterns_command
from iopatterns.configuration import config, drive_entries, study_files
from iopatterns.judging import scorecard
from iopatterns.measuring import fio
from iopatterns.raw import cells
from iopatterns.twin import running
from iopatterns.twin.cli import twin_command
from iopatterns.workflow import ablation

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *DOCS,
    ROOT / "src/fio_parser_json/README.md",
    *sorted(ROOT.glob("data/*/README.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
RAW_FILES = (ROOT / "docs/raw-files.md").read_text(encoding="utf-8")

# Paths that a page may name although no checkout has them: results of a run, and examples
MADE = (
    *("quick", "data/raw", "data/scratch", "data/archives", "data/expectations", "data/traces", "results"),
    ".snakemake/iopatterns",
    "data/twins/my-drive.yaml",
)
# A page may also name files of a study that does not exist
PLACES_OF_STUDIES = tuple(place.partition("{study}")[0] for place in study_files.PLACES)
OPTIONS_OF_SNAKEMAKE = {"-n", "--config", "--lint", "--cores", "--profile"}
ALL_STUDIES = {path.stem for path in ROOT.glob("config/studies/*.yaml")}


# ---- Reading pages


def page_of(name: str) -> str:
    text: str = (ROOT / name).read_text(encoding="utf-8")
    return text


def without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def links(text: str) -> list[str]:
    """Return the targets of a page's links and images, except on other hosts."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(text))
    return [target for target in found if "://" not in target]


def is_of_no_study(path: str) -> bool:
    """Return whether a path is the place of a file of a study that does not exist."""
    for place in PLACES_OF_STUDIES:
        if f"{path}/".startswith(place) and "*" not in place:
            return re.split(r"[/.]", f"{path}/".removeprefix(place))[0] not in ALL_STUDIES
    return False


def slug(heading: str) -> str:
    """Return the anchor that GitHub and MkDocs make from a heading."""
    text = re.sub(r"[^\w\s-]", "", re.sub(r"\s*\{#.*\}$|`", "", heading)).strip().lower()
    return re.sub(r"\s", "-", text)


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    given = {match[1] for heading in headings if (match := re.search(r"\{#([^}]+)\}$", heading))}
    return {slug(heading) for heading in headings} | given | set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


def code(text: str) -> Iterator[str]:
    """Yield each code span of a page, and each line of its shell blocks and transcripts."""
    heredoc = re.sub(r"<<'END'\n.*?^END$", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```", heredoc, flags=re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def commands(name: str, program: str) -> list[list[str]]:
    """Return the arguments of each call of a program in a page's code, up to a comment or ``--``."""
    found = []
    for line in code(page_of(name)):
        start = re.match(rf"(?:\$ )?{re.escape(program)}(?= |$)", " ".join(line.split()))
        if start:
            words = shlex.split(" ".join(line.split())[start.end() :], comments=True)
            found.append(words[: words.index("--")] if "--" in words else words)
    return found


# ---- The site


# With --strict, dead links and anchors are errors
@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    return folder


class Html(HTMLParser):
    """Anchors of a built page, and files that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and given.get("rel") != "canonical" and "href" in given:
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.glob("*.html"):
        assert [target for target in Html(path).loaded if re.match(r"(https?:)?//", target)] == [], path.name
    for path in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*|@import", path.read_text(encoding="utf-8")) == [], path.name


@pytest.mark.slow
def test_functions_are_described(site: Path) -> None:
    for name in ("fio_parser_json.jobs", "iopatterns.twin.run_on_twin", "iopatterns.analysis.statistics.mean_interval"):
        assert name in Html(site / "api.html").anchors


# ---- Links and paths


@pytest.mark.parametrize("name", NAMES)
def test_no_link_is_dead(name: str) -> None:
    dead = []
    for target in links(page_of(name)):
        file, _, anchor = target.partition("#")
        path = ((ROOT / name).parent / file).resolve() if file else ROOT / name
        if path.is_relative_to(ROOT) and is_of_no_study(str(path.relative_to(ROOT))):
            continue
        if not path.exists():
            dead.append(target)
        elif anchor and path.suffix == ".md":
            known = anchors(path.read_text(encoding="utf-8"))
            # functions of the API have anchors only in the built site
            if anchor not in known and not any(anchor.startswith(f"{each}.") for each in known):
                dead.append(target)
    assert dead == []


@pytest.mark.parametrize("name", NAMES)
def test_every_named_path_exists(name: str) -> None:
    folders = "|".join(re.escape(path.name) for path in ROOT.iterdir() if path.is_dir() and path.name != "build")
    missing = []
    for span in code(page_of(name)):
        for path in re.findall(rf"(?:^|[\s=`'\[])((?:{folders})/[\w./-]*)", span):
            written = path.rstrip("./")
            template = re.search(re.escape(path) + r"[<{*…]", span)
            if not (template or is_of_no_study(written) or written.startswith(MADE) or (ROOT / written).exists()):
                missing.append(path)
    assert missing == []


def test_overview_and_navigation_have_every_page() -> None:
    linked = {target.partition("#")[0] for target in links(page_of("docs/index.md"))}
    assert {page.name for page in DOCS} - {"index.md"} - linked == set()
    assert [page.name for page in DOCS if f": {page.name}\n" not in page_of("mkdocs.yml")] == []


def imported_by(notebook: Path) -> Iterator[str]:
    """Yield our modules that a notebook imports."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    for statement in ast.walk(tree):
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            within = [f"{statement.module}.{alias.name}" for alias in statement.names]
            names = [name if is_module(name) else statement.module for name in within]
        yield from (name for name in names if name.partition(".")[0] in {"iopatterns", "fio_parser_json"})


def is_module(name: str) -> bool:
    paths = [ROOT / source / name.replace(".", "/") for source in ("src", "src/fio_parser_json")]
    return any(path.with_suffix(".py").is_file() or (path / "__init__.py").is_file() for path in paths)


@pytest.mark.parametrize("notebook", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_the_api_has_every_module_that_a_notebook_imports(notebook: Path) -> None:
    imported = set(imported_by(notebook))
    assert "iopatterns.workflow.notebooks" in imported
    assert imported - anchors(page_of("docs/api.md")) == set()


# ---- Commands


def unknown_words(words: list[str], group: click.Command, said: str) -> list[str]:
    """Return the commands and options among the arguments of a click command that do not exist."""
    assert isinstance(group, click.Group)
    rest = [word for word in words if word not in {"--help", "--version"}]
    if not rest or not re.fullmatch(r"[a-z-]+", rest[0]):
        return []  # the program alone, or a placeholder
    if rest[0] not in group.commands:
        return [f"{said} {rest[0]}"]
    if isinstance(group.commands[rest[0]], click.Group):
        return unknown_words(rest[1:], group.commands[rest[0]], f"{said} {rest[0]}")
    known = {option for parameter in group.commands[rest[0]].params for option in parameter.opts}
    if group is twin_command and rest[0] == "run":
        known = set(re.findall(r"--[a-z-]+", running.USAGE))
    return [f"{said} {rest[0]} {word}" for word in rest[1:] if word.startswith("-") and word not in known]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_of_the_package_exists(name: str) -> None:
    wrong = []
    for program, group in (("iopatterns", iopatterns_command), ("twin", twin_command)):
        for words in commands(name, program):
            wrong += unknown_words(words, group, program)
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_of_reproduce_sh_exists(name: str) -> None:
    labels = set(re.findall(r"^ *((?:--?)?[a-z]+)\)(?: |$)", page_of("reproduce.sh"), flags=re.MULTILINE))
    used = [word for words in commands(name, "./reproduce.sh") for word in words if not (ROOT / word).exists()]
    assert [word for word in used if word not in labels] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_target_and_key_of_snakemake_exists(name: str) -> None:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*")])
    targets = set(re.findall(r"^rule (\w+):", rules, flags=re.MULTILINE))
    targets |= set(re.findall(r'^    name:\n        "([\w-]+)"$', rules, flags=re.MULTILINE))
    targets |= {f"twin_of_{drive}" for drive in (*drive_entries.read_drive_entries(ROOT).entries, "labdisk")}
    # rules take some keys that the configuration does not have
    keys = set(yaml.safe_load(page_of("config/config.yaml"))) | set(re.findall(r'config\.pop\("(\w+)"', rules))
    wrong = []
    for words in commands(name, "snakemake"):
        pairs = [word.partition("=")[0] for word in words if "=" in word]
        wrong += [key for key in pairs if key not in keys | {"repetition"}]  # a page shows this mistake
        rest = [word for word in words if "=" not in word and word not in OPTIONS_OF_SNAKEMAKE]
        rest = [word for word in rest if not (word.startswith("profiles/") and (ROOT / word).is_dir())]
        if "--configfile" in rest:  # the reader of the page writes this file
            at = rest.index("--configfile")
            assert f"cat > {rest[at + 1]} <<" in page_of(name)
            del rest[at : at + 2]
        wrong += [word for word in rest if not word.isdigit() and word not in targets]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_python_script_exists(name: str) -> None:
    for program in ("python", ".venv/bin/python"):
        used = [words[0] for words in commands(name, program) if words and words[0].endswith(".py")]
        assert [path for path in used if not (ROOT / path).is_file()] == []


def test_commands_in_pages_are_found() -> None:
    assert ["--cores", "1", "scorecard"] in commands("README.md", "snakemake")
    assert ["restore"] in commands("docs/real-drives.md", "iopatterns")
    assert ["test"] in commands("README.md", "./reproduce.sh")
    assert unknown_words(["retsore"], iopatterns_command, "iopatterns") == ["iopatterns retsore"]
    assert unknown_words(["scorecard", "--expects"], iopatterns_command, "iopatterns") == [
        "iopatterns scorecard --expects"
    ]


# ---- Numbers


@pytest.mark.slow
def test_generated_numbers_are_those_of_the_recorded_measurements(tmp_path: Path) -> None:
    conf, ablated, studies = config.load_config(ROOT), ablation.load_ablation_records(ROOT), {}
    (tmp_path / "measurements").mkdir()
    for study in conf.studies:
        for kind in RECORDED_KINDS:
            shutil.copy(recorded_file(study, kind), tmp_path / f"measurements/{study}.{kind}")
        studies[study] = scorecard.judge_study(ROOT, study, ablation=ablated.get(study), results=str(tmp_path))
    numbers = script(ROOT / "docs/write_numbers.py")
    for name in numbers.PAGES:
        text = page_of(name)
        assert "written by `snakemake readme`" in text
        assert text == numbers.renewed(text, studies), "`snakemake --cores 1 readme` renews the page"


def test_the_readme_counts_the_results_that_differ_between_versions_of_fio() -> None:
    sums = []
    for version in ("3.33", "3.39"):
        lines = "".join(path.read_text() for path in sorted((ROOT / f"data/manifests/fio-{version}").glob("*.sha256")))
        sums.append(set(re.findall(r"^\w{64}  results/(?:tables|figures|numbers)/.*$", lines, flags=re.MULTILINE)))
    differing = len(sums[0] - sums[1])
    assert f"{differing} of {len(sums[0])} tables, figures and numbers" in page_of("README.md")


def test_run_times_are_on_one_page_only() -> None:
    elsewhere = [name for name in NAMES if name not in {"docs/benchmarks.md", "CHANGELOG.md"}]
    assert [name for name in elsewhere if re.search(r"\d min \d+ s", page_of(name))] == []
    assert "## Run times of the commands\n" in page_of("docs/benchmarks.md")


def test_the_first_result_is_what_the_page_shows(tmp_path: Path) -> None:
    page = page_of("docs/start-here.md")
    (command,) = re.findall(r"^twin run (px05smb040 -- fio .*)$", page, flags=re.MULTILINE)
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    version = shown.splitlines()[1]
    if fio.version() != version:
        pytest.skip(f"the page has the output of {version}")
    twin = [sys.executable, "-m", "iopatterns.twin", "run", "--state", str(tmp_path), *shlex.split(command)]
    done = subprocess.run(twin, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    shown, printed = (re.sub(r"pid=\d+", "pid=", text) for text in (shown, done.stdout))
    assert printed == shown


# ---- Metadata files


def described(content: object) -> Iterator[str]:
    """Yield each key of a metadata file that this package names, without fio's options and settings of drives."""
    if isinstance(content, list):
        for each in content:
            yield from described(each)
    elif isinstance(content, dict):
        for key, value in content.items():
            yield key
            if key not in {"fio", "settings"}:
                yield from described(value)


def test_every_key_of_a_metadata_file_is_described(disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    raw = disk_folder / "data/raw/test/study" / f"cell-{cells.specification_digest(specification)[:8]}" / "01.json"
    command = [sys.executable, "-m", "iopatterns", "measure", "--specification", json.dumps(specification), str(raw)]
    subprocess.run(command, cwd=disk_folder, check=True)
    content = json.loads(raw.with_name("01.sidecar.json").read_text(encoding="utf-8"))
    assert [key for key in described(content) if f"`{key}`" not in RAW_FILES and f".{key}`" not in RAW_FILES] == []


def test_the_example_of_a_metadata_file_is_valid() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```", RAW_FILES, flags=re.MULTILINE | re.DOTALL)
    example = json.loads(text)
    assert f"-{cells.specification_digest(example['specification'])[:8]}`" in RAW_FILES
    assert example["randseed"] == cells.randseed(example["specification"], example["execution"])
    assert [key for key in described(example) if key != "…" and f"`{key}`" not in RAW_FILES] == []
