"""Model files: the shipped models have sources, and mistakes are reported with file, key and reason."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.base import yaml_schema
from iopatterns.twin import models, ranges

SHIPPED = twin.list_models()
MODEL = twin.load_model("px05smb040").path
CONTENT = yaml.safe_load(Path(MODEL).read_text())


@pytest.mark.parametrize("name", SHIPPED)
def test_each_parameter_of_a_shipped_model_has_provenance_and_source(name: str) -> None:
    model = twin.load_model(name)
    assert model.sources.keys() >= model.values.keys()
    for provenance, source in model.sources.values():
        assert provenance in {"datasheet", "fitted", "assumed"}
        assert len(source) > 5
        assert "to be fitted" not in source
    fitted = {key for key, (provenance, _) in model.sources.items() if provenance == "fitted"}
    assert fitted == set(model.fit.get("moved", ()))


def test_describe_prints_every_parameter_with_its_unit() -> None:
    done = command("describe", "px05smb040")
    assert done.returncode == 0
    for name in twin.load_model("px05smb040").values:
        assert f"  {name.split('.')[1]} " in done.stdout
    assert "65536 B" not in done.stdout
    assert " us " in done.stdout


def test_a_parameter_with_its_default_changes_neither_text_nor_digest(tmp_path: Path) -> None:
    model = twin.load_model("px05smb040")
    assert "initial_extent" not in MODEL.read_text() + model.text
    content = copy.deepcopy(CONTENT)
    entry = {"value": 0, "provenance": "assumed", "source": "written completely"}
    content["parameters"]["ftl"]["initial_extent"] = entry
    (tmp_path / "same.yaml").write_text(yaml.safe_dump(content))
    assert twin.load_model(tmp_path / "same.yaml").digest == model.digest
    assert model.overridden(["ftl.initial_extent=1 GiB"]).text == model.text.replace(
        "ftl.over_provisioning", "ftl.initial_extent 1073741824\nftl.over_provisioning"
    )


def set_value(group: str, name: str, value: Any) -> Any:
    return lambda content: content["parameters"][group][name].update(value=value)


# Mistakes in the parsed content of a model file
MISTAKES: dict[str, tuple[Any, str]] = {
    "unknown group": (lambda c: c["parameters"].update(flsh={}), "unknown key 'flsh'. Did you mean 'flash'?"),
    "unknown parameter": (lambda c: c["parameters"]["flash"].update(red_time={}), "Did you mean 'read_time'?"),
    "missing parameter": (lambda c: c["parameters"]["flash"].pop("planes"), "the key 'planes' is missing"),
    "missing source": (lambda c: c["parameters"]["link"]["rate"].pop("source"), "the key 'source' is missing"),
    "invalid provenance": (
        lambda c: c["parameters"]["link"]["rate"].update(provenance="guess"),
        "'guess' is not valid",
    ),
    "missing unit": (set_value("flash", "read_time", 65), "from 0 to 1 s, such as 72 us"),
    "wrong unit": (set_value("link", "rate", "868 us"), "such as 868 MB/s"),
    "out of range": (set_value("flash", "channels", 0), "a whole number from 1 to 64"),
    "fraction": (set_value("flash", "channels", 1.5), "parameters.flash.channels: 1.5 is not valid"),
    "invalid choice": (set_value("host", "scheduler", "cqf"), "Did you mean 'cfq'?"),
    "invalid switch": (set_value("link", "full_duplex", 3), "Expected: on or off"),
    "ratio too large": (set_value("ftl", "over_provisioning", 99), "a number from 0.01 to 31"),
    "geometry that does not fit": (set_value("flash", "page", "6 KiB"), "flash.page: must be a multiple"),
    "too little spare space": (set_value("capacity", "size", "1 GiB"), "ftl.over_provisioning: leaves"),
    "refill above window": (set_value("read_ahead", "refill", "1 GiB"), "read_ahead.window"),
    "invalid behaviour": (lambda c: c["mode_page"]["DRA"].update(behaviour="no"), "mode_page.DRA.behaviour"),
    "value too large for its bit": (lambda c: c["mode_page"]["DRA"].update(value=2), "from 0 to 1"),
    "vendor too long": (lambda c: c["identity"].update(vendor="TOSHIBA CORP"), "at most 8 characters"),
    "missing kind": (lambda c: c.pop("kind"), "the key 'kind' is missing"),
    "invalid runtime of the fit": (
        lambda c: c["fit"].update(runtime_s="long"),
        "Expected: a number of seconds above 0",
    ),
}


# Mistakes in the text of a model file
NAME = "name: PX05SMB040"
TEXT_MISTAKES: dict[str, tuple[str, str, list[str]]] = {
    "line break in the serial number": ("TWIN05SMB040", "X\\nkind hard_disk", ["identity.serial", "ASCII"]),
    "character that INQUIRY cannot contain": ("vendor: TOSHIBA", "vendor: TÖSHIBA", ["identity.vendor", "ASCII"]),
    "no rotation rate": ("rotation_rpm: 1", "rotation_rpm: 0", ["identity.rotation_rpm"]),
    "contradicting switches": ("DRA: {value: 0", "DRA: {value: 1", ["mode_page.DRA.value: 1", "Change one of them"]),
    "number as a key": (NAME, "1: PX05SMB040", ["line 3", "a key must be text"]),
    "list as a key": (NAME, "[1]: PX05SMB040", ["line 3", "a key must be text"]),
    "control character": (NAME, "name: \x01", ["not valid YAML"]),
    "deep nesting": (NAME, f"name: {'[' * 3000}{']' * 3000}", ["nested too deeply"]),
    "unclosed list": (NAME, "name: [1,", ["not valid YAML"]),
    "two mistakes": (
        "\n    rate: {value: ",
        "\n    rat: {}\n    rate: {value: x",
        ["Did you mean 'rate'?", "link.rate: 'x"],
    ),
}


def reported(path: Path) -> str:
    """Return the message about an invalid model file; assert that each line begins with its path."""
    done = command("describe", str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    message = done.stderr.removeprefix("twin: error: ")
    assert all(line.startswith(str(path)) for line in message.splitlines())
    return message


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_model_is_reported_with_file_key_and_reason(tmp_path: Path, mistake: str) -> None:
    change, expected = MISTAKES[mistake]
    content = copy.deepcopy(CONTENT)
    change(content)
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(content))
    assert expected in reported(tmp_path / "bad.yaml")


@pytest.mark.parametrize("mistake", TEXT_MISTAKES)
def test_a_mistake_in_the_text_of_a_model_is_reported(tmp_path: Path, mistake: str) -> None:
    old, new, expected = TEXT_MISTAKES[mistake]
    text = Path(MODEL).read_text()
    assert old in text
    (tmp_path / "bad.yaml").write_text(text.replace(old, new))
    message = reported(tmp_path / "bad.yaml")
    assert [part for part in expected if part not in message] == []


@pytest.mark.parametrize("name", ["px05smb04", "none.yaml"])
def test_a_missing_model_is_reported(name: str) -> None:
    done = command("describe", name)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert ("no such model" if name == "none.yaml" else "Did you mean 'px05smb040'?") in done.stderr


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
def test_a_changed_model_is_valid_or_reported(tmp_path: Path, path: Any, junk: Any, remove: bool) -> None:
    content = copy.deepcopy(CONTENT)
    node = content
    for key in path[:-1]:
        node = node[key]
    if remove:
        del node[path[-1]]
    else:
        node[path[-1]] = junk
    file = tmp_path / "fuzzed.yaml"
    file.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))  # same result as safe_dump, ten times as fast
    try:
        result = str(twin.load_model(file).size_bytes)
    except twin.TwinError as error:
        result = str(error)
    assert result.isdigit() or "fuzzed.yaml" in result


def test_comments_and_sources_do_not_change_the_digest(tmp_path: Path) -> None:
    text = Path(MODEL).read_text()
    digest = twin.load_model("px05smb040").digest

    def digest_of(changed: str) -> str:
        (tmp_path / "copy.yaml").write_text(changed)
        return twin.load_model(tmp_path / "copy.yaml").digest

    assert digest_of("# a comment\n" + text.replace("provenance: assumed", "provenance: datasheet")) == digest
    assert digest_of(text.replace("page_time: {value: 100 ns", "page_time: {value: 0.1 us")) == digest
    assert digest_of(text.replace("page_time: {value: 100 ns", "page_time: {value: 101 ns")) != digest


def test_settings_override_parameters() -> None:
    model = twin.load_model("px05smb040")
    assert model.overridden(["flash.read_time=50 us"]).values["flash.read_time"] == 50_000


@pytest.mark.parametrize(
    ("setting", "message"),
    [("flash.read_tim=1us", "Did you mean 'flash.read_time'"), ("flash.read_time", "group.name=value")],
)
def test_an_invalid_setting_is_refused(setting: str, message: str) -> None:
    with pytest.raises(twin.TwinError, match=message):
        twin.load_model("px05smb040").overridden([setting])


# ---- Plausible ranges


@pytest.mark.parametrize("name", models.list_models())
def test_each_parameter_of_a_shipped_model_has_a_range_around_its_value(name: str) -> None:
    model = models.load_model(name)
    for parameter, value in model.values.items():
        found = ranges.plausible_range(model, parameter)
        assert value in found.values or found.low <= float(value) <= found.high, parameter
        assert found.because
        assert not (model.sources[parameter][0] == "datasheet" and not found.is_fixed), parameter
        for share in (0.0, 0.3, 1.0):
            # a value in the unit of the simulated drive, which a model file could contain
            drawn = found.value_at(share)
            written = yaml.safe_load(models.format_value(parameter, drawn))
            assert models.parse_value(models.declared_parameters()[parameter], written) == drawn, parameter


def test_each_range_of_the_table_is_of_an_existing_parameter_and_valid() -> None:
    content = yaml.safe_load(Path(ranges.__file__).with_name("plausible_ranges.yaml").read_text(encoding="utf-8"))
    assert {*content["parameters"], *content["searched"]} <= models.declared_parameters().keys()
    tables = ("kinds", "parameters", "searched")
    listed = [content["fitted"], *(each for table in tables for each in content[table].values())]
    for each in listed:
        yaml_schema.require_valid("plausible_ranges.yaml", each, models.RANGE_SCHEMA)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "30 us to 120 us"),
        ("range: {between: [40 us, 70 us], because: a reason}", "40 us to 70 us"),
        ("range: {fixed: true, because: a reason}", "fixed"),
        ("range: {doublings: [0, 1], because: a reason}", "60 us, 120 us"),
        ("range: {choices: [60 us, 90 us], because: a reason}", "60 us, 90 us"),
        ("range: {between: [70 us, 80 us], because: a reason}", "flash.read_time.range: the value 60 us is not in"),
        ("range: {choices: [70 us, 80 us], because: a reason}", "flash.read_time.range: the value 60 us is not one"),
        ("range: {factor: 2}", "because"),
        ("range: {factor: 2, fixed: true, because: a reason}", "one of factor, doublings, between, choices and fixed"),
        ("range: {factor: 1, because: a reason}", "a factor above 1"),
    ],
)
def test_a_model_file_may_replace_a_range(tmp_path: Path, text: str, found: str) -> None:
    lines = (ROOT / "data/twins/px05smb040.yaml").read_text(encoding="utf-8").splitlines()
    entry = "    read_time: {value: 60 us, provenance: assumed, source: a guess" + (f", {text}" if text else "") + "}"
    changed = [entry if line.startswith("    read_time: {") else line for line in lines]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(changed) + "\n", encoding="utf-8")
    done = command("describe", str(path))
    assert found in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if "range:" in text and done.returncode == 0 and "fixed" not in text:
        assert f"plausible: {found} (a reason)" in done.stdout


def test_a_number_is_drawn_evenly_by_its_logarithm() -> None:
    found = ranges.plausible_range(models.load_model("hard-disk"), "disk.command_time")
    assert [found.value_at(share) for share in (0.0, 0.5, 1.0)] == [50_000, 100_000, 200_000]


def test_a_range_does_not_change_the_drive(tmp_path: Path) -> None:
    text = (ROOT / "data/twins/hard-disk.yaml").read_text(encoding="utf-8")
    old = "command_time: {value: 100 us, "
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, f"{old}range: {{factor: 3, because: a reason}}, "), encoding="utf-8")
    assert models.load_model(path).digest == models.load_model("hard-disk").digest
