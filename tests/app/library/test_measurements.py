"""The file of measurements: appended, never rewritten, readable after a crash."""

import errno
import os
from dataclasses import replace

import pytest

from app.library import measurements as module
from app.library.files import FileError
from app.library.measurements import Measurement, append_measurement, load_measurements, ran, ran_elsewhere
from core.catalogue.load import load_catalogue
from core.spec import Absent, Estimate, OperatingPoint, Provenance

BODY = {
    "decode_s": {"median": 0.009, "q05": 0.0088, "q95": 0.0093, "n": 21, "provenance": "measured"},
    "power_w": {"absent": "no power sensor"},
    "notes": ["quiet"],
}


def measured(alpha, machine="m"):
    return Measurement(OperatingPoint(alpha=alpha), BODY, "2026-01-01T00:00:00+00:00", machine)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "measurements.jsonl"


def test_what_is_appended_is_loaded_for_its_machine_only(path):
    for run in (measured(0.1), measured(0.2, "another"), measured(0.3)):
        append_measurement(path, run)
    assert load_measurements(path, "m") == ([measured(0.1), measured(0.3)], [])


def test_without_a_file_there_are_none(path):
    assert load_measurements(path, "m") == ([], [])


def test_outputs_are_estimates_or_absent():
    run = measured(0.1)
    assert run.output("decode_s") == Estimate(0.009, 0.0088, 0.0093, Provenance.MEASURED)
    assert run.output("power_w") == Absent("no power sensor")
    assert run.output("ttft_s") == Absent("not part of this measurement")


@pytest.mark.parametrize("n_byte", [1, 40, 200])
def test_a_torn_last_line_is_named_and_the_next_one_is_whole(path, n_byte):
    append_measurement(path, measured(0.1))
    append_measurement(path, measured(0.2))
    size = path.stat().st_size
    os.truncate(path, size - n_byte)
    found, notes = load_measurements(path, "m")
    torn = n_byte > 1  # the line end alone is no loss
    assert [run.point.alpha for run in found] == ([0.1] if torn else [0.1, 0.2])
    assert [note.split(": ")[1] for note in notes] == (["line 2"] if torn else [])
    append_measurement(path, measured(0.3))
    assert [run.point.alpha for run in load_measurements(path, "m")[0]][-1] == 0.3


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"garbage",
        b"[]",
        b'{"machine": "m"}',
        b'{"machine":"m","time_utc":"t","body":{},"point":{"board":1}}',
        b"\xff\xfe",
        b'{"machine":"m","time_utc":"t","body":{"decode_s":{"median":"x","q05":1,"q95":2,"provenance":"measured"}},'
        b'"point":{"board":"this","model":"m","weights":"int4","context_tokens":1}}',
    ],
)
def test_a_bad_line_is_named_by_number_and_the_others_count(path, line):
    append_measurement(path, measured(0.1))
    with path.open("ab") as file:
        file.write(line + b"\n")
    append_measurement(path, measured(0.2))
    before = path.read_bytes()
    found, notes = load_measurements(path, "m")
    assert [run.point.alpha for run in found] == [0.1, 0.2]
    assert len(notes) == 1
    assert notes[0].startswith("measurements.jsonl: line 2: ")
    assert path.read_bytes() == before


def test_of_a_long_file_the_end_is_read_and_line_numbers_hold(path, monkeypatch):
    for i in range(50):
        append_measurement(path, measured(i / 100))
    with path.open("ab") as file:
        file.write(b"bad\n")
    monkeypatch.setattr(module, "MAX_READ_BYTE", 5000)
    found, notes = load_measurements(path, "m")
    assert 5 < len(found) < 50
    assert found[-1].point.alpha == 0.49
    assert notes[0].startswith("measurements.jsonl: only the last")
    assert notes[1].startswith("measurements.jsonl: line 51: ")


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_takes_nothing_more_names_its_reason(path, monkeypatch, call, number):
    append_measurement(path, measured(0.1))
    before = path.read_bytes()

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(FileError, match=f"cannot be saved: {os.strerror(number).lower()}"):
        append_measurement(path, measured(0.2))
    assert path.read_bytes() == before


def test_a_disk_that_fills_up_keeps_no_half_line(path, monkeypatch):
    append_measurement(path, measured(0.1))
    before, write, taken = path.read_bytes(), os.write, []

    def part(descriptor, content):
        if taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken.append(write(descriptor, content[:20]))
        return taken[0]

    monkeypatch.setattr(os, "write", part)
    with pytest.raises(FileError, match="cannot be saved: no space left on device"):
        append_measurement(path, measured(0.2))
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [-1.0, 0.0, float("nan"), float("inf"), "fast", 10**400, None, True])
def test_a_senseless_time_is_not_kept(path, value):
    body = {**BODY, "decode_s": {**BODY["decode_s"], "median": value, "q05": value, "q95": value}}
    with pytest.raises(FileError, match=r"cannot be saved: decode_s"):
        append_measurement(path, replace(measured(0.1), body=body))
    assert not path.exists()


@pytest.mark.parametrize("time_utc", ["", "yesterday", "\ud800"])
def test_a_senseless_date_is_not_kept(path, time_utc):
    with pytest.raises(FileError, match=r"cannot be saved: (time_utc|got half)"):
        append_measurement(path, replace(measured(0.1), time_utc=time_utc))
    assert not path.exists()


def test_a_senseless_line_is_set_aside_with_its_place_and_remedy(path):
    for alpha in (0.1, 0.2, 0.3):
        append_measurement(path, measured(alpha))
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"0.009", b"-1.0").replace(b"0.0088", b"-1.0").replace(b"0.0093", b"-1.0")
    path.write_bytes(b"\n".join(lines))
    found, (note,) = load_measurements(path, "m")
    assert [run.point.alpha for run in found] == [0.1, 0.3]
    assert note == (
        "measurements.jsonl: line 2: decode_s.median: got -1, expected 1e-09 to 1e+07; "
        "it was left out: correct or delete it, or measure the point again"
    )


def test_many_damaged_lines_are_few_sentences(path):
    path.parent.mkdir()
    path.write_bytes(b"{}\n" * 100)
    found, notes = load_measurements(path, "m")
    assert (found, len(notes)) == ([], module.MAX_NAMED + 1)
    assert f"{100 - module.MAX_NAMED} more lines" in notes[-1]


def test_a_run_is_filed_at_the_point_that_really_ran():
    catalogue = load_catalogue()
    asked = OperatingPoint(runtime="llamacpp_cpu", weights="int4", kv="bf16", alpha=0.5)
    told = {"alpha": 0.0, "weights": "q4_1", "kv": "fp16", "context_tokens": 1017}
    expected = OperatingPoint(runtime="llamacpp_cpu", weights="q4_1", kv="fp16", context_tokens=1017.0)
    assert ran(asked, {"applied": told}, catalogue) == expected
    assert ran(asked, {}, catalogue) == asked


@pytest.mark.parametrize(
    ("applied", "expected", "says"),
    [
        ({"weights": "Q4_0", "kv": "f16"}, {}, []),
        ({"weights": "F16"}, {"weights": "fp16"}, ["weights q4_0 was not applied: ollama says F16, fp16."]),
        ({"kv": "q8_0"}, {"kv": "q8_0"}, ["kv fp16 was not applied: ollama says q8_0, q8_0."]),
        (
            {"weights": "IQ4_KSS - 4.0 bpw"},
            {"weights": "iq4_kss"},
            [
                "ollama says IQ4_KSS - 4.0 bpw of its weights format, not q4_0; the catalogue has no such format: "
                "the measurement is kept under that name, and no calibration takes it."
            ],
        ),
        ({"kv": "turbo3"}, {"kv": "turbo3"}, ["ollama says turbo3 of its kv format, not fp16"]),
        ({"model": "m9"}, {"model": "m9"}, ["The measurement is kept, and no calibration takes it: model is 'm9'"]),
        ({"context_tokens": 1e7}, {"context_tokens": 1e7}, ["context is 1e+07: expected at most 131072 tokens"]),
        ({"a_new_field": "x"}, {}, []),
    ],
)
def test_words_of_a_runtime_cost_a_note_and_never_the_measurement(applied, expected, says):
    catalogue = load_catalogue()
    asked = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_0", kv="fp16")
    body = {"applied": applied, "conditions": {"runtime": "ollama"}}
    assert ran(asked, body, catalogue) == replace(asked, **expected)
    notes = ran_elsewhere(asked, body, catalogue)
    assert len(notes) == len(says)
    assert all(part in note for part, note in zip(says, notes, strict=True))


@pytest.mark.parametrize(
    ("applied", "words"),
    [
        ([1], r"\$.applied: expected an object"),
        ({"alpha": "x"}, "applied: .*alpha: expected number, got string"),
        ({"context_tokens": -5}, r"applied\.context_tokens: got -5, expected at least 1 token$"),
        ({"context_tokens": 1e300}, r"applied\.context_tokens: got 1e\+300, expected a number below 1e\+18$"),
        ({"board": "rk3588"}, r"applied\.board: got 'rk3588', expected 'this'$"),
        ({"alpha": 1}, r"applied\.alpha: got 1, expected 0 <= alpha < 1$"),
    ],
)
def test_an_answer_of_another_type_or_out_of_range_is_refused(applied, words):
    with pytest.raises(FileError, match=words):
        ran(OperatingPoint(), {"applied": applied}, load_catalogue())
