"""Predict, calibrate and the dashboard count the same measurements and find the same posterior (docs/adr/0004)."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.cli import calibrate, main, measure
from app.library.board_library import BoardLibrary
from app.library.calibration import calibration_of
from app.library.machine import hello_here, this_machine
from app.library.measurements import Measurement
from app.library.other_boards import imported_file
from app.model.attached_board import AttachedBoard
from app.model.background_fit import Fitting
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint

HEADING = "board_key,compute,runtime,model,model_key,quant,kv_quant,context_tokens,decode_ms_per_tok,ttft_ms"
HEADING += ",prompt_tokens,provenance,source\n"
ROW = "{},cpu,llama.cpp,Llama 3.2 1B,llama-3.2-1b,Q4_K_M,f16,{},{},,,measured,t.csv\n"
POINT = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_k_m", kv="fp16")
OPTIONS = ("--runtime", "llamacpp_cpu", "--model", "llama-3.2-1b", "--weights", "q4_k_m", "--kv", "fp16", "--json")
BASIS = "3 imported values (t.csv)"


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    return BoardLibrary(tmp_path, pytest.fail)


def import_rows(board, seconds=(0.050, 0.055, 0.062)):
    rows = (ROW.format(board, n, 1e3 * s) for n, s in zip((64, 512, 2048), seconds, strict=True))
    imported_file().write_text(HEADING + "".join(rows))


def answer(capsys, *words):
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)


def shown(library, hello, point):
    """Return the store of a dashboard that has attached a machine and rests at a point."""
    store, done = Store(load_catalogue()), []
    AttachedBoard(store, library).meet("", hello, "")
    store.set("point", point)
    fitting = Fitting(store, done.append)
    fitting.start()
    fitting.join()
    fitting.take(done[0])
    return store


def same(one, other):
    """Whether two posteriors are equal to the last digit."""
    return (
        one.names == other.names
        and one.basis == other.basis
        and np.array_equal(one.log_mean, other.log_mean)
        and np.array_equal(one.log_cov, other.log_cov)
        and one.interval_scale == other.interval_scale
    )


def test_three_imported_rows_of_this_machine_are_three_points_everywhere(library, capsys, qapp):
    import_rows("this")
    predicted = answer(capsys, "predict", *OPTIONS)
    (listed,) = answer(capsys, "calibrate", "--list", "--json")
    fitted = answer(capsys, "calibrate", "--fit-only", *OPTIONS)
    store = shown(library, hello_here(), POINT)

    catalogue = library.catalogue()
    expected = calibration_of(library.evidence(catalogue), catalogue, POINT)
    assert len(expected.points) == 3
    assert len(fitted["points"]) == listed["n_points"] == len(store.calibration.points) == 3
    assert (listed["board"], listed["runtime"], listed["provenance"]) == (
        "this",
        "llamacpp_cpu",
        ["measured, imported"],
    )
    assert same(store.posterior, expected.posterior)
    assert same(library.posterior(POINT, catalogue), expected.posterior)
    medians = {p.key: float(p.estimate.median) for p in expected.parameters}
    assert {key: value["median"] for key, value in fitted["parameters"].items()} == medians
    assert predicted["basis"] == fitted["basis"] == expected.posterior.basis == store.posterior.basis == BASIS
    decode_s = predict(POINT, catalogue, expected.posterior).decode_s
    assert predicted["decode_s"]["median"] == float(decode_s.median) == float(store.prediction.decode_s.median)


def test_measure_shows_the_prediction_with_imported_rows(library):
    import_rows("this")
    plain = load_catalogue()
    shown = measure._predicted(library, POINT, plain, hello_here(), this_machine()).decode_s
    posterior = library.posterior(POINT, library.catalogue())
    assert shown == predict(POINT, library.catalogue(), posterior).decode_s
    assert shown.provenance == "calibrated"


def test_rows_of_a_board_count_by_its_name_and_while_it_is_attached(library, qapp):
    hello = {"board": {"cpu": "A76", "n_threads": 4, "name": "A board", "id": "7"}, "models": []}
    library.remember_target("lab", hello)
    import_rows("lab")
    named = replace(POINT, board="lab")
    catalogue = library.catalogue()
    by_name = library.posterior(named, catalogue)
    attached = shown(library, hello, POINT).posterior
    assert by_name.n_decode == attached.n_decode == 3
    np.testing.assert_array_equal(by_name.log_mean, attached.log_mean)
    assert library.posterior(POINT, catalogue) is None


def test_own_and_imported_measurements_count_alike(library, capsys, qapp):
    import_rows("this")
    value = {"median": 0.058, "q05": 0.057, "q95": 0.059, "n": 9, "provenance": "measured"}
    at = replace(POINT, context_tokens=1024.0)
    library.add(Measurement(at, {"decode_s": value}, "2026-01-01T00:00:00Z", this_machine()))
    fitted = answer(capsys, "calibrate", "--fit-only", *OPTIONS)
    (listed,) = answer(capsys, "calibrate", "--list", "--json")
    store = shown(library, hello_here(), POINT)
    assert len(fitted["points"]) == listed["n_points"] == len(store.calibration.points) == 4
    assert listed["provenance"] == ["measured", "measured, imported"]
    assert fitted["basis"].startswith("measurements at 1 point, the last of 2026-01-01, and 3 imported values")


def test_a_prompt_alone_is_a_point_everywhere(library, capsys, qapp):
    row = "this,cpu,llama.cpp,Llama 3.2 1B,llama-3.2-1b,Q4_K_M,f16,256,,9000,512,measured,t.csv\n"
    imported_file().write_text(HEADING + row)
    (listed,) = answer(capsys, "calibrate", "--list", "--json")
    fitted = answer(capsys, "calibrate", "--fit-only", *OPTIONS)
    store = shown(library, hello_here(), POINT)
    assert len(fitted["points"]) == listed["n_points"] == len(store.calibration.points) == 1
    assert store.posterior.n_ttft == 1


def test_another_power_mode_starts_from_what_is_published_of_it(library):
    here = replace(POINT, board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu")
    value = {"median": 0.03, "q05": 0.03, "q95": 0.03, "n": 9, "provenance": "measured"}
    points = [replace(here, power_mode=mode) for mode in ("", "15W")]
    measured = [Measurement(point, {"decode_s": value}, "2026-01-01T00:00:00Z", "m") for point in points]
    catalogue = library.catalogue()
    others = calibrate._calibrations(measured, catalogue, here)[1]
    assert list(others) == ["15W"]
    assert others["15W"].posterior.basis.endswith(catalogue.board_posteriors[here.board, here.runtime, "15W"].basis)
