"""Pack a study into one file, add a packed study to the project, and remove a study.

A package holds the files of a study (`configuration.study_files`), the models in data/twins that no other study uses,
and the references that its section cites.
"""

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

import iopatterns
from iopatterns.base import files, messages, sealed_tar, yaml_files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, grid, kinds, study_files
from iopatterns.raw.metadata_files import metadata_path
from iopatterns.workflow import run_start
from iopatterns.workflow.studies import drive_names_in, study_grid, yaml_mapping

PACKAGE_VERSION = 1
REFERENCES_FILE = "paper/references.yml"
_MODELS = "data/twins"
_DRIVES = "config/drives.yaml"
# Results that are about all studies of a run
_OF_ALL_STUDIES = ("colophon.json", "report.pdf", "scorecard.json")
_RAW = "data/raw"
_RECORDINGS = "recordings.yaml"
_MOST_BYTES = 16 * 2**20


class StudyError(IoPatternsError):
    """A study cannot be packed, added or removed; the message names the file and what to do."""

    exit_status = 2


_FORMAT = sealed_tar.SealedTarFormat(
    "iopatterns study", PACKAGE_VERSION, "package", "iopatterns study pack NAME", StudyError
)


def require_study(root: Path, study: str) -> None:
    """Raise StudyError unless config/studies has a study of this name."""
    known = study_files.study_names(root)
    if study not in known:
        near = yaml_schema.did_you_mean(study, known)
        raise StudyError(
            f"{config.STUDIES_FOLDER}/ has no study '{messages.printable(study)}'.{near} There: {', '.join(known)}."
        )


# ---- Models and references


def study_models(root: Path, study: str) -> set[str]:
    """Return the models in data/twins of the simulated drives that a study names, defines or records on."""
    content = study_grid(root, study)
    recordings = yaml_mapping(root, f"{study_files.WORKLOADS_PLACE.format(study=study)}/{_RECORDINGS}")
    twins, of_user = content.get("twins"), yaml_mapping(root, _DRIVES)
    defined = twins if isinstance(twins, dict) else {}
    found = {entry.get("model") for entry in defined.values() if isinstance(entry, dict)}
    for name in {*drive_names_in(content), *drive_names_in(recordings)} - defined.keys():
        entry = of_user.get(name, {"model": name})
        found.add(entry.get("model") if isinstance(entry, dict) else None)
    return {model for model in found if isinstance(model, str) and _model_file(root, model).is_file()}


def _model_file(root: Path, model: str) -> Path:
    return root / _MODELS / f"{model}.yaml" if sealed_tar.is_plain_name(model) else root / _MODELS


def _own_models(root: Path, study: str) -> list[str]:
    """Return the paths of the models that no other study uses."""
    others = [study_models(root, other) for other in study_files.study_names(root) if other != study]
    return [f"{_MODELS}/{model}.yaml" for model in sorted(study_models(root, study).difference(*others))]


def _references(root: Path) -> dict[str, str]:
    """Return the entries of paper/references.yml as they are written, by key."""
    blocks = re.split(r"^(?=[^\s#:][^:\n]*:\s*$)", _text_if_any(root / REFERENCES_FILE), flags=re.MULTILINE)[1:]
    return {block.partition(":")[0]: block.strip() + "\n" for block in blocks}


def _cited(root: Path, study: str) -> dict[str, str]:
    """Return the entries of paper/references.yml that a study's section cites, and the entry of the study's name."""
    section = _text_if_any(root / study_files.SECTION.format(study=study))
    keys = {study, *re.findall(r"@([\w-]+)", section)}
    return {key: entry for key, entry in _references(root).items() if key in keys}


def _text_if_any(path: Path) -> str:
    """Return the text of a file; an empty text where the file is missing or cannot be read."""
    try:
        return files.read_text_bounded(path, _MOST_BYTES)
    except (FileNotFoundError, files.UnreadableError):
        return ""


# ---- Pack


@dataclass(frozen=True)
class PackResult:
    """A package that was written: its files by path, and what was left out."""

    output: Path
    paths: Sequence[str]
    sha256: str
    left_out: Sequence[str]


def pack_study(root: Path, study: str, output: Path, *, with_raw: bool = False) -> PackResult:
    """Pack a study into ``output``, which is written whole or not at all; the same files give the same bytes.

    ``with_raw`` adds the raw files of simulated drives. Those of real drives are left out: an archive
    (`iopatterns archive`) carries where they were measured. Raises StudyError.
    """
    require_study(root, study)
    if os.path.lexists(output):
        _require_package_of(study, output)
    paths = [path.as_posix() for path in study_files.files_of_study(root, study)] + _own_models(root, study)
    left_out: list[str] = []
    if with_raw:
        raw, left_out = _raw_files(root, study)
        paths += raw
    paths.sort()
    for path in paths:
        _require_packable(root, path)
    manifest = {
        "format": _FORMAT.name,
        "version": PACKAGE_VERSION,
        "study": study,
        "iopatterns": iopatterns.__version__,
        "protocol": grid.PROTOCOL,
        "studies": configured_studies(root),
        "references": _cited(root, study),
        "executable": [path for path in paths if os.access(root / path, os.X_OK)],
        "sha256": {path: files.sha256(root / path) for path in paths},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    contents = ((path, (root / path).read_bytes()) for path in paths)
    members = itertools.chain([(sealed_tar.MANIFEST_MEMBER, text.encode())], contents)
    try:
        files.write_atomically(output, lambda temporary: sealed_tar.write_sealed_tar(temporary, members))
    except ValueError as error:
        raise StudyError(f"{error}. Give the file a shorter name.") from None
    return PackResult(output, paths, files.sha256(output), left_out)


def _require_package_of(study: str, output: Path) -> None:
    """Raise StudyError where a file is something else than a package of a study, which a new one replaces."""
    try:
        is_same = StudyPackage.open(output).study == study
    except StudyError:
        is_same = False
    if not is_same:
        raise StudyError(
            f"{output}: there already, and not a package of '{study}'. Give another path with --output, or delete it."
        )


def _require_packable(root: Path, path: str) -> None:
    """Raise StudyError for a file that a package cannot hold."""
    state = os.lstat(root / path)
    if stat.S_ISLNK(state.st_mode):
        raise StudyError(f"{path}: a link, and a package holds files. Put a copy of its target there.")
    if not stat.S_ISREG(state.st_mode):
        raise StudyError(f"{path}: no plain file. Move it away.")
    if not all(map(sealed_tar.is_plain_name, path.split("/"))):
        raise StudyError(f"{messages.printable(path)}: no name that a package can hold. Rename the file.")
    if state.st_size > sealed_tar.MAX_MEMBER_BYTES:
        raise StudyError(
            f"{path}: has {state.st_size} bytes, and a file in a package has at most {sealed_tar.MAX_MEMBER_BYTES}."
            " Pass it on by itself."
        )


def _raw_files(root: Path, study: str) -> tuple[list[str], list[str]]:
    """Return the raw files of a study on simulated drives, and the real drives that are left out."""
    found: list[str] = []
    left_out = []
    for folder in sorted((root / _RAW).glob(f"[!.]*/{study}")):
        raws = sorted(folder.glob("[!.]*/[!.]*"))
        if raws and _is_simulated(raws):
            found += [path.relative_to(root).as_posix() for path in raws]
        elif raws:
            left_out.append(folder.parent.name)
    return found, left_out


def _is_simulated(raws: Sequence[Path]) -> bool:
    """Return whether raw files are of a simulated drive, by the metadata of the first."""
    try:
        metadata = json.loads(next(path for path in map(metadata_path, raws) if path.exists()).read_bytes())
        return metadata["specification"]["drive"]["kind"] in kinds.SIMULATED_KINDS
    except (StopIteration, OSError, ValueError, LookupError, TypeError):
        return False


def configured_studies(root: Path) -> list[str]:
    """Return ``studies`` of config.yaml."""
    found = yaml_mapping(root, config.CONFIG_FILE).get("studies")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


# ---- Add


class StudyPackage(
    msgspec.Struct, frozen=True, rename={"version": "iopatterns", "listed": "studies", "sums": "sha256"}
):
    """The checked manifest of a package.

    Attributes:
        path: The file.
        study: The name of the study.
        version: The version of iopatterns that packed it.
        protocol: The protocol of raw files of that version.
        listed: The studies that were configured when the study was packed, in their order.
        references: Entries for paper/references.yml, by key.
        executable: The paths of executable files.
        sums: The SHA-256 sum of each file by path, in the order of the package.
    """

    path: Path
    study: str
    version: str
    protocol: int
    listed: Sequence[str]
    references: Mapping[str, str]
    executable: frozenset[str]
    sums: Mapping[str, Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]]

    @classmethod
    def open(cls, path: Path) -> "StudyPackage":
        """Return the manifest of a package; the other members are not read. Raises StudyError."""
        with sealed_tar.open_sealed_tar(path, _FORMAT) as file:
            return cls._read(path, sealed_tar.SealedTarReader(path, file, _FORMAT))

    @classmethod
    def _read(cls, path: Path, reader: sealed_tar.SealedTarReader) -> "StudyPackage":
        manifest = reader.manifest()
        try:
            package = msgspec.convert({**manifest, "path": path}, cls)
            package._require_form()
        except (ValueError, RecursionError) as error:
            raise reader.malformed(error) from None
        for name in package.sums:
            if not package._is_place(name):
                raise reader.escape(name)
        return package

    def _require_form(self) -> None:
        """Raise ValueError where the manifest holds something else than `pack_study` writes."""
        if not study_files.is_study_name(self.study) or not self.version.isprintable():
            raise ValueError("study")
        if not self.executable <= self.sums.keys():
            raise ValueError("executable")
        if study_files.GRID.format(study=self.study) not in self.sums:
            raise ValueError("no grid")
        if any(str(folder) in self.sums for path in self.sums for folder in PurePosixPath(path).parents):
            raise ValueError("a file in a file")
        for key, entry in self.references.items():
            content = yaml_files.parse_yaml(entry)
            if not isinstance(content, dict) or list(content) != [key] or not entry.startswith(f"{key}:"):
                raise ValueError("references")

    def _is_place(self, path: str) -> bool:
        """Return whether a file of the package may have this path."""
        parts = path.split("/")
        if not all(map(sealed_tar.is_plain_name, parts)):
            return False
        is_model = len(parts) == 3 and path.startswith(f"{_MODELS}/") and path.endswith(".yaml")
        is_raw = len(parts) == 6 and path.startswith(f"{_RAW}/") and parts[3] == self.study
        return is_model or is_raw or study_files.belongs_to_study(path, self.study)

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each file; when all are yielded, the package is whole. Raises StudyError."""
        with sealed_tar.open_sealed_tar(self.path, _FORMAT) as file:
            reader = sealed_tar.SealedTarReader(self.path, file, _FORMAT)
            if StudyPackage._read(self.path, reader) != self:
                raise StudyError(f"{self.path}: has changed while it was read. Add it again.")
            yield from reader.members(self.sums)


@dataclass(frozen=True)
class Addition:
    """What adding a package changes in the project, computed before anything is written."""

    root: Path
    package: StudyPackage
    title: str
    new: Sequence[str]
    same: Sequence[str]
    new_references: Mapping[str, str]
    is_listed: bool

    @classmethod
    def of(cls, root: Path, path: Path) -> "Addition":
        """Return what adding a package would change. Raises StudyError where it is damaged, or would overwrite."""
        package = StudyPackage.open(path)
        grid_file, title = study_files.GRID.format(study=package.study), ""
        new: list[str] = []
        same: list[str] = []
        others: list[str] = []
        for name, content in package.members():
            if name == grid_file:
                title = _title(path, content)
            target = root / name
            if not os.path.lexists(target):
                if blocking := _blocking(root, name):
                    others.append(blocking)
                new.append(name)
            elif target.is_symlink() or not target.is_file() or target.read_bytes() != content:
                others.append(name)
            else:
                same.append(name)
        if others:
            raise StudyError(
                "\n".join(
                    [
                        f"{path}: other files are where the study '{package.study}' has its files, so nothing was"
                        " written. Move them away, or remove the study that they belong to:",
                        *dict.fromkeys(others),
                    ]
                )
            )
        there = _references(root)
        references = {key: entry for key, entry in package.references.items() if key not in there}
        return cls(root, package, title, new, same, references, package.study in configured_studies(root))

    @property
    def is_empty(self) -> bool:
        """Whether the project has all of the package already."""
        return self.is_listed and not self.new and not self.new_references

    def text(self) -> str:
        """Return for people what would be written, and what adding a study means."""
        package, study = self.package, self.package.study
        lines = [f"{package.path}: study '{study}', {self.title}; packed by iopatterns {package.version}"]
        if package.protocol != grid.PROTOCOL:
            lines.append(
                f"  packed with protocol {package.protocol}; this one has protocol {grid.PROTOCOL}: its raw files and"
                " sums are not those of a run here"
            )
        if self.new:
            lines += [f"Files to write: {len(self.new)}", *(f"  {name}" for name in self.new)]
        if self.same:
            lines.append(f"There already, with the same content: {len(self.same)} files")
        if not self.is_listed:
            lines.append(f"To add to {config.CONFIG_FILE}, studies: {study}")
        if self.new_references:
            lines.append(f"To add to {REFERENCES_FILE}: {', '.join(self.new_references)}")
        if self.is_empty:
            return "\n".join([*lines, "Nothing is to be added."])
        lines.append(
            "A study is code: its notebook, the module beside it, its programs and its tests run with your rights. Add"
            " it only if you trust its author."
        )
        return "\n".join(lines)

    def write(self) -> None:
        """Write all files, references and the name of the study, or nothing. Raises StudyError."""
        texts, wanted = self._edited_texts(), set(self.new)
        with contextlib.ExitStack() as undo:
            for name, content in self.package.members():
                if name in wanted:
                    self._write_new(name, content, undo)
            for path, (before, after) in texts.items():
                undo.callback(files.write_text, path, before)
                files.write_text(path, after)
            undo.pop_all()

    def _edited_texts(self) -> dict[Path, tuple[str, str]]:
        """Return references.yml and config.yaml as they are and as they will be; config.yaml is written last."""
        texts, study = {}, self.package.study
        if self.new_references:
            before = _text(self.root, REFERENCES_FILE)
            after = "\n".join([before.rstrip("\n") + "\n", *self.new_references.values()])
            yaml_files.parse_yaml(after)  # each entry was read by itself, and none of their keys is there
            texts[(self.root / REFERENCES_FILE).resolve()] = (before, after)
        if not self.is_listed:
            listed = list(self.package.listed)
            preceding = listed[: listed.index(study)] if study in listed else configured_studies(self.root)
            edit = functools.partial(yaml_files.add_list_item, key="studies", item=study, preceding=preceding)
            texts[(self.root / config.CONFIG_FILE).resolve()] = _edited(self.root, config.CONFIG_FILE, edit)
        return texts

    def _write_new(self, name: str, content: bytes, undo: contextlib.ExitStack) -> None:
        """Write a file that is not there, and the folders on the way to it."""
        target = self.root / name
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir()
                undo.callback(folder.rmdir)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        undo.callback(target.unlink)
        with open(descriptor, "wb") as file:
            file.write(content)
            if name in self.package.executable:
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) | 0o111)
            file.flush()
            os.fsync(file.fileno())


def _blocking(root: Path, name: str) -> str:
    """Return the first part of the way to a new file that is there and no folder; nothing where there is none."""
    for length in range(1, len(Path(name).parts)):
        part = Path(*Path(name).parts[:length])
        if os.path.lexists(root / part) and not (root / part).is_dir():
            return str(part)
    return ""


def _title(path: Path, grid_text: bytes) -> str:
    """Return the title in a packed grid. Raises StudyError where it is no grid."""
    try:
        content = yaml_files.parse_yaml(grid_text.decode())
        title = content["title"]
    except (ValueError, LookupError, TypeError) as error:
        raise StudyError(
            f"{path}: its grid cannot be read: {messages.printable(error)}. Have it packed anew."
        ) from None
    return messages.printable(title)


def _text(root: Path, file: str) -> str:
    """Return the text of a file of the project. Raises StudyError."""
    try:
        return files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
    except (FileNotFoundError, files.UnreadableError) as error:
        raise StudyError(f"{file}: cannot be read: {error}. Run this in the project's folder.") from None


def _edited(root: Path, file: str, edit: Callable[[str], str]) -> tuple[str, str]:
    """Return the text of a file before and after an edit. Raises StudyError where the file has another form."""
    text = _text(root, file)
    try:
        return text, edit(text)
    except yaml_files.YamlError as error:
        raise StudyError(f"{file}: cannot be edited: {error}. Edit it by hand.") from None


# ---- Remove


@dataclass(frozen=True)
class Removal:
    """What removing a study deletes and edits, computed before anything is deleted.

    Attributes:
        root: The folder of the project.
        study: The name of the study.
        paths: Files, folders and links to delete, relative to the project, by what they are.
        texts: Configuration files by path, as they will be.
    """

    root: Path
    study: str
    paths: Mapping[str, Sequence[Path]]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, root: Path, study: str, *, keep_raw: bool = False) -> "Removal":
        """Return what removing a study would change. Raises StudyError where another study needs a part of it."""
        if not study_files.is_study_name(study):
            raise StudyError(f"'{messages.printable(study)}' is no name of a study.")
        raw = sorted(path.relative_to(root) for path in (root / _RAW).glob(f"[!.]*/{study}"))
        paths = {
            "results": _results(root, study),
            "raw files": [] if keep_raw else raw,
            "models that no other study uses": [Path(path) for path in _models_to_remove(root, study)],
            "files": list(study_files.existing_places(root, study)),
        }
        if not any(paths.values()):
            require_study(root, study)
        _require_unneeded(root, study)
        return cls(root, study, paths, dict(_texts_without(root, study)))

    def text(self) -> str:
        """Return for people what would be deleted."""
        lines = [f"Study '{self.study}'. To delete:"]
        for what, paths in self.paths.items():
            if paths:
                count = sum(_count(self.root / path) for path in paths)
                lines += [f"{what} ({count} {'file' if count == 1 else 'files'}):", *(f"  {path}" for path in paths)]
        lines += [f"To edit: studies in {file}" for file in self.texts]
        return "\n".join(lines)

    def remove(self) -> None:
        """Delete and edit; links are unlinked, their targets stay. Raises RunLockError while a run is measuring."""
        with contextlib.ExitStack() as locked:
            if (self.root / _RAW).is_dir():
                locked.callback(os.close, run_start.lock_raw_folder(self.root / _RAW))
            for file, text in self.texts.items():
                files.write_text((self.root / file).resolve(), text)
            # the grid determines the models of the study: with it deleted last, an interrupted removal can be repeated
            every = [path for paths in self.paths.values() for path in paths]
            last = Path(study_files.GRID.format(study=self.study))
            for path in sorted(every, key=lambda path: path == last):
                target = self.root / path
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink(missing_ok=True)
                if path.is_relative_to(_RAW):
                    with contextlib.suppress(OSError):  # a drive's folder goes with its last study
                        target.parent.rmdir()


def _count(path: Path) -> int:
    """Return the number of files and links at or below a path."""
    if path.is_symlink() or not path.is_dir():
        return 1
    return sum(each.is_symlink() or not each.is_dir() for each in path.rglob("*"))


def _results(root: Path, study: str) -> list[Path]:
    """Return what runs have written for a study: tables, figures, numbers, measurements, notebooks and logs."""
    own: set[Path] = set()
    for folder in config.results_folders(root):
        found = {*folder.glob(f"*/{study}"), *folder.glob(f"*/{study}.*"), *folder.glob(f"logs/*/{study}.*")}
        logs = folder.glob(f"logs/measure/*/measure_{study}_*.log")
        found |= {log for log in logs if re.fullmatch(rf"measure_{study}_\d+\.log", log.name)}
        if found:  # the scorecard and the report of these results are about the study, too
            found |= {path for name in _OF_ALL_STUDIES if (path := folder / name).exists()}
        own |= found
    return sorted(path.relative_to(root) for path in own)


def _models_to_remove(root: Path, study: str) -> Iterator[str]:
    """Yield the paths of the models that neither another study nor a drive of config/drives.yaml uses."""
    of_user = {entry.get("model") for entry in yaml_mapping(root, _DRIVES).values() if isinstance(entry, dict)}
    for path in _own_models(root, study):
        if Path(path).stem not in of_user:
            yield path


def _require_unneeded(root: Path, study: str) -> None:
    """Raise StudyError where the grid or the recordings of another study name traces or workloads of this one."""
    for other in study_files.study_names(root):
        recordings = f"{study_files.WORKLOADS_PLACE.format(study=other)}/{_RECORDINGS}"
        for file in (study_files.GRID.format(study=other), recordings):
            for folder in (study_files.TRACES_PLACE, study_files.WORKLOADS_PLACE):
                needed = f"{folder.format(study=study)}/"
                if other != study and any(needed in text for text in _texts_in(yaml_mapping(root, file))):
                    raise StudyError(
                        f"'{study}' cannot be removed: {file} uses files in {needed}. Remove '{other}' first, or give"
                        " it files of its own."
                    )


def _texts_in(content: Any) -> Iterator[str]:
    """Yield each text in what a YAML file holds."""
    if isinstance(content, dict):
        for value in content.values():
            yield from _texts_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts_in(value)
    elif isinstance(content, str):
        yield content


def _texts_without(root: Path, study: str) -> Iterator[tuple[str, str]]:
    """Yield config.yaml without a study, if the file names the study. Raises StudyError."""
    names = configured_studies(root)
    if study not in names:
        return
    if names == [study]:
        raise StudyError(f"{config.CONFIG_FILE}: studies: '{study}' is the only study. Name another one there first.")
    without = functools.partial(yaml_files.remove_list_item, key="studies", item=study)
    yield config.CONFIG_FILE, _edited(root, config.CONFIG_FILE, without)[1]
