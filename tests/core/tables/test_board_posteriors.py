from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.tables.as_points import compare
from core.tables.board_posteriors import fit_boards
from core.tables.rows import read_table

SHIPPED = load_catalogue()
CATALOGUE = replace(SHIPPED, board_posteriors={})
TABLE = read_table(str(files("resources").joinpath("measurements", "llm_decode.csv")))


@pytest.fixture(scope="module")
def fits():
    rows = [row for row in TABLE.rows if row.text["board_key"] in ("rk3588", "dgx_spark", "qcs8550")]
    return {(f.posterior.board, f.posterior.runtime): f for f in fit_boards(compare(rows, CATALOGUE), CATALOGUE)}


def test_boards_with_enough_rows_are_fitted_and_others_not(fits):
    assert set(fits) == {("rk3588", "rkllm_npu"), ("dgx_spark", "llamacpp_gpu")}
    fit = fits["rk3588", "rkllm_npu"]
    assert fit.sources
    assert fit.leave_one_model_out.median_error_frac < 0.1
    assert fit.posterior.n_decode > 30
    assert fit.posterior.n_ttft > 30


def test_shipped_fits_are_those_of_the_shipped_table(fits):
    for (board, runtime), fit in fits.items():
        shipped = SHIPPED.board_posteriors[board, runtime, "default"]
        assert shipped.basis == fit.posterior.basis
        assert shipped.names == fit.posterior.names
        np.testing.assert_allclose(shipped.log_mean, fit.posterior.log_mean, atol=2e-3)


def test_only_parameters_of_the_catalogue_are_kept(fits):
    for fit in fits.values():
        for name in fit.posterior.names:
            kind, _, of = name.partition(".")
            if kind in ("model", "prompt"):
                assert of in CATALOGUE.models
            elif kind == "eta" and of:
                assert of in CATALOGUE.weight_formats


def test_energy_is_learned_on_the_table_s_rail(fits):
    known = fits["dgx_spark", "llamacpp_gpu"].posterior
    assert known.power_covers == "wall, peak"
    assert known.n_energy == 4
    assert fits["rk3588", "rkllm_npu"].posterior.n_energy == 0
