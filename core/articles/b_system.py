"""Article B: heat, clocks, energy, real-time scheduling and calibration (B03, B04, B06, B09, B11)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.articles.as_printed import article_b as printed
from core.articles.item import Item, Value
from core.physics import battery, dvfs, heatfield, power, realtime, thermal
from core.physics.sampling import seen_period_s

Vector = NDArray[np.float64]


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
    return float(seen_period_s(period_s, 1e-3 * printed.THERMAL_SAMPLE_MS))


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
        physical=_dvfs_physics(np.array(clocks), np.array(powers), np.array(rates)),
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


def _dvfs_physics(clock: Vector, watt: Vector, rate: Vector) -> dict[str, Value]:
    at = {
        "kneedle_argmax_vs_f": dvfs.kneedle(clock, rate),
        "kneedle_argmax_vs_P": dvfs.kneedle(watt, rate),
    }
    best = float(dvfs.optimal_clock_hz(20.0, 1e-8, 3.0))
    grid = np.linspace(0.9 * best, 1.1 * best, 2_000_001)
    return {
        "argmax_perf_per_watt": float(clock[np.argmax(rate / watt)]),
        "EDP(P/X^2)": (watt / rate**2).tolist(),
        "argmin_EDP": float(clock[np.argmin(watt / rate**2)]),
        "argmin_ED2P": float(clock[np.argmin(watt / rate**3)]),
        "kneedle_diff_vs_f": dvfs.kneedle_difference(clock, rate).tolist(),
        "kneedle_diff_vs_P": dvfs.kneedle_difference(watt, rate).tolist(),
        **{name: "no knee" if index is None else float(clock[index]) for name, index in at.items()},
        "f_opt_closed(P0=20,k=1e-8,n=3)": best,
        "f_opt_numeric": float(grid[np.argmin(np.asarray(dvfs.power_w(grid, 20.0, 1e-8, 3.0)) / grid)]),
        "Pdyn/P0_at_opt": float(dvfs.power_w(best, 0.0, 1e-8, 3.0)) / 20.0,
        "f_opt_EDP_closed": float(dvfs.optimal_clock_hz(20.0, 1e-8, 3.0, delay_exponent=2.0)),
        "time(f)=Cyc/f+Tmem example f=1GHz,Cyc=1e6,Tmem=5ms": float(dvfs.time_s(1e9, 1e6, 5e-3)) * 1e3,
    }


def b06() -> Item:
    """SITSEnergy."""
    silicon = heatfield.diffusivity_m2_s(148.0, 2330.0, 712.0)
    wave = np.sin(np.pi * np.arange(33) / 32)
    field = np.outer(wave, wave)
    for _ in range(100):
        field = heatfield.explicit_step(field, 0.2)
    factor = heatfield.explicit_mode_factor(32, 0.2)
    current = float(battery.constant_power_current_a(10.0, 3.7, 0.05))
    volt = 3.7 - 0.05 * current
    hot = float(power.steady_temp_c(25.0, 2.0, 10.0, 1.0, 0.02, 25.0))
    leakage = power.leakage_power_w(hot, 1.0, 0.02, 25.0)
    charge, rated = 10 * 3600.0, 20 * 3600.0
    return Item(
        "B06",
        "Energy, heat and battery of a board",
        "56 Wh at 15 W is 3.73 h, and 15 W is the power that 4 K/W allow between 25 and 85 C: the article's pair is "
        "consistent. An explicit heat solver needs r <= 1/4 in two dimensions.",
        physical={
            "hours_constant(56Wh,15W)": 56 / 15,
            "alpha_si_m2s": float(silicon),
            "dt_max_2D(dx=1mm)": float(heatfield.largest_explicit_step_s(1e-3, silicon)),
            "dt_max_2D(dx=0.1mm)": float(heatfield.largest_explicit_step_s(1e-4, silicon)),
            "dt_max_1D(dx=1mm)": float(heatfield.largest_explicit_step_s(1e-3, silicon, 1)),
            "ftcs_G(N=32,r=.2)": factor,
            "ftcs_G^100": factor**100,
            "ftcs_simulated": float(field[16, 16]),
            "continuous_decay": math.exp(-2 * math.pi**2 * 0.2 * 100 / 32**2),
            "I(OCV=3.7,R0=.05,P=10)": current,
            "V": volt,
            "VI": volt * current,
            "Pmax": float(battery.deliverable_power_w(3.7, 0.05)),
            "efficiency": volt / 3.7,
            "peukert_h(C=10Ah,H=20h,k=1.2,I=5A)": float(battery.peukert_s(charge, rated, 1.2, 5.0)) / 3600,
            "peukert_k1": float(battery.peukert_s(charge, rated, 1.0, 5.0)) / 3600,
            "T_leak_fixed_point(R=2,P0=10,Pl=1,b=.02)": hot,
            "loop_gain": float(power.leakage_loop_gain(2.0, leakage, 0.02)),
            "T_runaway_tangent": float(thermal.runaway_temp_c(2.0, 1.0, 0.02, 25.0)),
            "P0_runaway": float(thermal.runaway_power_w(25.0, 2.0, 1.0, 0.02, 25.0)),
            "P_budget_for_85C(Ta=25,R=4)": float(thermal.sustained_power_w(85.0, 25.0, 4.0)),
        },
    )


def b09() -> Item:
    """RT-LLM scheduler."""
    before, after = printed.PREEMPT_MEAN_US
    tasks = [realtime.Task("a", 1000, 4000), realtime.Task("b", 2000, 6000), realtime.Task("c", 3000, 13000)]
    irq_s, switch_s, kernel_s = printed.IRQ_US * 1e-6, printed.SWITCH_US * 1e-6, printed.JITTER_P99_MS[0] * 1e-3
    return Item(
        "B09",
        "Real-time scheduler",
        "Jitter cannot fall 50 times through preemption latency alone: the longest kernel that is not preempted sets "
        "it. Use response-time analysis with blocking.",
        physical={
            "RTA(C=1,2,3;T=4,6,13)": _worst(realtime.responses(tasks)),
            "RTA_with_B=0.5": _worst(realtime.responses(tasks, blocking=[500, 500, 500])),
            "utilisation": realtime.utilisation(tasks),
            "LiuLayland(3)": realtime.liu_layland_bound(3),
            "hyperbolic_product": realtime.hyperbolic_product(tasks),
            "R_hi(irq=8.3,cs=2.1,block=0,C=100us)": realtime.preemption_response_s(100e-6, irq_s, switch_s) * 1e6,
            "R_hi(kernel not preemptible, 41.6ms)": realtime.preemption_response_s(100e-6, irq_s, switch_s, kernel_s)
            * 1e6,
        },
        checks={
            "preempt_ratio": before / after,
            "jitter_ratio": printed.JITTER_P99_MS[0] / printed.JITTER_P99_MS[1],
            "irq_plus_switch_us": printed.IRQ_US + printed.SWITCH_US,
        },
    )


def _worst(responses: list[realtime.Response]) -> list[Value]:
    """Worst response in units of 1000 ns; a task that never finishes says so."""
    return ["never" if found.worst_ns is None else found.worst_ns / 1000 for found in responses]


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


ITEMS = {"B03": b03, "B04": b04, "B06": b06, "B09": b09, "B11": b11}
