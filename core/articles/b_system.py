"""Article B: heat, clocks, energy, scheduling, calibration and networks (B03, B04, B06, B09, B11, B13 to B16)."""

from __future__ import annotations

import math

from core.articles.item import Item, Value
from core.published import article_b as printed

LIGHT_M_S = 299_792_458.0


def b03() -> Item:
    """Jetson thermal."""
    (hot, hot_slope, hot_ms), (cool, cool_slope, cool_ms) = printed.THERMAL["fp16"], printed.THERMAL["int4"]
    slope_ratio = cool_slope / hot_slope
    common = (cool - slope_ratio * hot) / (1 - slope_ratio)
    checks: dict[str, Value] = {
        "alias_period_s(fp16)": _alias_s(hot_ms * 1e-3),
        "alias_period_s(int4)": _alias_s(cool_ms * 1e-3),
        "nyquist_period_ms": 2 * printed.THERMAL_SAMPLE_MS,
        "power_ratio_from_slope": slope_ratio,
        "T0_that_reconciles": common,
        "tau_at_T0": (hot - common) / hot_slope,
        "weight_bits_ratio": 4 / 16,
    }
    for ambient in (25.0, 40.0):
        checks[f"power_ratio_from_steady(Ta={ambient})"] = (cool - ambient) / (hot - ambient)
        checks[f"tau_fp16(Ta={ambient})"] = (hot - ambient) / hot_slope
        checks[f"tau_int4(Ta={ambient})"] = (cool - ambient) / cool_slope
    return Item(
        "B03",
        "Heating of a Jetson in FP16 and INT4",
        "Periods of 128 and 217 ms cannot be seen when sampling every 200 ms; steady temperatures and slopes disagree "
        "about the power ratio unless both runs started at 58.7 C.",
        printed=printed.TRAFFIC_DROP,
        physical={"step_response(T0,tau,t=tau)": common + (hot - common) * (1 - math.exp(-1.0))},
        checks=checks,
    )


def _alias_s(period_s: float) -> float:
    rate = 1e3 / printed.THERMAL_SAMPLE_MS
    folded = abs(1 / period_s - rate * round(1 / period_s / rate))
    return 1 / folded


def b04() -> Item:
    """MLU370 DVFS."""
    clocks, powers, rates = zip(*printed.DVFS, strict=True)
    per_clock = [x / f for f, x in zip(clocks, rates, strict=True)]
    exponents = [
        math.log(powers[i] / powers[i - 1]) / math.log(clocks[i] / clocks[i - 1]) for i in range(1, len(clocks))
    ]
    return Item(
        "B04",
        "Clock and voltage of the MLU370",
        "The best performance per watt is at the edge of a three-row table, and throughput grows 1.118 times faster "
        "than the clock from 800 to 1200 MHz: the memory clock must have moved too.",
        as_written={"eff": [x / p for p, x in zip(powers, rates, strict=True)]},
        checks={
            "marginal_img_per_J": [
                (rates[i] - rates[i - 1]) / (powers[i] - powers[i - 1]) for i in range(1, len(rates))
            ],
            "X_per_MHz": per_clock,
            "superlinear_800_1200": per_clock[1] / per_clock[0],
            "exponent_P_vs_f": exponents,
            "V_at_800_if_.85_at_1200_noleak": 0.85 * math.sqrt(powers[0] / powers[1] * clocks[1] / clocks[0]),
            "V_at_1400_if_.85_at_1200_noleak": 0.85 * math.sqrt(powers[2] / powers[1] * clocks[1] / clocks[2]),
        },
    )


def b06() -> Item:
    """SITSEnergy."""
    return Item(
        "B06",
        "Energy, heat and battery of a board",
        "56 Wh at 15 W is 3.73 h, and 15 W is the power that 4 K/W allow between 25 and 85 C: the article's pair is "
        "consistent. An explicit heat solver needs r <= 1/4 in two dimensions.",
        physical={
            "hours_constant(56Wh,15W)": 56 / 15,
            "P_budget_for_85C(Ta=25,R=4)": (85 - 25) / 4,
        },
    )


def b09() -> Item:
    """RT-LLM scheduler."""
    before, after = printed.PREEMPT_MEAN_US
    return Item(
        "B09",
        "Real-time scheduler",
        "Jitter cannot fall 50 times through preemption latency alone: the longest kernel that is not preempted sets "
        "it. Use response-time analysis with blocking.",
        checks={
            "preempt_ratio": before / after,
            "jitter_ratio": printed.JITTER_P99_MS[0] / printed.JITTER_P99_MS[1],
            "irq_plus_switch_us": printed.IRQ_US + printed.SWITCH_US,
        },
    )


def b11() -> Item:
    """SITS-Calib."""
    written: dict[str, Value] = {
        f"{device}: messages of 2048B, MB/s, timeout/period": printed.calibration_figures(device)
        for device in printed.CALIBRATION
    }
    return Item(
        "B11",
        "Calibration protocol",
        "Verifying after the commit cannot protect the running set; 3072 channels do not fit in one message. Verify "
        "first, commit to the second buffer, verify live, else roll back.",
        as_written=written,
        physical={"sum_sequential_ms": sum(time_ms for time_ms, _ in printed.CALIBRATION.values())},
        checks={
            "channels_in_2048B_at_8B": printed.CALIBRATION_MESSAGE_BYTE / 8,
            "bytes_for_3072_channels": 3072 * 8,
        },
    )


def b13() -> Item:
    """SITS2026 benchmark."""
    watts: dict[str, Value] = {
        f"implied_avg_W_at_limit.{name}": s.energy_mj / s.time_ms for name, s in printed.SCENARIOS.items()
    }
    v2x = printed.SCENARIOS["v2x"]
    return Item(
        "B13",
        "Benchmark scenarios",
        "A factor common to all candidates of a scenario cannot change their ranking, and no scoring formula is given. "
        "Score the margins to the three limits.",
        printed={"alpha_s": {name: s.alpha_s for name, s in printed.SCENARIOS.items()}},
        checks={
            **watts,
            "scalar_weight_does_not_reorder": "a factor common to all candidates of one scenario leaves the ranking "
            "unchanged",
            "bft_83ms_and_142ms_vs_v2x_35ms": [
                printed.CONSENSUS_MS["mean"] > v2x.time_ms,
                printed.END_TO_END_MS["after"][0] > v2x.time_ms,
            ],
        },
    )


def b14() -> Item:
    """Clock sync."""
    seconds, speed = printed.SYNC_NS * 1e-9, 33.3
    return Item(
        "B14",
        "Synchronising clocks",
        "One reading of each device leaves the offsets known up to a constant. 83 ns is 25 m of light and 2.8 um "
        "of motion: neither is the claimed 10 cm.",
        physical={"offset": ((160 - 100) + (165 - 125)) / 2, "delay": ((125 - 100) - (165 - 160)) / 2},
        checks={
            "underdetermined": "one reading per device and no reference row: "
            "offsets only known up to a common constant",
            "light_in_83ns_m": LIGHT_M_S * seconds,
            "ns_for_10cm_tof": 0.1 / LIGHT_M_S * 1e9,
            "motion_at_33.3mps_in_83ns_um": speed * seconds * 1e6,
            "ms_for_10cm_at_33.3mps": 0.1 / speed * 1e3,
        },
    )


def b15() -> Item:
    """DSCP stamp."""
    stamps = (0, 2**40, 63 * 2**40, 64 * 2**40, 1767225600 * 10**9)
    written: dict[str, Value] = {f"dscp({stamp})": printed.dscp(stamp) for stamp in stamps}
    return Item(
        "B15",
        "Time stamp in the DSCP field",
        "Six bits of a stamp shifted by 40 tick every 1099.5 s and wrap after 19.5 h, and they overwrite the class of "
        "service. Decode only; stamp the record instead.",
        as_written={
            **written,
            "tick_s": printed.DSCP_TICK_S,
            "wrap_h": 64 * printed.DSCP_TICK_S / 3600,
            "if_no_shift_precedence": "Go: >> and & share precedence, left to right: (ts>>40)&0x3F",
        },
        checks={"tos_byte_of_dscp46": 46 << 2},
    )


def b16() -> Item:
    """BFT consensus."""
    (before, before_sd), (after, after_sd) = printed.END_TO_END_MS["before"], printed.END_TO_END_MS["after"]
    mean, p95 = printed.CONSENSUS_MS["mean"], printed.CONSENSUS_MS["p95"]
    checks: dict[str, Value] = {f"n={n}: f, quorum": printed.quorum(n) for n in (4, 7, 10, 13)}
    return Item(
        "B16",
        "Consensus and roll-out",
        "The consensus alone takes 83 ms and the whole 142 ms, in a scenario whose limit is 35 ms.",
        physical={
            "one_way_ms_if_5_hops": mean / 5,
            "kth_of_n_exp_mean(2 of 3,mean=1)": sum(1 / (3 - i) for i in range(2)),
        },
        checks={
            **checks,
            "lognormal_sigma": printed.lognormal_sigma(mean, p95),
            "rest_of_142": after - mean,
            "e2e_drop": 1 - after / before,
            "cv": [before_sd / before, after_sd / after],
        },
    )


ITEMS = {
    "B03": b03,
    "B04": b04,
    "B06": b06,
    "B09": b09,
    "B11": b11,
    "B13": b13,
    "B14": b14,
    "B15": b15,
    "B16": b16,
}
