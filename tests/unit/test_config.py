"""Mistakes in config/: each gives one message with file, key and the nearest valid choice."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from support import FIXTURE, ROOT, Project, copy_project, fixture_root

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, drive_entries, kinds

MAIN, DRIVES, STUDY = config.CONFIG_FILE, drive_entries.DRIVES_FILE, "config/studies/tiny.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of what a configuration is read from."""
    return copy_project(tmp_path / "project", without=("src", "notebooks", "paper", "data/traces"))


def test_shipped_configuration_is_valid() -> None:
    assert list(config.load_config(ROOT).studies) == yaml.safe_load((ROOT / MAIN).read_text())["studies"]


def test_every_key_of_the_schema_stands_in_the_shipped_file_under_a_comment() -> None:
    lines = (ROOT / MAIN).read_text().splitlines()
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    for key in schema["properties"]:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key}:"))
        above = lines[at - 1]
        # two keys that belong together share the comment above the first
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
        ({"independent_drives": ["c400"]}, ["independent_drives[0]: 'c400' is of kind 'twin'", "Leave it out"]),
        ({"independent_drives": ["scratsh"]}, ["independent_drives[0]: no drive 'scratsh'", "Did you mean 'scratch'?"]),
        ({"independent_drives": "scratch"}, ["independent_drives: 'scratch' is not valid", "a list of real drives"]),
        ({"studies": ["tyni"]}, ["studies[0]: no study 'tyni'", "Did you mean 'tiny'?"]),
        ({"repetitions": 0}, ["repetitions: 0 is not valid", "from 1 to 9999"]),
        ({"interval": "T"}, ["interval: 'T' is not valid", "bca"]),
        ({"seed": -1}, ["seed: -1 is not valid"]),
    ],
)
def test_mistake_in_config_yaml_is_named(overrides: dict[str, object], expected: list[str]) -> None:
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(fixture_root(), overrides)
    message = str(caught.value)
    assert message.startswith(f"{MAIN}: ")
    for part in expected:
        assert part in message


def test_all_mistakes_of_a_file_are_named_at_once() -> None:
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(ROOT, {"repetition": 3, "runtime": "2 sec"})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("file", "text", "replacement", "expected"),
    [
        (DRIVES, "\n  kind: file", "\n  kind: fil", ["scratch.kind: 'fil' is not valid", "Did you mean 'file'?"]),
        (DRIVES, "  path: data", "  pathh: data", ["scratch: unknown key 'pathh'", "Did you mean 'path'?"]),
        (
            DRIVES,
            "\n  kind: file\n  path",
            "\n  kind: archive\n  model",
            ["a drive of kind 'archive' needs the key 'path'"],
        ),
        (
            DRIVES,
            "\n  kind: file",
            "\n  kind: archive",
            ["scratch.path: ", "there is no such file. Put the archive there"],
        ),
        (
            STUDY,
            "experiments:",
            "twins: {used: {model: c400, set: [64 KiB]}}\nexperiments:",
            ["twins.used.set: ['64 KiB'] is not valid", "other values of its model's parameters"],
        ),
        (
            STUDY,
            "experiments:",
            "twins: {used: {mdel: c400}}\nexperiments:",
            ["used: unknown key 'mdel'", "Did you mean 'model'?"],
        ),
        (DRIVES, "\n  kind: file", "\n  set: {a: 1}\n  kind: file", ["scratch.set: belongs to kind 'twin'"]),
        (DRIVES, "\n  kind: file", "\n  host: node 7\n  kind: file", ["scratch.host: 'node 7' is not valid", "sinfo"]),
        (DRIVES, "\n  kind: file", "\n  host: 7\n  kind: file", ["scratch.host: 7 is not valid", "such as node7"]),
        (
            DRIVES,
            "\nscratch:",
            "\nmine: {kind: twin, host: a, model: c400}\nscratch:",
            ["mine.host: belongs to kind 'file'", "a 'twin'"],
        ),
        (
            DRIVES,
            "\nscratch:",
            "\nc400: {kind: twin, model: c400}\nscratch:",
            [
                "c400: config/studies/",
                "has another drive of this name: {model: c400}. Give one of the two another name",
            ],
        ),
        (
            DRIVES,
            "\nscratch:",
            "\ntwins: {kind: twin, model: c400}\nscratch:",
            ["twins: in config.yaml this word stands for all simulated drives", "Give the drive another name"],
        ),
        (STUDY, "direct: 1", "directt: 1", ["fio: unknown key 'directt'", "Did you mean 'direct'?"]),
        (STUDY, "direct: 1", "direct: yes", ["fio.direct: True is not valid", "O_DIRECT"]),
        (STUDY, "bs: small", "bs: [4kb, 28k]", ["experiments.initial.vary.bs[0]: '4kb'", "KiB"]),
        (STUDY, "bs: small", "bs: [0, 28k]", ["experiments.initial.vary.bs[0]: 0 is not valid"]),
        (STUDY, "bs: small", "bs: 4096", ["experiments.initial.vary.bs: 4096", "a list of levels"]),
        (
            STUDY,
            "bs: sizes",
            "bs: size",
            ["experiments.block-size.vary.bs: no list 'size'", "Did you mean 'sizes'?"],
        ),
        (STUDY, "{DRA: [0, 1], rw: reads", "{DRA: [0, 2], rw: reads", ["refusing.vary.DRA[1]: 2", "0 or 1"]),
        (STUDY, "{DRA: [0, 1], rw: reads", "{look_ahead: [2], rw: reads", ["look_ahead[0]: 2", "hdparm"]),
        (
            STUDY,
            "{DRA: [0, 1], rw: reads",
            "{write_cache: [back], rw: reads",
            ["write_cache[0]: 'back'", "write through"],
        ),
        (DRIVES, "\n  kind: file", "\n  tune: [lookahead]\n  kind: file", ["tune[0]: 'lookahead'", "'look_ahead'"]),
        (STUDY, "noop, deadline", "noop, deadlin", ["vary.scheduler[2]: 'deadlin'", "Did you mean 'deadline'?"]),
        (
            STUDY,
            "drives: [c400]",
            "drives: [c40]",
            [
                "experiments.block-size.drives[0]: no drive 'c40'",
                "under twins in this file",
                "Did you mean 'c400'?",
            ],
        ),
        (STUDY, "bs: small", "bs: [4k, 4k]", ["vary.bs", "twice"]),
        (STUDY, "randwrite]", "randwrit]", ["initial.vary.rw[3]: 'randwrit'", "Did you mean 'randwrite'?"]),
        (STUDY, "direct: 1", "direct: 1\n  offset: -512", ["fio.offset: -512 is not valid", "such as 512 or 1 MiB"]),
        (STUDY, "direct: 1", "direct: 1\n  skip: 4 KB", ["fio.skip: '4 KB' is no size", "write 'KiB'"]),
        (STUDY, "direct: 1", "direct: 1\n  size: 0", ["fio.size: 0 is not valid", "up to file_size"]),
        (STUDY, "direct: 1", "direct: 1\n  replay: write-reed", ["'write-reed'", "Did you mean 'write-read'?"]),
        (
            STUDY,
            "direct: 1",
            "direct: 1\n  read_iolog: data/none.iolog",
            ["experiments.initial: read_iolog: ", "data/none.iolog: there is no such file. Put the log there"],
        ),
        (
            STUDY,
            "direct: 1",
            "direct: 1\n  read_iolog: config/config.yaml",
            ["experiments.initial: read_iolog: ", "config.yaml: line 1: the first line of a log must be one of"],
        ),
        (STUDY, "experiments:", "drives: [c40]\nexperiments:", [": drives[0]", "Did you mean 'c400'?"]),
        (STUDY, "title:", "titlee:", ["unknown key 'titlee'", "Did you mean 'title'?"]),
        (STUDY, "ioengine: sync", "ioengine: sync\n  filename: /dev/sda", ["fio: unknown key 'filename'"]),
        (STUDY, "  direct: 1", "  direct: 1\n  direct: 0", ["line", "key 'direct' stands twice"]),
        (STUDY, "experiments:", "experiments: [", ["line", "not valid YAML"]),
    ],
)
def test_mistake_in_another_file_is_named(
    project: Project, file: str, text: str, replacement: str, expected: list[str]
) -> None:
    path = project.root / file
    shutil.copy((FIXTURE if file == STUDY else ROOT) / file, path)
    original = path.read_text()
    assert text in original
    path.write_text(original.replace(text, replacement, 1))
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(project.root)
    message = str(caught.value)
    assert message.startswith(file)
    for part in expected:
        assert part in message


def test_empty_file_is_named(project: Project) -> None:
    (project.root / DRIVES).write_text("# nothing\n")
    with pytest.raises(yaml_schema.ConfigError, match=f"{DRIVES}: the file is empty"):
        config.load_config(project.root)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(yaml_schema.ConfigError, match=f"{MAIN}: there is no such file"):
        config.load_config(tmp_path)


def add_study(project: Project, name: str, text: str) -> None:
    (project.root / f"config/studies/{name}.yaml").write_text(text)


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
    # where two studies contradict each other, the first decides
    assert drives("twins", studies=["one", "three"]) == ["c400", "hard-disk", "nvme-generic"]
    assert drives("twins", studies=["three", "one"]) == ["hard-disk", "c400", "nvme-generic"]


def test_twins_of_studies_without_any_are_told(project: Project) -> None:
    add_study(project, "one", "title: ''\nfio: {}\nexperiments: {e: {drives: [scratch], vary: {rw: [read]}}}\n")
    with pytest.raises(
        yaml_schema.ConfigError, match=f"^{MAIN}: drives: the configured studies name no simulated drive"
    ):
        config.load_config(project.root, {"drives": ["twins"], "studies": ["one"]})


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


def test_two_studies_may_define_a_drive_of_one_name_alike_alone(project: Project) -> None:
    used = "twins: {used: {model: c400, set: {ftl.initial_state: random}}}"
    add_study(project, "one", used)
    add_study(project, "two", used)
    assert drive_entries.read_drive_entries(project.root).entries["used"] == {
        "kind": "twin",
        "model": "c400",
        "set": {"ftl.initial_state": "random"},
    }
    add_study(project, "two", used.replace("random", "fresh"))
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(project.root)
    assert str(caught.value) == (
        "config/studies/one.yaml: twins.used: config/studies/two.yaml has another drive of this name: {model: c400,"
        " set: {ftl.initial_state: fresh}}. Give one of the two another name."
    )


def test_a_model_that_one_study_names_is_not_another_drive_in_a_second_study(project: Project) -> None:
    add_study(project, "one", "twins: {c400: {model: c400, set: {ftl.initial_state: random}}}")
    with pytest.raises(yaml_schema.ConfigError, match=r"c400.*has another drive of this name.*Give one of the two"):
        config.load_config(project.root)


def test_a_study_names_no_twin_that_another_study_defines(project: Project) -> None:
    add_study(project, "one", "twins: {used: {model: c400}}")
    project.edit(STUDY, drives=["used"])
    with pytest.raises(
        yaml_schema.ConfigError, match=rf"^{STUDY}: drives\[0\]: no drive 'used' is in .*under twins in this"
    ):
        config.load_config(project.root)


@pytest.mark.parametrize("name", ["c400", "scratch"])
def test_drives_of_the_user_and_of_studies_and_models_are_found_by_name(name: str) -> None:
    known = drive_entries.read_drive_entries(ROOT)
    assert kinds.is_simulated(known.resolved(name)) == (name != "scratch")
    assert list(config.load_config(ROOT, {"drives": [name]}).drives) == [name]


def test_drives_that_any_study_names_are_of_a_source_configured_or_not(project: Project) -> None:
    before = config.load_config(project.root).source_drives
    assert {"c400", "ssdsc2kg480g7"} <= before
    add_study(project, "one", "drives: [one-a]\nexperiments: {e: {drives: [one-b, one-a]}}")
    assert config.load_config(project.root).source_drives - before == {"one-a", "one-b"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "drives: [",
        "- drives",
        "drives: 7",
        "drives: [7, {a: b}]",
        "experiments: [e]",
        "experiments: {e: 7, f: {drives: x}}",
    ],
)
def test_a_mistake_in_a_study_that_is_not_asked_for_is_none(project: Project, text: str) -> None:
    before = config.load_config(project.root)
    add_study(project, "draft", text)
    assert config.load_config(project.root).source_drives == before.source_drives


def test_drives_of_a_study_stand_for_experiments_that_name_none(project: Project) -> None:
    study = yaml.safe_load((project.root / STUDY).read_text())
    body = study["experiments"]["initial"]
    project.edit(STUDY, drives=["c400", "scratch"], experiments={"all": {"vary": body["vary"]}, "some": body})
    experiments = config.load_config(project.root).studies["tiny"]["experiments"]
    assert experiments["all"]["drives"] == ["c400", "scratch"]
    assert experiments["some"]["drives"] == ["c400", "ssdsc2kg480g7"]


def test_the_same_log_by_another_path_is_one(project: Project) -> None:
    (project.root / "x.iolog").write_text("fio version 2 iolog\na read 0 512\n")
    study = yaml.safe_load((project.root / STUDY).read_text())
    vary = {"read_iolog": ["x.iolog", "config/../x.iolog"]}
    project.edit(STUDY, experiments={"own": {"vary": vary}}, fio={**study["fio"], "read_iolog": "./x.iolog"})
    assert list(config.load_config(project.root).iologs) == ["x.iolog"]


def test_what_a_twins_entry_sets_is_part_of_its_digest_however_it_is_written(project: Project) -> None:
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
            "hot.set: ftl.initial_stat: c400 has no such parameter. Did you mean 'ftl.initial_state'?",
        ),
        ({"ftl.initial_state": "steady"}, "hot.set: ftl.initial_state: 'steady' is not valid. Expected: one of fresh,"),
        (
            {"controller.throttle": 2},
            "hot.set: controller.throttle: 2 is not valid. Expected: a number from 0 to 0.95.",
        ),
        ({"flash.page": "6 KiB"}, "hot.set: flash.page: parameters.flash.page: must be a multiple"),
    ],
)
def test_what_a_twins_entry_cannot_set_is_named(project: Project, wrong: dict[str, object], expected: str) -> None:
    project.edit(DRIVES, hot={"kind": "twin", "model": "c400", "set": wrong})
    with pytest.raises(yaml_schema.ConfigError) as caught:
        config.load_config(project.root, {"drives": ["hot"]})
    assert f"{DRIVES}: {expected}" in str(caught.value)
