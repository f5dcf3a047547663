import numpy as np
import pytest

from core.articles.fusion import (
    CONVERT_CYCLES,
    Stage,
    fused_cycles,
    fusion_plans,
    gemm_byte,
    reshape_cycles,
    roofline_cycles,
    softmax_cycles,
)

GEMM, SOFTMAX, RESHAPE = Stage("gemm", 20, 256, 24), Stage("softmax", 12, 256, 8), Stage("reshape", 6, 256, 16)


def test_which_bound_binds_depends_on_the_shape():
    wide, thin = (gemm_byte(n, 512, 128, 4, 16) for n in (128, 1))
    assert roofline_cycles(wide, 128 * 512 * 128, 64, 4096) == 128 * 512 * 128 / 4096
    assert roofline_cycles(thin, 1 * 512 * 128, 64, 4096) == thin / 64


def test_arrays_equal_scalars():
    n = np.array([1.0, 16.0, 128.0])
    np.testing.assert_array_equal(gemm_byte(n, 512, 128, 4, 16), [gemm_byte(x, 512, 128, 4, 16) for x in n])
    np.testing.assert_array_equal(softmax_cycles(n, 64, 128), [softmax_cycles(x, 64, 128) for x in n])
    assert reshape_cycles(1000, 64, is_view=True) == 0
    assert reshape_cycles(1000, 64, is_view=False) == 62.5


def test_fusing_saves_traffic_and_conversion_until_registers_spill():
    alone = fused_cycles([GEMM], 64, 32, 32)
    assert alone == GEMM.cycles
    pair = fused_cycles([GEMM, SOFTMAX], 64, 32, 32)
    assert pair == pytest.approx(32 - 2 * 256 / 64 - CONVERT_CYCLES)
    assert fused_cycles([GEMM, SOFTMAX, RESHAPE], 64, 32, 32) == pytest.approx(
        38 - 4 * 256 / 64 - 2 * CONVERT_CYCLES + 2 * 16 * 32 / 64
    )


def test_the_best_plan_fuses_in_part():
    plans = fusion_plans([GEMM, SOFTMAX, RESHAPE], 64, 32, 64)
    assert len(plans) == 4
    assert plans[0].groups == (("gemm",), ("softmax", "reshape")) or plans[0].groups == (
        ("gemm", "softmax"),
        ("reshape",),
    )
    assert [plan.cycles for plan in plans] == sorted(plan.cycles for plan in plans)
    plenty = fusion_plans([GEMM, SOFTMAX, RESHAPE], 64, 64, 64)
    assert plenty[0].groups == (("gemm", "softmax", "reshape"),)


def test_plans_match_exhaustive_enumeration_of_cuts():
    stages = [Stage(f"s{i}", 10 + i, 64 * i, 6) for i in range(6)]
    plans = fusion_plans(stages, 32, 16, 64)
    assert len({plan.groups for plan in plans}) == 32
    assert all(sum(len(group) for group in plan.groups) == 6 for plan in plans)


def test_refusals():
    with pytest.raises(ValueError, match="byte_cycle = 0"):
        softmax_cycles(10, 0, 128)
    with pytest.raises(ValueError, match="k = -1"):
        gemm_byte(1, -1, 1, 4, 16)
    with pytest.raises(ValueError, match="less what fusing them saves = -294"):
        fused_cycles([Stage("a", 10, 10_000, 1), Stage("b", 10, 0, 1)], 64, 32, 32)
    with pytest.raises(ValueError, match="number of stages = 0"):
        fusion_plans([], 64, 32, 64)
