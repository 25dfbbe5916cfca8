"""Pack a study into one file, add a packed study to a project, and remove a study.

A study is one source document and the experiments that reproduce it. A package is a tar file with a checked manifest.
It contains the files of a study (see `configuration.study_files`), the models in data/twins that no other study uses,
and the bibliography entries that the study's section of the report cites.
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
from typing import Annotated

import msgspec

import iopatterns
from iopatterns.base import files, messages, sealed_tar, yaml_files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.ownership import OutputFile
from iopatterns.configuration import config, grid, kinds, study_files
from iopatterns.raw.metadata_files import metadata_path
from iopatterns.workflow import run_start
from iopatterns.workflow.studies import drive_names_in, study_grid, yaml_mapping

PACKAGE_VERSION = 1
REFERENCES_FILE = "paper/references.yml"
_MODELS = "data/twins"
_DRIVES = "config/drives.yaml"
# Results of all studies of a run together
_OF_ALL_STUDIES = ("colophon.json", "report.pdf", "scorecard.json")
_RAW = "data/raw"
_RECORDINGS = "recordings.yaml"
_MOST_BYTES = 16 * 2**20


class StudyError(IoPatternsError):
    """A study cannot be packed, added or removed.

    The message has the cause and the remedy.
    """

    exit_status = 2


_FORMAT = sealed_tar.SealedTarFormat(
    "iopatterns study", PACKAGE_VERSION, "package", "iopatterns study pack NAME", StudyError
)


def require_study(root: Path, study: str) -> None:
    """Raise StudyError unless config/studies contains a study of this name.

    Args:
        root: The project's folder.
        study: The name of the study.
    """
    known = study_files.study_names(root)
    if study not in known:
        near = yaml_schema.did_you_mean(study, known)
        raise StudyError(
            f"{config.STUDIES_FOLDER}/ has no study '{messages.printable(study)}'.{near} Studies: {', '.join(known)}."
        )


# ---- Models and references


def study_models(root: Path, study: str) -> set[str]:
    """Return the names of the models in data/twins that a study uses.

    A study uses the models of these simulated drives:

    - the drives that the study's file names or defines
    - the drives on which the study's traces are recorded

    Names without a model file in data/twins are left out.

    Args:
        root: The project's folder.
        study: The name of the study.
    """
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
    """Return the paths of the model files that only this study uses.

    The paths are relative to the project's folder.
    """
    others = [study_models(root, other) for other in study_files.study_names(root) if other != study]
    return [f"{_MODELS}/{model}.yaml" for model in sorted(study_models(root, study).difference(*others))]


def _references(root: Path) -> dict[str, str]:
    """Return the text of each bibliography entry in paper/references.yml, by key."""
    blocks = re.split(r"^(?=[^\s#:][^:\n]*:\s*$)", _text_if_any(root / REFERENCES_FILE), flags=re.MULTILINE)[1:]
    return {block.partition(":")[0]: block.strip() + "\n" for block in blocks}


def _cited(root: Path, study: str) -> dict[str, str]:
    """Return the bibliography entries that a study's section cites, by key.

    An entry with the name of the study as key is included.
    """
    section = _text_if_any(root / study_files.SECTION.format(study=study))
    keys = {study, *re.findall(r"@([\w-]+)", section)}
    return {key: entry for key, entry in _references(root).items() if key in keys}


def _text_if_any(path: Path) -> str:
    """Return the text of a file; empty if the file is missing or cannot be read."""
    try:
        return files.read_text_bounded(path, _MOST_BYTES)
    except (FileNotFoundError, files.UnreadableError):
        return ""


# ---- Pack


@dataclass(frozen=True)
class PackResult:
    """The result of packing a study into one file, the package.

    Attributes:
        output: The path of the package.
        paths: The paths of the packed files, relative to the project's folder.
        sha256: The SHA-256 checksum of the package.
        left_out: The names of the drives whose raw files were left out, because no metadata file shows that the drive
            is simulated. Empty if no raw files were to be packed.
    """

    output: Path
    paths: Sequence[str]
    sha256: str
    left_out: Sequence[str]


def pack_study(root: Path, study: str, output: Path, *, with_raw: bool = False, overwrite: bool = False) -> PackResult:
    """Pack a study into one file. The same study gives the same bytes.

    The file contains the files of the study, the models in data/twins that no other study uses, and the bibliography
    entries that the study cites.

    Args:
        root: The project's folder.
        study: The name of the study.
        output: The path of the file to write, such as ``gap.tar.xz``. The file is written completely or not at all. An
            existing file is only replaced if it is a package of this study.
        with_raw: Whether to include the raw files of simulated drives. Raw files of real drives are left out: they need
            an archive (`iopatterns archive`), which records where they were measured.
        overwrite: Whether any existing file is replaced.

    Raises:
        StudyError: There is no such study, or a file cannot be packed.
        OutputError: The output exists and is not a package of this study.
    """
    require_study(root, study)
    package = OutputFile(output, overwrite=overwrite, is_ours=lambda path: _is_package_of(study, path))
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
        with package as temporary:
            sealed_tar.write_sealed_tar(temporary, members)
    except ValueError as error:
        raise StudyError(f"{error}. Give the file a shorter name.") from None
    return PackResult(output, paths, files.sha256(output), left_out)


def _is_package_of(study: str, path: Path) -> bool:
    """Return whether a file is a package of a study."""
    try:
        return StudyPackage.open(path).study == study
    except StudyError:
        return False


def _require_packable(root: Path, path: str) -> None:
    """Raise StudyError if a package cannot contain a file.

    A packed file is a regular file with a plain name and a limited size.

    Args:
        root: The project's folder.
        path: The path of the file, relative to `root`.
    """
    state = os.lstat(root / path)
    if stat.S_ISLNK(state.st_mode):
        raise StudyError(f"{path}: a package cannot contain a link. Replace it by a copy of its target.")
    if not stat.S_ISREG(state.st_mode):
        raise StudyError(f"{path}: not a regular file. Move it out of the study.")
    if not all(map(sealed_tar.is_plain_name, path.split("/"))):
        raise StudyError(f"{messages.printable(path)}: a package cannot contain this file name. Rename the file.")
    if state.st_size > sealed_tar.MAX_MEMBER_BYTES:
        raise StudyError(
            f"{path}: {state.st_size} bytes are more than a packed file may have ({sealed_tar.MAX_MEMBER_BYTES})."
            " Distribute this file separately."
        )


def _raw_files(root: Path, study: str) -> tuple[list[str], list[str]]:
    """Return the raw files of a study that can be packed, and the drives left out.

    Returns:
        The paths of the study's raw files on simulated drives, relative to the project's folder; and the names of the
        other drives on which the study was measured.
    """
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
    """Return whether the raw files in a folder are from a simulated drive.

    The first existing metadata file decides. Without a readable one, the result is False.
    """
    try:
        metadata = json.loads(next(path for path in map(metadata_path, raws) if path.exists()).read_bytes())
        return metadata["specification"]["drive"]["kind"] in kinds.SIMULATED_KINDS
    except (StopIteration, OSError, ValueError, LookupError, TypeError):
        return False


def configured_studies(root: Path) -> list[str]:
    """Return the studies that config/config.yaml names, in its order.

    The list is empty if the file is missing or invalid.

    Args:
        root: The project's folder.
    """
    found = yaml_mapping(root, config.CONFIG_FILE).get("studies")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


# ---- Add


class StudyPackage(
    msgspec.Struct, frozen=True, rename={"version": "iopatterns", "listed": "studies", "sums": "sha256"}
):
    """A package of a study: the path of the file, and the content of its manifest.

    A package is a tar file that `pack_study` wrote. Its manifest lists and describes the packed files.

    Attributes:
        path: The path of the package.
        study: The name of the study.
        version: The version of iopatterns that packed the study.
        protocol: The number of the measurement protocol of that version. With another protocol, a run gives other raw
            files.
        listed: The names of the studies that were configured when the study was packed, in their order.
        references: The bibliography entries for paper/references.yml, as YAML text, by key.
        executable: The paths of the packed files that are executable.
        sums: The SHA-256 checksum of each packed file, by path, in the order of the package. Paths are relative to a
            project's folder.
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
        """Open a package and check its manifest, without reading the packed files.

        Args:
            path: The path of the package.

        Raises:
            StudyError: The file is missing or is not a valid package.
        """
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
        """Raise ValueError if the manifest cannot have been written by `pack_study`."""
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
        """Return whether a package of this study may contain a file with this path.

        Valid places are those of the study's own files, model files and raw files. The check keeps a package from
        writing elsewhere.
        """
        parts = path.split("/")
        if not all(map(sealed_tar.is_plain_name, parts)):
            return False
        is_model = len(parts) == 3 and path.startswith(f"{_MODELS}/") and path.endswith(".yaml")
        is_raw = len(parts) == 6 and path.startswith(f"{_RAW}/") and parts[3] == self.study
        return is_model or is_raw or study_files.belongs_to_study(path, self.study)

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and content of each packed file, after verifying its checksum.

        Paths are relative to a project's folder, in the order of the package.

        Raises:
            StudyError: The package is damaged or has changed since it was opened. The error may be raised after all
                files have been yielded.
        """
        with sealed_tar.open_sealed_tar(self.path, _FORMAT) as file:
            reader = sealed_tar.SealedTarReader(self.path, file, _FORMAT)
            if StudyPackage._read(self.path, reader) != self:
                raise StudyError(f"{self.path}: has changed while it was read. Run the command again.")
            yield from reader.members(self.sums)


@dataclass(frozen=True)
class Addition:
    """What adding a package changes in a project, computed before anything is written.

    A package is a file with a packed study. `Addition.of` computes the changes, and `write` makes them.

    Attributes:
        root: The project's folder.
        package: The package.
        title: The title of the study.
        new: The paths of the files to write, relative to `root`.
        same: The paths of the files that exist with the same content, relative to `root`.
        new_references: The entries to add to paper/references.yml, as YAML text, by key.
        is_listed: Whether config/config.yaml names the study already.
    """

    root: Path
    package: StudyPackage
    title: str
    new: Sequence[str]
    same: Sequence[str]
    new_references: Mapping[str, str]
    is_listed: bool

    @classmethod
    def of(cls, root: Path, path: Path) -> "Addition":
        """Determine the changes that adding a package would make, without making them.

        All files of the package are read and compared with the files of the project.

        Args:
            root: The project's folder.
            path: The path of the package.

        Raises:
            StudyError: The package is damaged, or contains a file that exists in the project with another content.
        """
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
            message = (
                f"{path}: nothing was written, because other files have the paths of files of the study"
                f" '{package.study}'. Move them away, or remove the study that they belong to:"
            )
            raise StudyError("\n".join([message, *dict.fromkeys(others)]))
        existing = _references(root)
        references = {key: entry for key, entry in package.references.items() if key not in existing}
        return cls(root, package, title, new, same, references, package.study in configured_studies(root))

    @property
    def is_empty(self) -> bool:
        """Whether the project contains the package already, so that nothing is to change."""
        return self.is_listed and not self.new and not self.new_references

    def text(self) -> str:
        """Return a description of the changes for the user, as several lines.

        The text warns that a study contains code, unless nothing is to be changed. If the package was made with another
        measurement protocol, the text says that a run gives other raw files.
        """
        package, study = self.package, self.package.study
        lines = [f"{package.path}: study '{study}', {self.title}; packed by iopatterns {package.version}"]
        if package.protocol != grid.PROTOCOL:
            lines.append(
                f"  It was packed with protocol {package.protocol}. This version has protocol {grid.PROTOCOL}, so that"
                " a run gives other raw files and checksums."
            )
        if self.new:
            lines += [f"Files to write: {len(self.new)}", *(f"  {name}" for name in self.new)]
        if self.same:
            lines.append(f"Files that exist with the same content: {len(self.same)}")
        if not self.is_listed:
            lines.append(f"To be added to {config.CONFIG_FILE}, studies: {study}")
        if self.new_references:
            lines.append(f"To be added to {REFERENCES_FILE}: {', '.join(self.new_references)}")
        if self.is_empty:
            return "\n".join([*lines, "The project contains all of this already."])
        lines.append(
            "A study contains code: its notebook, the module beside it, its programs and its tests run with your"
            " rights. Add it only if you trust its author."
        )
        return "\n".join(lines)

    def write(self) -> None:
        """Write the files, and add the study to config.yaml and the bibliography.

        These two files are config/config.yaml and paper/references.yml. After an error, all changes are undone.

        Raises:
            StudyError: The package is damaged or has changed, or a file of the project cannot be edited.
        """
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
        """Return the old and new text of the bibliography and config.yaml, by path.

        A file that does not change is left out.
        """
        texts, study = {}, self.package.study
        if self.new_references:

            def with_new(text: str) -> str:
                return "\n".join([text.rstrip("\n") + "\n", *self.new_references.values()])

            edited = _edited(self.root, REFERENCES_FILE, with_new)
            yaml_files.parse_yaml(edited[1])  # each entry is valid by itself, and its key is new
            texts[(self.root / REFERENCES_FILE).resolve()] = edited
        if not self.is_listed:
            listed = list(self.package.listed)
            preceding = listed[: listed.index(study)] if study in listed else configured_studies(self.root)
            edit = functools.partial(yaml_files.add_list_item, key="studies", item=study, preceding=preceding)
            texts[(self.root / config.CONFIG_FILE).resolve()] = _edited(self.root, config.CONFIG_FILE, edit)
        return texts

    def _write_new(self, name: str, content: bytes, undo: contextlib.ExitStack) -> None:
        """Write a file of the package that does not exist yet, and its missing folders.

        Args:
            name: The path of the file, relative to the project's folder.
            content: The content of the file.
            undo: A stack to which the removal of file and folders is added.
        """
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
    """Return the first parent of a new file that exists but is not a folder.

    The text is empty if there is no such parent.

    Args:
        root: The project's folder.
        name: The path of the new file, relative to `root`.
    """
    parents = [str(path) for path in reversed(Path(name).parents[:-1])]
    return next((path for path in parents if os.path.lexists(root / path) and not (root / path).is_dir()), "")


def _title(path: Path, grid_text: bytes) -> str:
    """Return the title of a packed study.

    Args:
        path: The path of the package, for the error message.
        grid_text: The content of the packed config/studies/<study>.yaml.

    Raises:
        StudyError: The content is invalid.
    """
    try:
        return messages.printable(yaml_files.parse_yaml(grid_text.decode())["title"])
    except (ValueError, LookupError, TypeError) as error:
        raise StudyError(
            f"{path}: its grid cannot be read: {messages.printable(error)}. Ask its author for another package."
        ) from None


def _edited(root: Path, file: str, edit: Callable[[str], str]) -> tuple[str, str]:
    """Return the text of a file of the project before and after an edit.

    Args:
        root: The project's folder.
        file: The path of the file, relative to `root`.
        edit: A function that returns the new text for the old text.

    Raises:
        StudyError: The file cannot be read or edited.
    """
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
        return text, edit(text)
    except (FileNotFoundError, files.UnreadableError) as error:
        raise StudyError(f"{file}: cannot be read: {error}. Run this command in the project's folder.") from None
    except yaml_files.YamlError as error:
        raise StudyError(f"{file}: cannot be edited: {error}. Edit it by hand.") from None


# ---- Remove


@dataclass(frozen=True)
class Removal:
    """What removing a study changes in a project, computed before anything is deleted.

    `Removal.of` computes the changes, and `remove` makes them.

    Attributes:
        root: The project's folder.
        study: The name of the study.
        paths: The paths of the files, folders and links to delete, relative to the project's folder, by kind. A kind is
            a text for the user: ``results``, ``raw files``, ``models that no other study uses`` or ``files``.
        config_text: The new text of config/config.yaml; None if the file does not name the study.
    """

    root: Path
    study: str
    paths: Mapping[str, Sequence[Path]]
    config_text: str | None

    @classmethod
    def of(cls, root: Path, study: str, *, keep_raw: bool = False) -> "Removal":
        """Determine the changes that removing a study would make, without making them.

        Args:
            root: The project's folder.
            study: The name of the study.
            keep_raw: Whether to keep the raw files of the study. A raw file is what fio wrote in one repetition.

        Raises:
            StudyError: There is nothing to remove, another study needs files of this study, this study is the only one
                that config/config.yaml names, or config/config.yaml cannot be edited.
        """
        if not study_files.is_study_name(study):
            raise StudyError(f"'{messages.printable(study)}' cannot be the name of a study.")
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
        return cls(root, study, paths, _config_without(root, study))

    def text(self) -> str:
        """Return what the removal of the study will delete and edit, as lines for the user.

        The paths to delete are listed in groups, such as the results and the raw files of the study. The last line says
        if the study is also removed from config/config.yaml.
        """
        lines = [f"Study '{self.study}'. To delete:"]
        for what, paths in self.paths.items():
            if paths:
                count = sum(_count(self.root / path) for path in paths)
                lines += [f"{what} ({count} {'file' if count == 1 else 'files'}):", *(f"  {path}" for path in paths)]
        if self.config_text is not None:
            lines.append(f"To edit: studies in {config.CONFIG_FILE}")
        return "\n".join(lines)

    def remove(self) -> None:
        """Delete the files, and remove the study from config/config.yaml.

        A link is deleted, but not its target. An interrupted removal can be repeated.

        Raises:
            RunLockError: A run is measuring in this project.
            ConfigError: The folder of raw files cannot be written.
        """
        with contextlib.ExitStack() as locked:
            if (self.root / _RAW).is_dir():
                locked.callback(os.close, run_start.lock_raw_folder(self.root / _RAW))
            if self.config_text is not None:
                files.write_text((self.root / config.CONFIG_FILE).resolve(), self.config_text)
            # the grid names the models of the study: if it is deleted last, an interrupted removal can be repeated
            every = [path for paths in self.paths.values() for path in paths]
            last = Path(study_files.GRID.format(study=self.study))
            for path in sorted(every, key=lambda path: path == last):
                target = self.root / path
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink(missing_ok=True)
                if path.is_relative_to(_RAW):
                    with contextlib.suppress(OSError):  # the folder of the drive may have raw files of other studies
                        target.parent.rmdir()


def _count(path: Path) -> int:
    """Return the number of files and links at a path or below it."""
    if path.is_symlink() or not path.is_dir():
        return 1
    return sum(each.is_symlink() or not each.is_dir() for each in path.rglob("*"))


def _results(root: Path, study: str) -> list[Path]:
    """Return the paths of all results of a study, relative to the project's folder.

    These are tables, figures, numbers, measurements, executed notebooks and logs, in every results folder. Files about
    all studies together, such as report.pdf, are included if their folder has results of the study.
    """
    own: set[Path] = set()
    for folder in config.results_folders(root):
        found = {*folder.glob(f"*/{study}"), *folder.glob(f"*/{study}.*"), *folder.glob(f"logs/*/{study}.*")}
        logs = folder.glob(f"logs/measure/*/measure_{study}_*.log")
        found |= {log for log in logs if re.fullmatch(rf"measure_{study}_\d+\.log", log.name)}
        if found:  # scorecard and report of this folder contain the study, too
            found |= {path for name in _OF_ALL_STUDIES if (path := folder / name).exists()}
        own |= found
    return sorted(path.relative_to(root) for path in own)


def _models_to_remove(root: Path, study: str) -> Iterator[str]:
    """Yield the paths of model files that only this study uses.

    Models of the user's own drives are left out. The paths are relative to the project's folder.
    """
    of_user = {entry.get("model") for entry in yaml_mapping(root, _DRIVES).values() if isinstance(entry, dict)}
    for path in _own_models(root, study):
        if Path(path).stem not in of_user:
            yield path


def _require_unneeded(root: Path, study: str) -> None:
    """Raise StudyError if another study uses traces or workload files of this study."""
    places = [f"{place.format(study=study)}/" for place in (study_files.TRACES_PLACE, study_files.WORKLOADS_PLACE)]
    for other in study_files.study_names(root):
        for file in (study_files.GRID, f"{study_files.WORKLOADS_PLACE}/{_RECORDINGS}"):
            content = str(yaml_mapping(root, file.format(study=other)))
            if other != study and (needed := next((place for place in places if place in content), None)):
                raise StudyError(
                    f"'{study}' cannot be removed: {file.format(study=other)} uses files in {needed}. Remove '{other}'"
                    " first, or give it files of its own."
                )


def _config_without(root: Path, study: str) -> str | None:
    """Return the text of config/config.yaml without a study.

    Returns None if the file does not name the study.

    Raises:
        StudyError: It is the only configured study, or the file cannot be edited.
    """
    names = configured_studies(root)
    if study not in names:
        return None
    if names == [study]:
        raise StudyError(f"{config.CONFIG_FILE}: studies: '{study}' is the only study. Add another study there first.")
    without = functools.partial(yaml_files.remove_list_item, key="studies", item=study)
    return _edited(root, config.CONFIG_FILE, without)[1]
