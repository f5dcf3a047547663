import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from core.catalogue import calibration_file
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint, Provenance

CATALOGUE = load_catalogue()
KEY = ("rk3588", "rkllm_npu", "default")


def test_documents_hold_a_posterior_to_seven_digits():
    known = CATALOGUE.board_posteriors[KEY]
    found = json.loads(json.dumps(calibration_file.document(known, {"source": "a test"})))
    assert found["source"] == "a test"
    again = calibration_file.posterior_from("x", found)
    assert again.names == known.names
    np.testing.assert_allclose(again.log_cov, known.log_cov, rtol=1e-6)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("names", ["eta"], "names: got eta"),
        ("log_mean", [0.0], "log_cov: got another shape"),
        ("decode_log_sd", "wide", "decode_log_sd: got 'wide'"),
        ("n_decode", True, "n_decode: got True"),
        ("basis", None, "basis: got None"),
        ("decode_log_sd", float("nan"), "decode_log_sd: got a number beyond"),
        ("n_decode", 10**400, "n_decode: got a number beyond"),
        ("log_cov", [1.0], "got a value of another type or size"),
        ("names", [{}], "got a value of another type or size"),
    ],
)
def test_wrong_documents_are_refused(key, value, message):
    found = calibration_file.document(CATALOGUE.board_posteriors[KEY], {})
    with pytest.raises(ValueError, match=f"x: {message}"):
        calibration_file.posterior_from("x", {**found, key: value})


def test_matrix_that_is_no_covariance_is_refused():
    found = calibration_file.document(CATALOGUE.board_posteriors[KEY], {})
    found["log_cov"][0][0] = -1.0
    with pytest.raises(ValueError, match="positive definite"):
        calibration_file.posterior_from("x", found)
    with pytest.raises(ValueError, match="expected one JSON object"):
        calibration_file.posterior_from("x", [])


def test_parameters_can_be_left_out():
    known = CATALOGUE.board_posteriors[KEY]
    dropped = {name for name in known.names if name.startswith("model.")}
    fewer = calibration_file.without(known, dropped)
    assert dropped
    assert not set(fewer.names) & dropped
    i, j = known.names.index("eta"), fewer.names.index("eta")
    assert fewer.log_cov[j, j] == known.log_cov[i, i]


def test_every_shipped_file_says_what_it_was_learned_from_and_how_good_it_is():
    entries = [e for e in files("resources").joinpath(calibration_file.FOLDER).iterdir() if e.name.endswith(".json")]
    assert len(entries) == len(CATALOGUE.board_posteriors) >= 12
    for entry in entries:
        found = json.loads(entry.read_text("utf-8"))
        assert entry.name == f"{found['board']}.{found['runtime']}.{found['power_mode']}.json"
        assert found["n_rows"] >= 4
        assert found["n_models"] >= 2
        assert found["source"].startswith("`trilemma data learn llm_decode.csv`: ")
        assert f"{found['n_rows']} published rows of {found['n_models']} models" in found["basis"]
        assert found["leave_one_model_out"]["median_error_frac"] < 0.35


def test_board_with_published_rows_is_calibrated_and_others_are_not():
    point = OperatingPoint(
        board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8", context_tokens=160.0
    )
    calibrated = predict(point, CATALOGUE)
    assert calibrated.decode_s.provenance is Provenance.CALIBRATED
    assert calibrated.decode_s.median == pytest.approx(0.0603, rel=0.04)  # the table: 59.9 to 61.3 ms
    prior = predict(point, replace(CATALOGUE, board_posteriors={}))
    assert prior.decode_s.provenance is Provenance.PREDICTED
    assert calibrated.decode_s.q95 / calibrated.decode_s.q05 < 0.75 * prior.decode_s.q95 / prior.decode_s.q05
    assert predict(replace(point, board="rk3576"), CATALOGUE).decode_s.provenance is Provenance.PREDICTED
