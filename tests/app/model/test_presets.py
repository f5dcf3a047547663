"""Preset files: what is kept, what is refused and in which words, and that a failed save leaves the old one."""

import argparse
import errno
import json
import os
import shlex
from dataclasses import replace

import pytest

from app.cli.shared.point import add_point_arguments, point_from
from app.library.files import FileError
from app.library.limits import Limits
from app.library.measurements import Measurement
from app.library.presets import measure_command, open_preset
from app.model.presets import save_preset
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import BY_PATH, OperatingPoint

CATALOGUE = load_catalogue()


@pytest.fixture
def store(qapp):
    made = Store(CATALOGUE)
    made.set("point.alpha", 0.5)
    made.set("limits.latency", 0.01)
    return made


@pytest.fixture
def saved(store, tmp_path):
    """A saved preset, and a function that changes one value in it."""
    path = tmp_path / "edge.json"
    save_preset(path, store)

    def edit(value, *keys):
        document = json.loads(path.read_text())
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        path.write_text(json.dumps(document))
        return path

    return edit


def test_what_is_saved_is_what_is_opened(store, tmp_path):
    store.set("point.bandwidth", 20e9)
    path = tmp_path / "edge.json"
    save_preset(path, store)
    preset = open_preset(path, CATALOGUE)
    assert (preset.point, preset.limits, preset.axis) == (store.point, Limits(0.01), "point.bandwidth")
    assert preset.notes == ()


@pytest.mark.parametrize(("path", "value"), [("point.head", "fp16"), ("point.graph", 4096.0)])
def test_a_rare_field_is_kept_and_left_out_where_it_is_the_default(store, tmp_path, path, value):
    name = BY_PATH[path].name
    plain = save_preset(tmp_path / "plain.json", store)
    assert name not in plain["point"]
    store.set(path, value)
    assert save_preset(tmp_path / "edge.json", store)["point"][name] == value
    assert getattr(open_preset(tmp_path / "edge.json", CATALOGUE).point, name) == value
    assert open_preset(tmp_path / "plain.json", CATALOGUE).point == replace(
        store.point, **{name: BY_PATH[path].default}
    )
    assert "decide it in a run" in save_preset(tmp_path / "edge.json", store)["origin"]["measure_again"]["absent"]


def test_it_holds_the_numbers_with_their_provenance(store, tmp_path):
    store.set_link(state="attached", hello={"can": {"measure": True}, "models": [{}]})
    store.set_machine("cpu, 2 threads", [])
    body = {
        "decode_s": {"median": 0.009, "q05": 0.0088, "q95": 0.0093, "n": 21, "provenance": "measured"},
        "power_w": {"absent": "no power sensor"},
        "conditions": {"threads": 2},
    }
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", "cpu, 2 threads"))
    document = save_preset(tmp_path / "edge.json", store)
    assert document == json.loads((tmp_path / "edge.json").read_text())
    decode = document["outputs"]["decode_s"]
    assert decode["predicted"]["provenance"] == "predicted"
    assert decode["predicted"]["q05"] < decode["predicted"]["median"] < decode["predicted"]["q95"]
    assert decode["measured"] == {"median": 0.009, "q05": 0.0088, "q95": 0.0093, "provenance": "measured"}
    assert document["outputs"]["power_w"]["measured"] == {"absent": "no power sensor"}
    origin = document["origin"]
    assert origin["machine"] == "cpu, 2 threads"
    assert origin["measured_utc"] == "2026-01-01T00:00:00+00:00"
    assert origin["conditions"] == {"threads": 2}
    assert origin["measure_again"].startswith("trilemma measure --board this")


@pytest.mark.parametrize(
    "point",
    [
        OperatingPoint(alpha=1 / 3, kv="int8", layout="paged", policy="key_norm"),
        OperatingPoint(
            board="jetson_orin_nano_8gb_super", power_mode="15W", model="llama-3.2-1b", runtime="qnn_npu", alpha=0.1,
            bandwidth_byte_s=1e10 / 3, beta=1.5, context_tokens=2000.0, reselect_tokens=64.0, head="fp16",
            graph_tokens=4096.0, weights="w4a16",
        ),
    ],
)  # fmt: skip
def test_the_command_in_it_names_the_same_point(point):
    parser = argparse.ArgumentParser()
    add_point_arguments(parser)
    program, command, *words = shlex.split(measure_command(point))
    assert (program, command) == ("trilemma", "measure")
    there = shlex.split(measure_command(point, "sim:rk3588,accelerate=20"))
    assert there == [program, command, "--attach", "sim:rk3588,accelerate=20", *words]
    assert point_from(parser.parse_args(words), CATALOGUE) == point


def test_a_point_that_cannot_be_measured_has_the_reason_instead_of_a_command(store, tmp_path):
    store.set("point.board", "rk3588")
    again = save_preset(tmp_path / "edge.json", store)["origin"]["measure_again"]
    assert again == {"absent": store.not_measurable}


@pytest.mark.parametrize(
    ("value", "keys", "sentence"),
    [
        (2048.5, ("point", "context_tokens"), "edge.json: point.context is 2048.5: expected a whole number of tokens"),
        ("abc", ("point", "alpha"), "edge.json: $.point.alpha: expected number, got string"),
        (True, ("point", "alpha"), "edge.json: $.point.alpha: expected number, got true or false"),
        (None, ("point", "board"), "edge.json: $.point.board: expected string, got null"),
        (5, ("point",), "edge.json: $.point: expected object, got whole number"),
        ([], ("limits",), "edge.json: $.limits: expected object, got array"),
        ("low", ("limits", "power_w"), "edge.json: $.limits.power_w: expected number or null, got string"),
        (1.0, ("point", "alpha"), "edge.json: point.alpha is 1: expected 0 <= alpha < 1"),
        (0, ("point", "context_tokens"), "edge.json: point.context is 0: expected at least 1 token"),
        (-1, ("limits", "latency_s"), "edge.json: limits.latency is -1.0: expected a number above 0, or none"),
        (2, ("version",), "edge.json: $.version: expected 1, got 2; from another version of Trilemma"),
        ("foo", ("format",), "edge.json: $.format: expected 'trilemma-preset', got 'foo'"),
    ],
)
def test_what_is_wrong_is_one_sentence(saved, value, keys, sentence):
    with pytest.raises(FileError) as caught:
        open_preset(saved(value, *keys), CATALOGUE)
    assert str(caught.value) == sentence


def test_a_board_that_does_not_exist_is_named(saved):
    with pytest.raises(FileError, match=r"edge.json: point.board is 'atlantis': expected one of "):
        open_preset(saved("atlantis", "point", "board"), CATALOGUE)


def test_unknown_keys_are_reported_and_kept(saved, store):
    saved("edge chat", "title")
    path = saved(3, "point", "temperature")
    preset = open_preset(path, CATALOGUE)
    assert preset.notes == ("edge.json: kept but not used: $.point.temperature, $.title",)
    save_preset(path, store, preset.document)
    again = json.loads(path.read_text())
    assert (again["title"], again["point"]["temperature"], again["point"]["alpha"]) == ("edge chat", 3, 0.5)


def test_what_is_left_out_is_the_default(tmp_path):
    path = tmp_path / "short.json"
    point = {"board": "this", "model": "smollm2-135m", "weights": "int8", "context_tokens": 512}
    path.write_text(json.dumps({"format": "trilemma-preset", "version": 1, "point": point}))
    assert open_preset(path, CATALOGUE).point == OperatingPoint(weights="int8", context_tokens=512.0)
    del point["board"]
    path.write_text(json.dumps({"format": "trilemma-preset", "version": 1, "point": point}))
    with pytest.raises(FileError, match=r"short.json: \$.point: .*missing required field board"):
        open_preset(path, CATALOGUE)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1]", b"nan", b'{"a": NaN}', b"[" * 100000, b'"' + b"a" * 2_000_000 + b'"']
)
def test_garbage_is_one_sentence(tmp_path, content):
    path = tmp_path / "garbage.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"garbage\.json: ") as caught:
        open_preset(path, CATALOGUE)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileError, match=r"no\.json: cannot be read: no such file"):
        open_preset(tmp_path / "no.json", CATALOGUE)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_preset_and_nothing_else(saved, store, monkeypatch, call):
    path = saved("before", "title")
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "write":
        real = os.fdopen
        monkeypatch.setattr(os, "fdopen", lambda *a, **k: _Full(real(*a, **k), full))
    else:
        monkeypatch.setattr(os, call, full)
    with pytest.raises(FileError) as caught:
        save_preset(path, store)
    monkeypatch.undo()
    assert str(caught.value) == f"{path}: cannot be saved: no space left on device; the file there is as it was"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


class _Full:
    """A file whose every write finds the disk full."""

    def __init__(self, file, write):
        self._file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def test_a_folder_that_cannot_be_written_is_one_sentence(store, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match="cannot be saved: "):
        save_preset(tmp_path / "file" / "edge.json", store)


def test_a_link_stays_a_link(store, tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    save_preset(real, store)
    link.symlink_to(real)
    store.set("point.alpha", 0.7)
    save_preset(link, store)
    assert link.is_symlink()
    assert open_preset(real, CATALOGUE).point.alpha == 0.7


def test_what_is_no_file_is_not_replaced(store, tmp_path):
    pipe = tmp_path / "edge.json"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="expected a file, it is a device or a pipe"):
        save_preset(pipe, store)
    assert pipe.is_fifo()
    with pytest.raises(FileError, match="expected a file, it is a folder"):
        save_preset(tmp_path, store)
    assert os.listdir(tmp_path) == [pipe.name]
