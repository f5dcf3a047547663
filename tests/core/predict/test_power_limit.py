from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.energy import load_cooling, load_throttle_rules
from core.catalogue.load import load_catalogue
from core.physics.power import limited_time_s
from core.predict import cosim
from core.predict.endurance import device_of, predicted_speeds
from core.predict.parameters import extended
from core.predict.power_limit import same_rail
from core.predict.scenario import initial_posterior, predict
from core.spec import Absent, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
LIMITED = [(b.key, m.key) for b in CATALOGUE.boards.values() for m in b.power_modes.values() if m.power_limit_w]
NANO = OperatingPoint(
    board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu", model="llama-3.2-1b", weights="fp16", kv="fp16",
)  # fmt: skip
PI = OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_k_m", kv="fp16")
RUNTIMES = ("builtin", "llamacpp_gpu", "llamacpp_cpu", "mlc_gpu", "tensorrt_gpu", "vllm_gpu")


def test_some_boards_have_modes_with_limits():
    assert len(LIMITED) >= 10


@pytest.mark.parametrize(("board", "mode"), LIMITED)
def test_no_model_format_or_runtime_exceeds_the_limit_of_a_mode(board, mode):
    limit_w = CATALOGUE.boards[board].power_modes[mode].power_limit_w
    for runtime in RUNTIMES:
        for model in ("smollm2-135m", "llama-3.2-1b", "qwen2.5-1.5b", "llama-3-8b"):
            for weights in ("fp16", "int8", "q4_k_m"):
                point = OperatingPoint(
                    board=board, power_mode=mode, runtime=runtime, model=model, weights=weights,
                    beta=np.array([0.25, 1.0, 4.0]), bandwidth_byte_s=np.array([1e9, 50e9, 400e9]),
                )  # fmt: skip
                found = predict(point, CATALOGUE)
                assert np.all(np.asarray(found.power_w.q95) <= limit_w)
                drawn_w = np.asarray(found.energy_j_per_token.median) / found.decode_s.median
                np.testing.assert_allclose(drawn_w, found.power_w.median, rtol=1e-9)
                total = sum(np.asarray(part) for part in found.parts_s.values())
                np.testing.assert_allclose(total, found.decode_s.median, rtol=1e-9)


def test_a_rail_gets_its_share_of_the_limit_of_a_mode():
    free, found = (predict(replace(NANO, power_mode=mode), CATALOGUE) for mode in ("MAXN", "7W"))
    assert free.power_w.median > 7.0
    assert pytest.approx(found.power_w.median, rel=0.2) == 0.42 * 7.0
    assert 0.1 < np.log(found.power_w.q95 / found.power_w.q05) < 1.0
    assert found.binding == "power"
    whole = replace(CATALOGUE.boards[NANO.board], rail_limit_frac=0.95, rail_limit_log_sd=0.03)
    other = replace(CATALOGUE, boards={**CATALOGUE.boards, NANO.board: whole})
    assert predict(replace(NANO, power_mode="7W"), other).power_w.median > 1.5 * found.power_w.median


def test_time_and_energy_share_what_the_limit_says_by_their_uncertainty():
    def shifts(energy_sd, decode_sd):
        point = replace(NANO, power_mode="15W")
        known = replace(calibrated(point, 400e-12, 2.0), energy_log_sd=energy_sd, decode_log_sd=decode_sd)
        at = CATALOGUE.resolve(point)
        free_mode = replace(at.board, power_modes={**at.board.power_modes, "15W": replace(at.mode, power_limit_w=None)})
        free = predict(point, replace(CATALOGUE, boards={**CATALOGUE.boards, NANO.board: free_mode}), known)
        found = predict(point, CATALOGUE, known)
        assert free.power_w.median > 15.0 >= found.power_w.q95
        energies, times = (
            np.log([getattr(p, name).median for p in (free, found)]) for name in ("energy_j_per_token", "decode_s")
        )
        return energies[0] - energies[1], times[1] - times[0]

    energy, time = shifts(1.0, 0.02)
    assert energy > 3.0 * time > 0.0
    energy, time = shifts(0.02, 1.0)
    assert time > 0.9
    assert energy < 0.0  # static power draws longer


def test_a_prior_energy_that_is_lowered_is_said():
    point = OperatingPoint(board="jetson_orin_nano_8gb", power_mode="7W", runtime="llamacpp_gpu", model="llama-3.2-1b")
    found = predict(point, CATALOGUE)
    assert any("energy is lowered by up to" in each and "7 W" in each for each in found.outside)
    assert found.power_w.q95 <= 7.0
    assert found.power_w.q95 > 1.1 * found.power_w.median


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("", "GPU rail", True), ("VDD_IN", "VDD_CPU_GPU_CV rail", False), ("wall, peak", "wall", True)],
)
def test_rails_are_the_same_by_the_first_word_of_their_names(one, other, same):
    assert same_rail(one, other) is same


def calibrated(point, per_byte, static_w):
    base = extended(initial_posterior(CATALOGUE.resolve(point), CATALOGUE), {})
    base = extended(base, {"energy_j_byte": 0.05, "static_power_w": 0.05})
    mean = base.log_mean.copy()
    mean[[base.names.index("energy_j_byte"), base.names.index("static_power_w")]] = np.log([per_byte, static_w])
    return replace(base, log_mean=mean, n_energy=4, n_decode=4, moved_from="", power_covers="VDD_IN")


@pytest.mark.parametrize("static_w", [1.0, 3.0, 9.0])
def test_a_calibrated_board_keeps_the_limit(static_w):
    point = replace(NANO, power_mode="7W")
    known = calibrated(point, 400e-12, static_w)
    found = predict(point, CATALOGUE, known)
    assert found.power_w.provenance is Provenance.CALIBRATED
    assert found.power_w.median <= 7.0
    assert found.power_w.q95 <= 7.0
    assert found.binding == "power"
    assert found.parts_s["power"] > 0.0


@pytest.mark.parametrize("limit_w", [2.5, 4.0, 6.0])
def test_the_time_is_that_of_the_clocks_that_keep_the_limit(limit_w):
    free, found = predict(PI, CATALOGUE), predict(replace(PI, power_limit_w=limit_w), CATALOGUE)
    drawn_w = 0.95 * limit_w
    rest_w = min(CATALOGUE.boards["raspberry_pi_5"].idle_power_w, 0.5 * drawn_w)
    expected = (free.energy_j_per_token.median - rest_w * free.decode_s.median) / (drawn_w - rest_w)
    assert found.decode_s.median == pytest.approx(expected, rel=1e-9)
    assert found.power_w.median == pytest.approx(drawn_w)
    assert found.power_w.q05 < found.power_w.median < found.power_w.q95 <= limit_w
    assert found.decode_s.q05 <= found.decode_s.median <= found.decode_s.q95
    assert found.binding == "power"


def test_the_limit_as_an_array_equals_scalars_and_a_high_one_changes_nothing():
    limits = np.array([3.0, 5.0, 1000.0])
    together = predict(replace(PI, power_limit_w=limits), CATALOGUE)
    for i, limit_w in enumerate(limits):
        alone = predict(replace(PI, power_limit_w=float(limit_w)), CATALOGUE)
        assert np.asarray(together.decode_s.median)[i] == pytest.approx(alone.decode_s.median, rel=1e-12)
        assert str(together.binding[i]) == alone.binding
    assert np.asarray(together.decode_s.median)[2] == predict(PI, CATALOGUE).decode_s.median
    assert np.all(np.diff(together.decode_s.median) <= 0)


def test_a_limit_below_the_power_at_rest_is_said():
    assert any("at rest" in each for each in predict(replace(PI, power_limit_w=1.0), CATALOGUE).outside)
    assert not predict(replace(PI, power_limit_w=5.0), CATALOGUE).outside


@pytest.mark.parametrize("value", [np.nan, -1.0, 0.0, np.inf])
def test_a_limit_out_of_range_is_refused(value):
    with pytest.raises(ValueError, match="power_limit_w"):
        predict(replace(PI, power_limit_w=value), CATALOGUE)


def test_the_limited_time_falls_with_the_limit_to_the_free_time():
    times = limited_time_s(0.05, 0.5, 2.0, np.array([3.0, 5.0, 8.0, 10.0, 20.0]))
    np.testing.assert_allclose(times, [0.4, 0.4 / 3, 0.4 / 6, 0.05, 0.05])


def test_the_idle_power_does_not_depend_on_the_format():
    known = calibrated(NANO, 200e-12, 2.0)
    idle = {predicted_speeds(replace(NANO, weights=w), CATALOGUE, known).idle_w for w in ("q4_0", "q8_0", "fp16")}
    assert idle == {2.0}


@pytest.mark.parametrize(("mode", "cooling"), [("7W", "bare"), ("7W", "fan"), ("15W", "heatsink")])
def test_a_simulated_run_keeps_the_limit_of_its_mode(mode, cooling):
    point = replace(NANO, power_mode=mode)
    limit_w = CATALOGUE.resolve(point).mode.power_limit_w
    speeds, rules = predicted_speeds(point, CATALOGUE), load_throttle_rules()
    device = device_of(speeds, load_cooling()[cooling], rules.get(point.board, rules["default"]))
    run = cosim.simulate(device, np.ones(6000), 0.1, 45.0)
    assert run.power_w.max() <= limit_w * (1 + 1e-9)
    assert not isinstance(run.tokens, Absent)
