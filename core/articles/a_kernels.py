"""Article A: kernels, fits and schedules (A06 to A09, A13, A15 to A17)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from core.articles import banks, curve_fit, fusion, relax
from core.articles.as_printed import article_a as printed
from core.articles.item import Item, Value
from core.physics import pipeline, schedule

Vector = NDArray[np.float64]


def a06() -> Item:
    """T_total."""
    n, k, m, byte_cycle, mac_cycle, lanes = 128, 512, 128, 64.0, 4096.0, 128.0
    macs, out = n * k * m, n * m
    fp16, int32 = (float(fusion.gemm_byte(n, k, m, 4, bit)) for bit in (16, 32))
    gemm = float(fusion.roofline_cycles(fp16, macs, byte_cycle, mac_cycle))
    soft = float(fusion.softmax_cycles(out, byte_cycle, lanes))
    copy = float(fusion.reshape_cycles(out, byte_cycle, is_view=False))
    convert = printed.CONVERT_CYCLES
    view_total = gemm + convert + soft + float(fusion.reshape_cycles(out, byte_cycle, is_view=True))
    fused = printed.FUSION["separate"][1]
    switches = {alu < 2 * bw for alu, bw in ((64, 64), (4096, 64), (127, 64), (128, 64))}
    return Item(
        "A06",
        "Total cycles of GEMM, softmax and reshape",
        "Both bounds scale with N K M, so no shape can change which of them binds; 42.6 cycles would need 197 000 "
        "multiply-adds a cycle. Count what a tile must move once.",
        as_written={
            "Tgemm(BW=64,ALU=4096)": printed.gemm_cycles(n, k, m, 64, 4096),
            "Tgemm(BW=4096,ALU=4096)": printed.gemm_cycles(n, k, m, 4096, 4096),
        },
        physical={
            "bytes_fp16_out": fp16,
            "intensity_MAC_per_B_fp16": macs / fp16,
            "bytes_int32_out": int32,
            "intensity_MAC_per_B_int32": macs / int32,
            "Tgemm(BW=64B/c,4096MAC/c)": gemm,
            "Tsoftmax(5op,128lane,r+w fp16)": soft,
            "Treshape_copy": copy,
            "Ttotal_copy": gemm + convert + soft + copy,
            "Ttotal_view": view_total,
            "ridge_MAC_per_B": mac_cycle / byte_cycle,
            "util_alu_gemm_only": macs / mac_cycle / gemm,
            "util_alu_total_view": macs / mac_cycle / view_total,
        },
        checks={
            "macs": macs,
            "bound_switch": "ALU-bound iff ALU < 2*BW for every N,K,M" if len(switches) == 2 else "",
            "MAC_per_cycle_to_fit_42.6_cycles": macs / fused,
            "INT4_TOPS_at_1GHz_to_fit_42.6": 2 * macs / fused * 1e9 / 1e12,
            "Tgemm_if_92pct_of_42.6": 0.92 * fused,
            "left_for_softmax_reshape": fused - 0.92 * fused - convert,
        },
    )


def a07() -> Item:
    """Fusion table."""
    rows = printed.FUSION
    apart, pair, everything = (rows[name] for name in ("separate", "gemm_softmax", "all"))
    checks: dict[str, Value] = {}
    for name, (instructions, cycles) in rows.items():
        checks[f"ipc.{name}"] = instructions / cycles
        checks[f"speedup.{name}"] = apart[1] / cycles
    checks |= {
        "saving_pair": apart[1] - pair[1],
        "saving_minus_cvt": apart[1] - pair[1] - printed.CONVERT_CYCLES,
        "spill_cost_lower_bound": everything[1] - pair[1],
        "argmin": min(rows, key=lambda name: rows[name][1]),
        "instr_saved_pair": apart[0] - pair[0],
        "instr_saved_all": apart[0] - everything[0],
    }
    return Item(
        "A07",
        "Fusing two or three kernels",
        "Fusing two saves 9.6 cycles more than the conversion it removes, so it must save traffic as well; fusing all "
        "three spills registers and is slower. The best plan is a partial fusion: search the plans.",
        printed={name: list(row) for name, row in rows.items()},
        physical=_fused(),
        checks=checks,
    )


def _fused() -> dict[str, Value]:
    """The stages of A06, 128 x 512 x 128 at 64 byte and 4096 products a cycle, in every way to fuse them."""
    out, byte_cycle, register_byte = 128 * 128, 64.0, 64.0
    handed = float(fusion.SOFTMAX_BYTE * out)
    gemm = float(fusion.roofline_cycles(fusion.gemm_byte(128, 512, 128, 4, 16), out * 512, byte_cycle, 4096.0))
    cycles = {
        "gemm": gemm + printed.CONVERT_CYCLES,
        "softmax": float(fusion.softmax_cycles(out, byte_cycle, 128.0)) + printed.CONVERT_CYCLES,
        "reshape": float(fusion.reshape_cycles(out, byte_cycle, is_view=False)),
    }
    stages = [fusion.Stage(name, time, handed, 0) for name, time in cycles.items()]
    plans = {plan.groups: plan.cycles for plan in fusion.fusion_plans(stages, byte_cycle, 0, register_byte)}
    pair = plans[("gemm", "softmax"), ("reshape",)]
    every = plans[("gemm", "softmax", "reshape"),]
    return {
        "cycles.separate(64B/c)": plans[("gemm",), ("softmax",), ("reshape",)],
        "cycles.gemm_softmax(64B/c)": pair,
        "cycles.all_without_spill(64B/c)": every,
        "registers_of_64B_missing_at_which_all_is_no_faster": (pair - every) * byte_cycle / (2.0 * register_byte),
    }


def a08() -> Item:
    """Gumbel-softmax AXI width."""
    widths, tau = printed.AXI_WIDTHS, printed.GUMBEL_TEMPERATURE
    even, gap = (0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
    mean = relax.relaxed_mean(widths, even, tau)
    gradient = relax.relaxed_mean_gradient(widths, even, tau)
    mean_time = relax.relaxed_access_time(widths, even, tau, 64, 0, 1, 0)
    slope = relax.access_time_gradient(64, 128, 10, 1)
    best, times = relax.best_width(widths, 64, 8, 10, 1)
    numeric = [_slope(lambda z: relax.relaxed_mean(widths, z, tau), even, i) for i in range(4)]
    return Item(
        "A08",
        "Relaxed choice of a bus width",
        "The sum over the product is missing; the relaxed width under-estimates the time by 43 % at even weights, so "
        "relax the latencies; the signs in the table contradict the formula. Four widths are enumerated exactly.",
        as_written={
            "returns_shape": list(printed.relaxed_width(even).shape),
            "T(a=10,b=1,line=64,W=128,burst=8)": printed.access_ns(10, 1, 64, 128, 8),
            "dT/dline": slope["line"],
            "dT/dW": slope["width"],
            "dT/dburst": slope["burst"],
        },
        physical={
            "W(logits=0,no noise)": mean,
            "dW/dlogits(tau=.1)": numeric,
            "closed_form": gradient.tolist(),
            "sum_of_grad": float(gradient.sum()),
            "mean_of_T(line=64)": mean_time,
            "gumbel_mean": relax.GUMBEL_MEAN,
            "gumbel_var": relax.GUMBEL_VARIANCE,
            "gradcheck_float64": bool(np.allclose(numeric, gradient, rtol=1e-7)),
            "T_by_width": times.tolist(),
            "argmin_width": best,
        },
        checks={
            "T_of_mean_W(line=64)": 64 / mean,
            "underestimate": 1 - 64 / mean / mean_time,
            "W(gap=1)": relax.relaxed_mean(widths, gap, tau),
            "grad(gap=1)": relax.relaxed_mean_gradient(widths, gap, tau).tolist(),
            "sign_line_table_vs_formula": "table -0.21 ns/B, formula > 0",
            "sign_channels_table_vs_formula": "table +1.34 ns/ch, formula < 0 (more channels = wider)",
        },
    )


def _slope(function: Callable[[list[float]], float], at: tuple[float, ...], i: int, step: float = 1e-4) -> float:
    """Five-point central difference, exact to the fourth order of the step."""

    def moved(by: float) -> float:
        return function([value + (by if j == i else 0.0) for j, value in enumerate(at)])

    return (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step)


def a09() -> Item:
    """Fit engine."""
    x = np.linspace(0.0, 1.0, 9)
    y = 1 + 2 * x - x**2 + 0.5 * np.exp(-3 * x)
    fitted, free = curve_fit.fit_polynomial(x, y), curve_fit.fit_polynomial(x, y, ridge=0.0)
    design, scaled = (np.vander(x * unit, 5, increasing=True) for unit in (1.0, 1000.0))
    powers = np.array([0.5**i for i in range(5)])
    return Item(
        "A09",
        "Fit engine: quartic and exponential",
        "The ridge depends on the unit of x, and five points give R2 = 1 with a quartic whatever the data. Map x to "
        "0..1, leave the constant free, and judge by the error of leaving points out.",
        printed={"R2": list(printed.FIT_R2)},
        physical={
            "loo_rmse": fitted.leave_one_out_rmse,
            "loo_rmse_brute": _leave_one_out(design, y),
            "coef(lambda=1.2e-4)": fitted.coefficients.tolist(),
            "coef_lambda0": free.coefficients.tolist(),
            "coef_lambda1e9[0]=mean(y)": float(curve_fit.fit_polynomial(x, y, ridge=1e9).coefficients[0]),
            "mean_y": float(y.mean()),
            "varpro_decay_rate": curve_fit.fit_decay(x, y).rate,
            "dof_trace_hat": fitted.n_effective,
            "R2": fitted.r_squared,
        },
        checks={
            "min_R2": min(printed.FIT_R2),
            "pred_at_0.5_units_1": float(printed.ridge_quartic(x, y) @ powers),
            "pred_at_0.5_units_1000": float(printed.ridge_quartic(x * 1000, y) @ (500.0 ** np.arange(5))),
            "cond_XtX_unit1": float(np.linalg.cond(design.T @ design)),
            "cond_XtX_unit1000": float(np.linalg.cond(scaled.T @ scaled)),
            "best_achievable_R2_note": "quartic has 5 coefficients; with <=5 operating points R2=1 always",
        },
    )


def _leave_one_out(design: Vector, y: Vector) -> float:
    penalty = np.diag([0.0] + [printed.FIT_RIDGE] * 4)
    errors = []
    for i in range(y.size):
        a, b = np.delete(design, i, axis=0), np.delete(y, i)
        errors.append(y[i] - design[i] @ np.linalg.solve(a.T @ a + penalty, a.T @ b))
    return float(np.sqrt(np.mean(np.square(errors))))


def a13() -> Item:
    """QK-Dispatch."""
    n_heads, n, d, peak = 16, 2048, 64, 312e12
    full = 2 * n_heads * n * n * d
    n_read = 2 * n_heads * n * d * 2
    (slow_us, slow_share), (fast_us, fast_share) = printed.QK_DISPATCH["baseline"], printed.QK_DISPATCH["dispatch"]
    checks: dict[str, Value] = {
        "flops_full": full,
        "flops_causal": full // 2,
        "bytes_read_QK_fp16": n_read,
        "TFLOPs_needed_7.2us_full": full / (fast_us * 1e-6) / 1e12,
        "TFLOPs_needed_7.2us_causal": full / 2 / (fast_us * 1e-6) / 1e12,
        "time_ratio": slow_us / fast_us,
        "bw_ratio": fast_share / slow_share,
        "traffic_ratio": slow_us * slow_share / (fast_us * fast_share),
    }
    physical: dict[str, Value] = {
        "compute_floor_us_full(312TF)": full / peak * 1e6,
        "compute_floor_us_causal(312TF)": full / 2 / peak * 1e6,
        "write_scores_fp32_MB": n_heads * n * n * 4 / 1e6,
        "tile_flops(16x16x64)": 2 * 16 * 16 * 64,
        "tile_bytes_fp16_in": 2 * 16 * 64 * 2,
        "smem_conflict_ways(row=128B,col read)": banks.column_conflict_ways(128),
        "smem_conflict_ways(row=132B)": banks.column_conflict_ways(132),
    }
    for part, bandwidth in (("A100-40", 1555e9), ("A100-80", 2039e9)):
        checks[f"bytes_moved_{fast_us}us_93pct_{part}"] = fast_us * 1e-6 * fast_share * bandwidth
        checks[f"bytes_moved_{slow_us}us_68pct_{part}"] = slow_us * 1e-6 * slow_share * bandwidth
        physical[f"read_floor_us_{part}"] = n_read / bandwidth * 1e6
    return Item(
        "A13",
        "QK products dispatched in tiles",
        "7.2 us needs 1193 TFLOP/s, or 597 with a causal mask, of a part that has 312. The time falls more than the "
        "share of bandwidth rises, so traffic must also drop 1.29 times.",
        printed={name: list(row) for name, row in printed.QK_DISPATCH.items()},
        physical=physical,
        checks=checks,
    )


def a15() -> Item:
    """Mixed-precision pipeline."""
    starts, lengths = zip(*printed.PIPELINE.values(), strict=True)
    overlap = starts[0] + lengths[0] - starts[1]
    overlaps = (overlap, 0)
    written: dict[str, Value] = {
        "finish": [start + length for start, length in printed.PIPELINE.values()],
        "makespan": pipeline.chain_makespan(lengths, 1, overlaps),
    }
    physical: dict[str, Value] = {
        "dependency_true_makespan": pipeline.chain_makespan(lengths),
        "starts_strict": pipeline.chain_starts(lengths).tolist(),
        "initiation_interval": pipeline.initiation_interval(lengths),
        "utilisation": pipeline.stage_utilisation(lengths).tolist(),
    }
    for n in (1, 2, 10):
        physical[f"makespan_strict(n={n})"] = pipeline.chain_makespan(lengths, n)
        written[f"makespan_overlap(n={n})"] = pipeline.chain_makespan(lengths, n, overlaps)
    return Item(
        "A15",
        "Pipeline of mixed precision",
        "O starts two cycles before QKV ends although it waits for it: 23 cycles, not 21. No attention lies between "
        "them, and three engines write flags into one word.",
        as_written=written,
        physical=physical,
        checks={"o_start_before_qkv_finish_cycles": overlap, "missing_stage": "no QK^T/softmax/AV between QKV and O"},
    )


def a16() -> Item:
    """DAG scheduling."""
    op = schedule.Operation
    graph = [op("A", 3.0), op("B", 2.0, ("A",)), op("C", 4.0, ("A",)), op("D", 2.0, ("B", "C")), op("E", 3.0, ("C",))]
    found, work = schedule.slack(graph), sum(node.length_s for node in graph)
    (fifo, slack), (fifo_jitter, slack_jitter) = printed.SCHEDULE_NS["mean"], printed.SCHEDULE_NS["P99 jitter"]
    return Item(
        "A16",
        "Scheduling by slack",
        "The gains follow from the printed times; nothing printed lets the schedule itself be checked. A schedule must "
        "lie between max(critical path, work / m) and (2 - 1 / m) times it.",
        printed={name: list(row) for name, row in printed.SCHEDULE_NS.items()},
        physical={
            "ES": [found.earliest_s[name] for name in "ABCDE"],
            "LS": [found.latest_s[name] for name in "ABCDE"],
            "slack": [found.slack_s[name] for name in "ABCDE"],
            "critical_path": found.critical_s,
            "work": work,
            "lower_bound(m=2)": schedule.list_schedule(graph, 2).lower_s,
            "graham_factor(m=2)": 2.0 - 1.0 / 2.0,
            **{
                f"T_eff(T=100,gamma={gamma},u=0.8)": schedule.contended_length_s(100.0, gamma, 0.8)
                for gamma in (0.1, 0.5, 0.9)
            },
        },
        checks={
            "mean_gain": 1 - slack / fifo,
            "p99_jitter_gain": 1 - slack_jitter / fifo_jitter,
            "jitter_over_mean": [fifo_jitter / fifo, slack_jitter / slack],
            "err_3.2pct_of_9760_ns": printed.SCHEDULE_ERROR * slack,
        },
    )


def a17() -> Item:
    """Rest."""
    return Item(
        "A17",
        "Instruction-set factors, service mesh, STREAM",
        "A mean of 12 ms is set against a P99 of 3.2 ms, which cannot be compared. STREAM prints MB/s.",
        printed={"beta_table": printed.BETA},
        checks={
            "sidecar_mean_vs_p99": f"{printed.SIDECAR_MEAN_MS:.0f} ms is a mean, {printed.EBPF_P99_MS} ms is a P99: "
            "not comparable",
            "stream_prints": "STREAM's Copy row is MB/s (1e6): divide by 1000 for GB/s",
        },
    )


ITEMS = {"A06": a06, "A07": a07, "A08": a08, "A09": a09, "A13": a13, "A15": a15, "A16": a16, "A17": a17}
