"""Tests of the configuration, and of the messages for mistakes in it."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import FIXTURE, ROOT, Project, copy_project, fixture_root

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, drive_entries, kinds

MAIN, DRIVES, STUDY = config.CONFIG_FILE, drive_entries.DRIVES_FILE, "config/studies/tiny.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return copy_project(tmp_path / "project", without=("src", "notebooks", "paper", "data/traces"))


def refused(root: Path, overrides: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(root, overrides)
    return str(caught.value)


def add_study(project: Project, name: str, text: str) -> None:
    (project.root / f"config/studies/{name}.yaml").write_text(text)


def test_shipped_configuration_is_valid() -> None:
    assert list(config.load_config(ROOT).studies) == yaml.safe_load((ROOT / MAIN).read_text())["studies"]


def test_every_key_of_the_schema_is_in_the_shipped_file_under_a_comment() -> None:
    lines = (ROOT / MAIN).read_text().splitlines()
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    for key in schema["properties"]:
        above = lines[next(number for number, line in enumerate(lines) if line.startswith(f"{key}:")) - 1]
        # two related keys share the comment above the first
        assert above.startswith("#") or above.split(":")[0] in schema["properties"], key


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"repetition": 3}, ["unknown key 'repetition'", "Did you mean 'repetitions'?"]),
        ({"runtime": "2 sec"}, ["runtime: '2 sec' is no duration", "Did you mean 's'?"]),
        ({"runtime": "2"}, ["runtime: '2' is no duration", "unit is missing"]),
        ({"runtime": 2}, ["runtime: 2 is not valid", "such as 500 ms"]),
        ({"runtime": "0 s"}, ["runtime: '0 s'", "at least 1 ms"]),
        ({"file_size": "1 GB"}, ["file_size: '1 GB' is no size", "write 'GiB'"]),
        ({"file_size": "100k"}, ["file_size: '100k'", "whole MiB"]),
        ({"drives": ["scratsh"]}, ["drives[0]: no drive 'scratsh'", DRIVES, "Did you mean 'scratch'?"]),
        ({"drives": []}, ["drives: must not be empty"]),
        ({"drives": "scratch"}, ["drives: 'scratch' is not valid", "a list of drives"]),
        ({"independent_drives": ["c400"]}, ["independent_drives[0]: 'c400' is of kind 'twin'", "Remove it"]),
        ({"independent_drives": ["scratsh"]}, ["independent_drives[0]: no drive 'scratsh'"]),
        ({"independent_drives": "scratch"}, ["independent_drives: 'scratch' is not valid", "a list of real drives"]),
        ({"studies": ["tyni"]}, ["studies[0]: no study 'tyni'", "Did you mean 'tiny'?"]),
        ({"repetitions": 0}, ["repetitions: 0 is not valid", "from 1 to 9999"]),
        ({"interval": "T"}, ["interval: 'T' is not valid", "bca"]),
        ({"seed": -1}, ["seed: -1 is not valid"]),
    ],
)
def test_a_mistake_in_config_yaml_is_named(overrides: dict[str, object], expected: list[str]) -> None:
    message = refused(fixture_root(), overrides)
    assert message.startswith(f"{MAIN}: ")
    assert [part for part in expected if part not in message] == []


def test_all_mistakes_of_a_file_are_named_at_once() -> None:
    assert len(refused(ROOT, {"repetition": 3, "runtime": "2 sec"}).splitlines()) == 2


KIND, DIRECT, EXPERIMENTS = "\n  kind: file", "direct: 1", "experiments:"
DRA = "{DRA: [0, 1], rw: reads"


@pytest.mark.parametrize(
    ("text", "replacement", "expected"),
    [
        (KIND, "\n  kind: fil", ["scratch.kind: 'fil' is not valid", "Did you mean 'file'?"]),
        ("  path: data", "  pathh: data", ["scratch: unknown key 'pathh'", "Did you mean 'path'?"]),
        (f"{KIND}\n  path", "\n  kind: archive\n  model", ["a drive of kind 'archive' needs the key 'path'"]),
        (KIND, "\n  kind: archive", ["scratch.path: ", "there is no such file. Put the archive there"]),
        (KIND, f"\n  set: {{a: 1}}{KIND}", ["scratch.set: belongs to kind 'twin'"]),
        (KIND, f"\n  host: node 7{KIND}", ["scratch.host: 'node 7' is not valid", "sinfo"]),
        (KIND, f"\n  host: 7{KIND}", ["scratch.host: 7 is not valid", "such as node7"]),
        (KIND, f"\n  tune: [lookahead]{KIND}", ["tune[0]: 'lookahead'", "'look_ahead'"]),
        ("\nscratch:", "\nmine: {kind: twin, host: a, model: c400}\nscratch:", ["mine.host: belongs to kind 'file'"]),
        ("\nscratch:", "\nc400: {kind: twin, model: c400}\nscratch:", ["another drive of this name: {model: c400}"]),
        ("\nscratch:", "\ntwins: {kind: twin, model: c400}\nscratch:", ["twins: this word stands for", "another name"]),
    ],
)
def test_a_mistake_in_drives_yaml_is_named(project: Project, text: str, replacement: str, expected: list[str]) -> None:
    check_mistake(project, DRIVES, text, replacement, expected)


@pytest.mark.parametrize(
    ("text", "replacement", "expected"),
    [
        (
            EXPERIMENTS,
            f"twins: {{used: {{model: c400, set: [1]}}}}\n{EXPERIMENTS}",
            ["twins.used.set: [1] is not valid"],
        ),
        (EXPERIMENTS, f"twins: {{used: {{mdel: c400}}}}\n{EXPERIMENTS}", ["used: unknown key 'mdel'", "'model'?"]),
        (EXPERIMENTS, f"drives: [c40]\n{EXPERIMENTS}", [": drives[0]", "Did you mean 'c400'?"]),
        (EXPERIMENTS, f"{EXPERIMENTS} [", ["line", "not valid YAML"]),
        ("drives: [c400]", "drives: [c40]", ["experiments.block-size.drives[0]: no drive 'c40'", "twins in this file"]),
        ("title:", "titlee:", ["unknown key 'titlee'", "Did you mean 'title'?"]),
        (DIRECT, "directt: 1", ["fio: unknown key 'directt'", "Did you mean 'direct'?"]),
        (DIRECT, "direct: yes", ["fio.direct: True is not valid", "O_DIRECT"]),
        (DIRECT, "direct: 1\n  direct: 0", ["line", "key 'direct' occurs twice"]),
        (DIRECT, "direct: 1\n  filename: /dev/sda", ["fio: unknown key 'filename'"]),
        (DIRECT, "direct: 1\n  offset: -512", ["fio.offset: -512 is not valid", "such as 512 or 1 MiB"]),
        (DIRECT, "direct: 1\n  skip: 4 KB", ["fio.skip: '4 KB' is no size", "write 'KiB'"]),
        (DIRECT, "direct: 1\n  size: 0", ["fio.size: 0 is not valid", "up to file_size"]),
        (DIRECT, "direct: 1\n  replay: write-reed", ["'write-reed'", "Did you mean 'write-read'?"]),
        (
            DIRECT,
            "direct: 1\n  read_iolog: none.iolog",
            ["initial: read_iolog: ", "there is no such file. Put the log"],
        ),
        (DIRECT, "direct: 1\n  read_iolog: config/config.yaml", ["config.yaml: line 1: the first line of a log must"]),
        ("bs: small", "bs: [4kb, 28k]", ["experiments.initial.vary.bs[0]: '4kb'", "KiB"]),
        ("bs: small", "bs: [0, 28k]", ["experiments.initial.vary.bs[0]: 0 is not valid"]),
        ("bs: small", "bs: 4096", ["experiments.initial.vary.bs: 4096", "a list of levels"]),
        ("bs: small", "bs: [4k, 4k]", ["vary.bs", "twice"]),
        ("bs: sizes", "bs: size", ["experiments.block-size.vary.bs: no list 'size'", "Did you mean 'sizes'?"]),
        ("randwrite]", "randwrit]", ["initial.vary.rw[3]: 'randwrit'", "Did you mean 'randwrite'?"]),
        ("noop, deadline", "noop, deadlin", ["vary.scheduler[2]: 'deadlin'", "Did you mean 'deadline'?"]),
        (DRA, "{DRA: [0, 2], rw: reads", ["refusing.vary.DRA[1]: 2", "0 or 1"]),
        (DRA, "{look_ahead: [2], rw: reads", ["look_ahead[0]: 2", "hdparm"]),
        (DRA, "{write_cache: [back], rw: reads", ["write_cache[0]: 'back'", "write through"]),
    ],
)
def test_a_mistake_in_a_study_is_named(project: Project, text: str, replacement: str, expected: list[str]) -> None:
    check_mistake(project, STUDY, text, replacement, expected)


def check_mistake(project: Project, file: str, text: str, replacement: str, expected: list[str]) -> None:
    path = project.root / file
    shutil.copy((FIXTURE if file == STUDY else ROOT) / file, path)
    original = path.read_text()
    assert text in original
    path.write_text(original.replace(text, replacement, 1))
    message = refused(project.root)
    assert message.startswith(file)
    assert [part for part in expected if part not in message] == []


def test_an_empty_file_is_named(project: Project) -> None:
    (project.root / DRIVES).write_text("# nothing\n")
    assert f"{DRIVES}: the file is empty" in refused(project.root)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{MAIN}: there is no such file" in refused(tmp_path)


def test_twins_are_the_simulated_drives_of_the_studies_in_the_order_of_each(project: Project) -> None:
    text = "title: ''\nfio: {}\ndrives: [%s]\nexperiments: {e: {drives: [%s], vary: {rw: [read]}}}\n"
    add_study(project, "one", text % ("c400, scratch", "hard-disk"))
    add_study(project, "two", text % ("nvme-generic, mine", "c400"))
    add_study(project, "three", text % ("hard-disk, c400", "nvme-generic"))
    project.edit(DRIVES, mine={"kind": "twin", "model": "ssdsc2kg480g7"})

    def drives(*names: str, studies: list[str]) -> list[str]:
        return list(config.load_config(project.root, {"drives": names, "studies": studies}).drives)

    assert drives("twins", studies=["one"]) == ["c400", "hard-disk"]
    assert drives("twins", studies=["one", "two"]) == ["nvme-generic", "mine", "c400", "hard-disk"]
    assert drives("hard-disk", "twins", "scratch", studies=["one"]) == ["hard-disk", "c400", "scratch"]
    assert drives("scratch", "hard-disk", studies=["one"]) == ["scratch", "hard-disk"]
    # if two studies contradict each other, the first decides
    assert drives("twins", studies=["one", "three"]) == ["c400", "hard-disk", "nvme-generic"]
    assert drives("twins", studies=["three", "one"]) == ["hard-disk", "c400", "nvme-generic"]


def test_twins_without_a_simulated_drive_in_the_studies_are_refused(project: Project) -> None:
    add_study(project, "one", "title: ''\nfio: {}\nexperiments: {e: {drives: [scratch], vary: {rw: [read]}}}\n")
    message = refused(project.root, {"drives": ["twins"], "studies": ["one"]})
    assert message.startswith(f"{MAIN}: drives: the configured studies name no simulated drive")


def test_the_order_of_the_shipped_drives_within_a_study_is_the_same_without_any_other_study() -> None:
    conf = config.load_config(ROOT)

    def of_study(study: str, drives: Iterable[str]) -> list[str]:
        bodies = conf.studies[study]["experiments"].values()
        return [drive for drive in drives if any(drive in body["drives"] for body in bodies)]

    for removed in conf.studies:
        others = [study for study in conf.studies if study != removed]
        found = config.load_config(ROOT, {"studies": others}).drives
        for study in others:
            assert of_study(study, found) == of_study(study, conf.drives)


def test_two_studies_may_define_the_same_drive_but_not_different_ones(project: Project) -> None:
    used = "twins: {used: {model: c400, set: {ftl.initial_state: random}}}"
    add_study(project, "one", used)
    add_study(project, "two", used)
    used_entry = drive_entries.read_drive_entries(project.root).entries["used"]
    assert used_entry == {"kind": "twin", "model": "c400", "set": {"ftl.initial_state": "random"}}
    add_study(project, "two", used.replace("random", "fresh"))
    assert refused(project.root) == (
        "config/studies/one.yaml: twins.used: config/studies/two.yaml has another drive of this name: {model: c400,"
        " set: {ftl.initial_state: fresh}}. Give one of the two another name."
    )


def test_a_study_cannot_define_another_drive_with_the_name_of_a_model_in_use(project: Project) -> None:
    add_study(project, "one", "twins: {c400: {model: c400, set: {ftl.initial_state: random}}}")
    assert "has another drive of this name" in refused(project.root)


def test_a_study_cannot_name_a_twin_that_another_study_defines(project: Project) -> None:
    add_study(project, "one", "twins: {used: {model: c400}}")
    project.edit(STUDY, drives=["used"])
    assert refused(project.root).startswith(f"{STUDY}: drives[0]: no drive 'used' is in ")


@pytest.mark.parametrize("name", ["c400", "scratch"])
def test_drives_of_the_user_and_models_are_found_by_name(name: str) -> None:
    known = drive_entries.read_drive_entries(ROOT)
    assert kinds.is_simulated(known.resolved(name)) == (name != "scratch")
    assert list(config.load_config(ROOT, {"drives": [name]}).drives) == [name]


def test_drives_that_any_study_names_are_source_drives_configured_or_not(project: Project) -> None:
    before = config.load_config(project.root).source_drives
    assert {"c400", "ssdsc2kg480g7"} <= before
    add_study(project, "one", "drives: [one-a]\nexperiments: {e: {drives: [one-b, one-a]}}")
    assert config.load_config(project.root).source_drives - before == {"one-a", "one-b"}


@pytest.mark.parametrize(
    "text",
    ["", "drives: [", "- drives", "drives: [7, {a: b}]", "experiments: [e]", "experiments: {e: 7, f: {drives: x}}"],
)
def test_mistakes_in_a_study_that_is_not_configured_are_ignored(project: Project, text: str) -> None:
    before = config.load_config(project.root)
    add_study(project, "draft", text)
    assert config.load_config(project.root).source_drives == before.source_drives


def test_experiments_without_drives_have_those_of_the_study(project: Project) -> None:
    study = yaml.safe_load((project.root / STUDY).read_text())
    body = study["experiments"]["initial"]
    project.edit(STUDY, drives=["c400", "scratch"], experiments={"all": {"vary": body["vary"]}, "some": body})
    experiments = config.load_config(project.root).studies["tiny"]["experiments"]
    assert experiments["all"]["drives"] == ["c400", "scratch"]
    assert experiments["some"]["drives"] == ["c400", "ssdsc2kg480g7"]


def test_two_paths_of_the_same_log_are_one_log(project: Project) -> None:
    (project.root / "x.iolog").write_text("fio version 2 iolog\na read 0 512\n")
    study = yaml.safe_load((project.root / STUDY).read_text())
    vary = {"read_iolog": ["x.iolog", "config/../x.iolog"]}
    project.edit(STUDY, experiments={"own": {"vary": vary}}, fio={**study["fio"], "read_iolog": "./x.iolog"})
    assert list(config.load_config(project.root).iologs) == ["x.iolog"]


def test_the_digest_of_a_twin_depends_on_the_values_that_its_entry_sets(project: Project) -> None:
    def resolved(set_: dict[str, object]) -> dict[str, object]:
        project.edit(DRIVES, hot={"kind": "twin", "model": "c400", "set": set_})
        return dict(config.load_config(project.root, {"drives": ["hot"], "file_size": "64 MiB"}).drives["hot"])

    first, second = (resolved({"flash.read_time": text, "controller.throttle": 0.5}) for text in ("50 us", "0.05 ms"))
    assert first == second
    assert first["set"] == {"flash.read_time": "50 us", "controller.throttle": "0.5"}
    assert first["model_digest"] != resolved({"flash.read_time": "50 us"})["model_digest"]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            {"ftl.initial_stat": "random"},
            "ftl.initial_stat: c400 has no such parameter. Did you mean 'ftl.initial_state'?",
        ),
        ({"ftl.initial_state": "steady"}, "ftl.initial_state: 'steady' is not valid. Expected: one of fresh,"),
        ({"controller.throttle": 2}, "controller.throttle: 2 is not valid. Expected: a number from 0 to 0.95."),
        ({"flash.page": "6 KiB"}, "flash.page: parameters.flash.page: must be a multiple"),
    ],
)
def test_an_invalid_value_in_the_entry_of_a_twin_is_named(
    project: Project, wrong: dict[str, object], expected: str
) -> None:
    project.edit(DRIVES, hot={"kind": "twin", "model": "c400", "set": wrong})
    assert f"{DRIVES}: hot.set: {expected}" in refused(project.root, {"drives": ["hot"]})
