"""Snakemake resources that keep jobs from measuring drives at the same time."""

from support import Project

from iopatterns.configuration import config
from iopatterns.workflow import drive_resources


def test_an_independent_drive_requires_its_own_resource_and_any_other_drive_all(project: Project) -> None:
    paths = {name: f"{project.root}/{name}.bin" for name in ("one", "two", "three")}
    project.edit("config/drives.yaml", **{name: {"kind": "file", "path": path} for name, path in paths.items()})

    def taken(independent: list[str], *drives: str) -> dict[str, list[int]]:
        conf = config.load_config(project.root, {"drives": list(drives), "independent_drives": independent})
        names = drive_resources.resource_names(conf)
        return {drive: [drive_resources.resource_amount(conf, drive, name) for name in names] for drive in drives}

    assert taken([], "one", "two", "c400") == {"one": [1], "two": [1], "c400": [0]}
    assert taken(["one"], "one", "three") == {"one": [0, 1], "three": [1, 1]}
    # independent drives that this run does not measure have no resource
    assert taken(["one", "two"], "three") == {"three": [1]}


def test_drives_of_different_hosts_share_no_resource(project: Project) -> None:
    hosts = {"one": "node1", "two": "node1", "three": "node2", "four": ""}
    for name, host in hosts.items():
        entry = {"kind": "file", "path": f"{project.root}/{name}.bin", **({"host": host} if host else {})}
        project.edit("config/drives.yaml", **{name: entry})
    conf = config.load_config(project.root, {"drives": [*hosts, "c400"], "independent_drives": ["two"]})
    names = drive_resources.resource_names(conf)
    taken = {
        drive: {each for each in names if drive_resources.resource_amount(conf, drive, each)}
        for drive in [*hosts, "c400"]
    }
    assert taken == {
        "one": {"real_drives_of_node1", "real_drive_two"},
        "two": {"real_drive_two"},
        "three": {"real_drives_of_node2"},
        "four": {"real_drive"},
        "c400": set(),
    }
    assert [drive_resources.slurm_options(conf, drive) for drive in taken] == [
        "--exclusive --nodelist=node1",
        "--nodelist=node1",
        "--exclusive --nodelist=node2",
        "",
        "",
    ]
