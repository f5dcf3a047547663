from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.predict.sweep import costs, dominated_share, front, front_knee, largest_context, sweep
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint()
RK3588 = OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8", context_tokens=160.0)


def test_every_point_is_its_own_prediction_in_the_order_of_the_axes():
    axes = {"alpha": [0.0, 0.5], "weights": ["int4", "bf16"], "context_tokens": [256.0, 1024.0, 4096.0]}
    found = sweep(POINT, axes, CATALOGUE)
    assert found.n == 12
    assert list(found.axes) == list(axes)
    i = 0
    for alpha in axes["alpha"]:
        for weights in axes["weights"]:
            for tokens in axes["context_tokens"]:
                keys = {name: values[i].item() for name, values in found.axes.items()}
                assert keys == {"alpha": alpha, "weights": weights, "context_tokens": tokens}
                one = predict(replace(POINT, weights=weights, alpha=alpha, context_tokens=tokens), CATALOGUE)
                for name in ("decode_s", "top1_agreement", "memory_byte"):
                    output = getattr(one, name)
                    column = found.outputs[name]
                    assert column.median[i] == pytest.approx(output.median, rel=1e-12)
                    assert column.q95[i] == pytest.approx(output.q95, rel=1e-12)
                    assert column.provenance[i] == output.provenance
                i += 1


def test_named_axes_alone_and_absent_outputs():
    bare = replace(CATALOGUE.boards["rk3588"], system_energy_j_byte=None)
    without = replace(CATALOGUE, boards={**CATALOGUE.boards, "rk3588": bare})
    found = sweep(RK3588, {"weights": ["w8a8", "w4a16"]}, without)
    assert found.n == 2
    assert np.all(np.isnan(found.outputs["power_w"].median))
    assert all("energy per byte" in reason for reason in found.outputs["power_w"].absent)
    with pytest.raises(ValueError, match="objective power: no point has it"):
        costs(found, ["latency", "power"])


@pytest.mark.parametrize(
    ("axes", "message"), [({"colour": [1]}, "axis 'colour'"), ({"alpha": []}, "axis alpha has no values")]
)
def test_wrong_axes_are_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        sweep(POINT, axes, CATALOGUE)


def test_front_holds_what_no_other_point_beats():
    found = sweep(POINT, {"weights": ["int4", "int8", "bf16"], "alpha": list(np.linspace(0, 0.9, 10))}, CATALOGUE)
    names = ["latency", "accuracy"]
    on_front, cost = front(found, names), costs(found, names)
    for i, mine in enumerate(cost):
        beaten = np.any(np.all(cost <= mine, axis=1) & np.any(cost < mine, axis=1))
        assert on_front[i] == (not beaten)
    assert 0.0 < dominated_share(found, names) < 1.0
    knee = front_knee(found, names)
    assert on_front[knee.index]
    assert not knee.edge
    faster = sweep(POINT, {"alpha": list(np.linspace(0, 0.9, 10)), "bandwidth_byte_s": [20e9, 40e9]}, CATALOGUE)
    knee = front_knee(faster, names)
    assert faster.axes["bandwidth_byte_s"][knee.index] == 40e9
    assert knee.edge  # a faster memory yet would move the front


def test_fronts_too_small_for_a_knee_say_so():
    found = sweep(POINT, {"alpha": [0.0, 0.5]}, CATALOGUE)
    knee = front_knee(found, ["latency", "accuracy"])
    assert isinstance(knee, Absent)
    with pytest.raises(ValueError, match="knee of 3 objectives"):
        front_knee(found, ["latency", "accuracy", "memory"])
    with pytest.raises(ValueError, match="objective 'speed'"):
        front(found, ["speed"])
    assert dominated_share(found, ["memory", "perplexity"]) >= 0.0


def test_largest_context_is_exact():
    limit = float(predict(replace(RK3588, context_tokens=3000.0), CATALOGUE).decode_s.median)
    n = largest_context(RK3588, CATALOGUE, latency_s=limit * (1 + 1e-9))
    assert n == 3000
    held = float(predict(replace(RK3588, context_tokens=500.0), CATALOGUE).memory_byte.median)
    assert largest_context(RK3588, CATALOGUE, memory_byte=held) == 500
    assert largest_context(RK3588, CATALOGUE, latency_s=limit * (1 + 1e-9), memory_byte=held) == 500
    assert largest_context(RK3588, CATALOGUE) == CATALOGUE.models["qwen2.5-1.5b"].max_context_tokens
    assert isinstance(largest_context(RK3588, CATALOGUE, latency_s=1e-6), Absent)


def test_largest_context_fits_before_pruning_and_one_more_does_not():
    board = replace(CATALOGUE.boards["this"], memory_byte=200e6, available_byte=200e6)
    catalogue = replace(CATALOGUE, boards={**CATALOGUE.boards, "this": board})
    counts = [
        largest_context(replace(POINT, alpha=alpha, layout=layout), catalogue, memory_byte=board.memory_byte)
        for alpha, layout in ((0.0, "compacted"), (0.5, "compacted"), (0.9, "masked"))
    ]
    assert counts[0] == counts[1] == counts[2]
    for alpha, whole in ((0.0, "does not fit"), (0.5, "% more before pruning")):
        point = replace(POINT, alpha=alpha, context_tokens=float(counts[0]))
        assert predict(point, catalogue).outside == ()
        assert whole in predict(replace(point, context_tokens=counts[0] + 1.0), catalogue).outside[0]


def test_largest_context_of_a_format_without_speed_is_what_memory_holds():
    int3 = replace(RK3588, weights="int3")
    held = float(predict(replace(int3, context_tokens=500.0), CATALOGUE).memory_byte.median)
    assert largest_context(int3, CATALOGUE, memory_byte=held) == 500
    assert "accuracy only" in largest_context(int3, CATALOGUE, latency_s=1.0, memory_byte=held).reason
