import json

import numpy as np
import pytest

from core.physics import heatfield as hf
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
PLATE = hf.Plate((20, 30), 2e-3, 1.6e-3, 20.0, 2.0e6, 30.0)


def test_silicon_and_the_explicit_limit():
    alpha = hf.diffusivity_m2_s(148, 2330, 712)
    assert alpha == pytest.approx(Q["B06.phy.alpha_si_m2s"], rel=1e-12)
    assert hf.largest_explicit_step_s(1e-3, alpha) == pytest.approx(Q["B06.phy.dt_max_2D(dx=1mm)"], rel=1e-12)
    assert hf.largest_explicit_step_s(1e-4, alpha) == pytest.approx(Q["B06.phy.dt_max_2D(dx=0.1mm)"], rel=1e-12)
    assert hf.largest_explicit_step_s(1e-3, alpha, 1) == pytest.approx(Q["B06.phy.dt_max_1D(dx=1mm)"], rel=1e-12)


def test_explicit_mode_decays_as_its_factor_says():
    assert hf.explicit_mode_factor(32, 0.2) == pytest.approx(Q["B06.phy.ftcs_G(N=32,r=.2)"], rel=1e-12)
    wave = np.sin(np.pi * np.arange(33) / 32)
    field = np.outer(wave, wave)
    for _ in range(100):
        field = hf.explicit_step(field, 0.2)
    assert field[16, 16] == pytest.approx(Q["B06.phy.ftcs_G^100"], rel=1e-12)
    assert field[16, 16] == pytest.approx(Q["B06.phy.ftcs_simulated"], rel=1e-12)
    continuum = np.exp(-2 * np.pi**2 * 0.2 * 100 / 32**2)
    assert continuum == pytest.approx(Q["B06.phy.continuous_decay"], rel=1e-12)


def test_implicit_step_conserves_energy():
    rng = np.random.default_rng(0)
    source = rng.uniform(0, 0.05, PLATE.shape)
    before, solver = rng.uniform(0, 20, PLATE.shape), hf.FieldSolver(PLATE, 5.0)
    after = solver.step(before, source)
    stored = PLATE.cell_heat_j_k * (after - before).sum()
    assert stored + 5.0 * PLATE.cell_loss_w_k * after.sum() == pytest.approx(5.0 * source.sum(), rel=1e-11)


def test_maximum_principle_holds_for_any_step():
    hot = np.zeros(PLATE.shape)
    hot[10, 15] = 50.0
    for step in (1e-3, 1.0, 1e4):
        after = hf.FieldSolver(PLATE, step).step(hot, 0.0)
        assert after.min() >= 0
        assert after.max() <= 50


def test_steady_field_is_the_limit_and_loses_what_it_gets():
    source = np.zeros(PLATE.shape)
    source[5:8, 10:14] = 0.5
    steady = hf.steady_field_k(PLATE, source)
    assert PLATE.cell_loss_w_k * steady.sum() == pytest.approx(source.sum(), rel=1e-11)
    field, solver = np.zeros(PLATE.shape), hf.FieldSolver(PLATE, 50.0)
    for _ in range(400):
        field = solver.step(field, source)
    np.testing.assert_allclose(field, steady, rtol=1e-6)
    assert np.unravel_index(steady.argmax(), steady.shape) in {(6, 11), (6, 12)}


def test_uniform_source_is_uniform_and_symmetric_source_symmetric():
    np.testing.assert_allclose(hf.steady_field_k(PLATE, 0.01), 0.01 / PLATE.cell_loss_w_k, rtol=1e-10)
    source = np.zeros(PLATE.shape)
    source[9:11, 14:16] = 1.0
    field = hf.steady_field_k(PLATE, source)
    np.testing.assert_allclose(field, field[::-1, ::-1], rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hf.explicit_step(np.zeros((3, 3)), 0.26), "step_ratio = 0.26"),
        (lambda: hf.Plate((1, 5), 1e-3, 1e-3, 1, 1, 1), "shape = 1"),
        (lambda: hf.Plate((2, 5), 1e-3, 1e-3, 1, 1, 0), "loss_w_m2k = 0"),
        (lambda: hf.FieldSolver(PLATE, 0), "step_s = 0"),
        (lambda: hf.largest_explicit_step_s(-1, 1), "spacing_m = -1"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
