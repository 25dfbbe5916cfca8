"""Model files: those that ship are whole and sourced, and a bad one is told by file, key and reason."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twins import command

from iopatterns import twin

SHIPPED = twin.list_models()
MODEL = twin.load_model("px05smb040").path
CONTENT = yaml.safe_load(Path(MODEL).read_text())


@pytest.mark.parametrize("name", SHIPPED)
def test_each_parameter_of_a_shipped_model_says_where_it_comes_from(name: str) -> None:
    model = twin.load_model(name)
    assert model.sources.keys() >= model.values.keys()
    for provenance, source in model.sources.values():
        assert provenance in {"datasheet", "fitted", "assumed"}
        assert len(source) > 5
        assert "to be fitted" not in source
    fitted = {key for key, (provenance, _) in model.sources.items() if provenance == "fitted"}
    assert fitted == set(model.fit.get("moved", ()))


def test_describe_shows_every_parameter_with_its_unit() -> None:
    said = command("describe", "px05smb040")
    assert said.returncode == 0
    for name in twin.load_model("px05smb040").values:
        assert f"  {name.split('.')[1]} " in said.stdout
    assert "65536 B" not in said.stdout  # units are those that people read
    assert " us " in said.stdout


def wrong(tmp_path: Path, change: Any) -> str:
    """Return what is said about a changed copy of a model file; the exit status must be 2."""
    content = copy.deepcopy(CONTENT)
    change(content)
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(content))
    said = command("describe", str(path))
    assert said.returncode == 2, said.stdout + said.stderr
    assert "Traceback" not in said.stderr
    assert "bad.yaml: " in said.stderr
    return said.stderr


def set_value(group: str, name: str, value: Any) -> Any:
    return lambda content: content["parameters"][group][name].update(value=value)


MISTAKES: dict[str, tuple[Any, str]] = {
    "unknown group": (lambda c: c["parameters"].update(flsh={}), "unknown key 'flsh'. Did you mean 'flash'?"),
    "unknown parameter": (lambda c: c["parameters"]["flash"].update(red_time={}), "Did you mean 'read_time'?"),
    "missing parameter": (lambda c: c["parameters"]["flash"].pop("planes"), "the key 'planes' is missing"),
    "missing source": (lambda c: c["parameters"]["link"]["rate"].pop("source"), "the key 'source' is missing"),
    "odd provenance": (lambda c: c["parameters"]["link"]["rate"].update(provenance="guess"), "'guess' is not valid"),
    "unit left out": (set_value("flash", "read_time", 65), "from 0 to 1 s, such as 72 us"),
    "wrong unit": (set_value("link", "rate", "868 us"), "such as 868 MB/s"),
    "out of range": (set_value("flash", "channels", 0), "a whole number from 1 to 64"),
    "no whole number": (set_value("flash", "channels", 1.5), "parameters.flash.channels: 1.5 is not valid"),
    "odd choice": (set_value("host", "scheduler", "cqf"), "Did you mean 'cfq'?"),
    "no switch": (set_value("link", "full_duplex", 3), "Expected: on or off"),
    "ratio too large": (set_value("ftl", "over_provisioning", 99), "a number from 0.01 to 31"),
    "geometry that does not fit": (set_value("flash", "page", "6 KiB"), "flash.page: must be a multiple"),
    "too little spare space": (set_value("capacity", "size", "1 GiB"), "ftl.over_provisioning: leaves"),
    "refill above window": (set_value("read_ahead", "refill", "1 GiB"), "read_ahead.window"),
    "odd behaviour": (lambda c: c["mode_page"]["DRA"].update(behaviour="no"), "mode_page.DRA.behaviour"),
    "value too large for its bit": (lambda c: c["mode_page"]["DRA"].update(value=2), "from 0 to 1"),
    "long vendor": (lambda c: c["identity"].update(vendor="TOSHIBA CORP"), "at most 8 characters"),
    "no kind": (lambda c: c.pop("kind"), "the key 'kind' is missing"),
    "odd runtime of the fit": (lambda c: c["fit"].update(runtime_s="long"), "Expected: a number of seconds above 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_told_with_file_key_and_reason(tmp_path: Path, mistake: str) -> None:
    change, expected = MISTAKES[mistake]
    assert expected in wrong(tmp_path, change)


def test_a_file_that_is_no_yaml_and_one_that_is_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [1,\n")
    for path, words in ((tmp_path / "bad.yaml", "not valid YAML"), (tmp_path / "none.yaml", "no such model")):
        said = command("describe", str(path))
        assert (said.returncode, "Traceback" in said.stderr) == (2, False)
        assert words in said.stderr
    assert "Did you mean 'px05smb040'?" in command("describe", "px05smb04").stderr


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict):
        return [path, *(leaf for key, child in node.items() for leaf in leaves(child, (*path, key)))]
    return [path]


PATHS = [path for path in leaves(CONTENT) if path]
JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([]) | st.just({})
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), junk=JUNK, remove=st.booleans())
def test_no_change_of_a_file_gives_anything_but_a_message(tmp_path: Path, path: Any, junk: Any, remove: bool) -> None:
    content = copy.deepcopy(CONTENT)
    node = content
    for key in path[:-1]:
        node = node[key]
    if remove:
        del node[path[-1]]
    else:
        node[path[-1]] = junk
    file = tmp_path / "fuzzed.yaml"
    file.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))  # as safe_dump, ten times as fast
    try:
        said = str(twin.load_model(file).size_bytes)
    except twin.TwinError as error:
        said = str(error)
    assert said.isdigit() or "fuzzed.yaml" in said


def test_only_values_are_in_the_digest(tmp_path: Path) -> None:
    text = Path(MODEL).read_text()
    digest = twin.load_model("px05smb040").digest

    def digest_of(changed: str) -> str:
        (tmp_path / "copy.yaml").write_text(changed)
        return twin.load_model(tmp_path / "copy.yaml").digest

    assert digest_of("# a comment\n" + text.replace("provenance: assumed", "provenance: datasheet")) == digest
    assert digest_of(text.replace("page_time: {value: 100 ns", "page_time: {value: 0.1 us")) == digest
    assert digest_of(text.replace("page_time: {value: 100 ns", "page_time: {value: 101 ns")) != digest


def test_a_parameter_can_be_set_on_the_command_line() -> None:
    model = twin.load_model("px05smb040")
    assert model.overridden(["flash.read_time=50 us"]).values["flash.read_time"] == 50_000
    for setting, words in (
        ("flash.read_tim=1us", "Did you mean 'flash.read_time'"),
        ("flash.read_time", "group.name=value"),
    ):
        with pytest.raises(twin.TwinError, match=words):
            model.overridden([setting])
