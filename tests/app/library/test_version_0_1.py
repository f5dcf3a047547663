"""A data folder of version 0.1 opens with nothing lost; a damaged document is set aside and all else works."""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from app.client.recording import Recording
from app.library import board_library
from app.library.board_document import OLDER, BoardDocument
from app.library.board_library import BoardLibrary
from app.library.machine import machine_key
from app.library.presets import open_preset
from app.model.settings import load_settings
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint
from tests.places import DATA

HELLO = {
    "board": {"cpu": "Example CPU", "n_threads": 2, "id": "0123456789ab"},
    "can": {"torch": "2.13.0+cpu"},
    "models": [{"file": "SmolLM2-135M-Instruct.Q4_1.gguf", "byte": 98362432}],
}
MACHINE = machine_key(HELLO)
LLAMA = OperatingPoint(runtime="llamacpp_cpu", weights="q4_k_m", kv="fp16")
PRUNED = OperatingPoint(weights="int8", kv="int8", alpha=0.2, policy="key_norm", layout="paged")
PARTS = {name: part for name, (part, _) in OLDER.items()}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A copy of the folder, on the machine that it speaks of."""
    shutil.copytree(DATA / "data_folder_v1", tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(board_library, "hello_here", lambda: HELLO)
    monkeypatch.setattr(board_library, "this_machine", lambda: MACHINE)
    return tmp_path


@pytest.fixture
def folder(home):
    return home / "data" / "trilemma"


def entries(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def of_older(folder, part):
    """Return what the documents of version 0.1 hold of a part, by machine, as JSON values."""
    (name,) = (name for name, holds in PARTS.items() if holds == part)
    found = {}
    for key, entry in entries(folder, name).items():
        if part == "targets":
            found.setdefault(entry.pop("machine"), {})[key] = entry
        else:
            found[key] = entry["board"] if part == "data_sheet" else entry
    return found


def of_library(library, part):
    """Return the same of the library."""
    nothing = getattr(BoardDocument(""), part)
    parts = {machine: getattr(document, part) for machine, document in library.machines().items()}
    found = {machine: msgspec.to_builtins(value) for machine, value in parts.items() if value != nothing}
    if part == "targets":
        return {
            machine: {name: _without_number(one) for name, one in targets.items()} for machine, targets in found.items()
        }
    if part == "bench":  # an absent `trap` is false
        return {machine: [_without_trap(row) for row in rows] for machine, rows in found.items()}
    return found


def _without_number(target):
    return {name: value for name, value in target.items() if name != "number"}


def _without_trap(row):
    return {name: value for name, value in row.items() if name != "trap" or value}


def test_every_document_is_taken_over_and_none_is_changed(folder):
    before = contents(folder)
    library = BoardLibrary(folder, pytest.fail)
    for part in PARTS.values():
        assert of_library(library, part) == of_older(folder, part)
    assert list(library.boards()) == list(entries(folder, "attached.json"))
    after = contents(folder)
    assert {path: after[path] for path in before} == before
    assert {path.parts[0] for path in after.keys() - before.keys()} == {"boards"}
    assert len(after) - len(before) == 5  # Example CPU, two boards that were simulated, one by hand, the Orin
    again = BoardLibrary(folder, pytest.fail)
    assert again.machines() == library.machines()
    assert contents(folder) == after


def test_every_measurement_counts_for_its_machine(folder):
    library = BoardLibrary(folder, pytest.fail)
    own, elsewhere = library.measurements(library.catalogue(), MACHINE)
    assert len(own) == 48
    counts = Counter(m.point.board for m in elsewhere)
    rk3588, jetson = "sim:rk3588", "sim:jetson_orin_nano_8gb_super"
    assert counts[rk3588] == counts[f"{rk3588},accelerate=20"] == 41
    assert counts[f"{jetson},seed=3"] == counts[f"{jetson},accelerate=20,seed=3"] == 42
    assert counts["user@orin"] == 4
    assert Counter(m.point.board for m in elsewhere if not m.machine) == {
        "raspberry_pi_5": 5,
        "jetson_orin_nano_8gb_super": 2,
        "rk3588": 1,
    }


@pytest.mark.parametrize(
    ("point", "decode_s"),
    [
        # 11 of its 48 runs were disturbed: they count as one-sided now (0.00368 [0.00337, 0.00402] in version 0.1)
        (OperatingPoint(context_tokens=2048.0), (0.0035424840715546115, 0.0033384712312072816, 0.003758964067118832)),
        (
            OperatingPoint(board="user@orin", weights="int8", context_tokens=1024.0),
            (0.00679122976829252, 0.006372422444477224, 0.007237561879739142),
        ),
        (
            replace(PRUNED, board="sim:jetson_orin_nano_8gb_super,accelerate=20,seed=3", context_tokens=1536.0),
            (0.0063472539649252705, 0.006080682403987856, 0.006625511779539412),
        ),
        (
            replace(LLAMA, board="sim:raspberry_pi_5", model="llama-3.2-1b"),
            (0.1989500746999426, 0.11666967856562249, 0.3392580892459542),
        ),
        (
            replace(LLAMA, board="raspberry_pi_5", model="qwen2.5-1.5b", context_tokens=2080.0),
            (0.12267009110878338, 0.10865469510764354, 0.13849333650726553),
        ),
    ],
)
def test_predictions_are_those_of_version_0_1(folder, point, decode_s):
    library = BoardLibrary(folder, pytest.fail)
    catalogue = library.catalogue()
    posterior = library.posterior(point, catalogue)
    if posterior is not None:
        posterior = replace(posterior, correction=None)  # version 0.1 had none
    found = predict(point, catalogue, posterior).decode_s
    assert (found.median, found.q05, found.q95) == pytest.approx(decode_s, rel=1e-6)


def test_settings_presets_and_recordings_open(home):
    settings, notes = load_settings(home / "config" / "trilemma" / "settings.json")
    assert notes == []
    assert (settings.theme, settings.axis, len(settings.boards)) == ("dark", "point.context", 2)
    catalogue = load_catalogue()
    for name in ("edge", "pi"):
        preset = open_preset(home / "presets" / f"{name}.json", catalogue)
        assert preset.notes == ()
    assert preset.point == replace(LLAMA, board="raspberry_pi_5", model="llama-3.2-1b", context_tokens=4096.0)
    for name, n_records in (("rk3588", 120), ("jetson_orin_nano_8gb_super", 134)):
        with Recording(home / "data" / "trilemma" / "recordings" / f"{name}.trilemma") as recording:
            assert (recording.n_records, recording.n_lost, recording.warnings) == (n_records, 0, [])


# --- damage -----------------------------------------------------------------------------------------------------------


def cut(content):
    return content[: len(content) // 2]


def no_json(_):
    return b"\x00\xffnonsense"


def wrong_types(content):
    document = json.loads(content)
    return json.dumps({key: value if isinstance(value, int) else -3 for key, value in document.items()}).encode()


def not_a_number(content):
    document = json.loads(content)
    return json.dumps({**document, "x": math.nan}).encode()


DAMAGE = pytest.mark.parametrize("damage", [cut, no_json, wrong_types, not_a_number])


@DAMAGE
@pytest.mark.parametrize("name", OLDER)
def test_a_damaged_document_of_version_0_1_is_set_aside_and_the_others_are_taken_over(folder, name, damage):
    file = folder / name
    expected = {part: of_older(folder, part) for part in PARTS.values() if part != PARTS[name]}
    file.write_bytes(damaged := damage(file.read_bytes()))
    reports = []
    library = BoardLibrary(folder, reports.append)
    assert {part: of_library(library, part) for part in expected} == expected
    assert of_library(library, PARTS[name]) == {}
    (report,) = reports
    assert report.startswith(f"{name}: ")
    assert report.endswith(f"; it was kept as {file.stem}.unreadable.json")
    assert (folder / f"{file.stem}.unreadable.json").read_bytes() == damaged
    assert not file.exists()
    assert len(BoardLibrary(folder, pytest.fail).measurements(library.catalogue())[0]) == 48


def test_of_a_document_of_version_0_1_only_the_entry_that_is_damaged_is_lost(folder):
    expected = of_older(folder, "bandwidth")
    broken = {**entries(folder, "bandwidth.json"), MACHINE: {"median": 1.0, "q05": 2.0, "q95": 3.0}}
    (folder / "bandwidth.json").write_text(json.dumps(broken))
    reports = []
    library = BoardLibrary(folder, reports.append)
    del expected[MACHINE]
    assert of_library(library, "bandwidth") == expected
    (report,) = reports
    assert report.startswith(f"bandwidth.json: {MACHINE}: $: expected 0 < q05 <= median <= q95, got 2, 1, 3; ")
    assert "`trilemma calibrate` measures the bandwidth again" in report


@DAMAGE
def test_a_damaged_document_of_a_machine_is_set_aside_and_the_others_work(folder, damage):
    library = BoardLibrary(folder, pytest.fail)
    before = library.machines()
    (file,) = (folder / "boards").glob("example-cpu-*.json")
    file.write_bytes(damaged := damage(file.read_bytes()))
    reports = []
    library = BoardLibrary(folder, reports.append)
    after = library.machines()
    assert {key: one for key, one in after.items() if key != MACHINE} == {
        key: one for key, one in before.items() if key != MACHINE
    }
    assert after.get(MACHINE) is None
    (report,) = reports
    assert report.startswith(f"boards/{file.name}: ")
    assert (file.parent / f"{file.stem}.unreadable.json").read_bytes() == damaged
    library.set_bandwidth(MACHINE, {"median": 2e10, "q05": 1e10, "q95": 3e10})
    assert BoardLibrary(folder, pytest.fail).bandwidth(MACHINE)["median"] == 2e10


def test_of_a_damaged_document_of_a_machine_the_parts_that_can_be_read_stay(folder):
    before = BoardLibrary(folder, pytest.fail).machines()[MACHINE]
    (file,) = (folder / "boards").glob("example-cpu-*.json")
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "bench": [{"name": 1}]}))
    reports = []
    found = BoardLibrary(folder, reports.append).machines()[MACHINE]
    assert found == msgspec.structs.replace(before, bench=[])
    assert "`trilemma bench kernels` measures it again; it was kept as" in reports[0]
    assert BoardLibrary(folder, pytest.fail).machines()[MACHINE] == found


def test_a_damaged_table_is_set_aside_and_a_torn_measurement_left_out(folder):
    (folder / "imported.csv").write_bytes(b"\xff\xfe\x00nonsense")
    lines = (folder / "measurements.jsonl").read_bytes()
    (folder / "measurements.jsonl").write_bytes(lines[:-100])
    reports = []
    library = BoardLibrary(folder, reports.append)
    own, elsewhere = library.measurements(library.catalogue())
    assert all(m.machine for m in elsewhere)
    assert len({(m.machine, m.time_utc) for m in (*own, *elsewhere)}) == 134
    torn, table = sorted(reports, key=lambda report: "imported" in report)
    assert "measurements.jsonl: line 135: " in torn
    assert table.endswith("it was kept as imported.unreadable.csv")


def test_a_folder_that_cannot_be_written_is_read_as_it_is(folder):
    (folder / "boards").write_text("a file")
    reports = []
    library = BoardLibrary(folder, reports.append)
    for part in PARTS.values():
        assert of_library(library, part) == of_older(folder, part)
    (report,) = reports
    assert "boards: cannot be made: " in report
    with pytest.raises(board_library.FileError, match="could not be taken over"):
        library.set_bandwidth(MACHINE, {"median": 2e10, "q05": 1e10, "q95": 3e10})
    (folder / "boards").unlink()
    library.set_data_sheet(MACHINE, "raspberry_pi_4")
    assert of_library(library, "bandwidth") == of_older(folder, "bandwidth")
    assert library.machines()[MACHINE].data_sheet == "raspberry_pi_4"
