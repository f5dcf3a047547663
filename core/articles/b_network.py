"""Article B: scoring, clocks, time stamps and consensus (B13 to B16)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.articles.as_printed import article_b as printed
from core.articles.item import Item, Value
from core.physics import clock, consensus, objectives


def b13() -> Item:
    """SITS2026 benchmark."""
    watts: dict[str, Value] = {
        f"implied_avg_W_at_limit.{name}": s.energy_mj / s.time_ms for name, s in printed.SCENARIOS.items()
    }
    v2x = printed.SCENARIOS["v2x"]
    industrial = _limits("industrial")
    good = objectives.judge(industrial, 0.95, 0.100, 60e-3)
    stricter = objectives.judge(replace(industrial, energy_weight=1.2), 0.95, 0.100, 60e-3)
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
        physical={
            "hv2d([(1,3),(2,2),(3,1)],ref=(4,4))": objectives.hypervolume([(1, 3), (2, 2), (3, 1)], (4, 4)),
            "nondominated": objectives.nondominated([(1, 3), (2, 2), (3, 1), (3, 3)]).tolist(),
            "margins(industrial,acc=.95,t=100,e=60)": [
                float(good.accuracy_margin),
                float(good.latency_margin),
                float(good.energy_margin),
            ],
            "score(industrial,alpha_s=.8 on energy)": float(good.score),
            "score(alpha_s=1.2 on energy)": float(stricter.score),
            "feasible(acc=.93,t=110,e=80,industrial)": bool(objectives.judge(industrial, 0.93, 0.110, 80e-3).feasible),
        },
    )


def _limits(name: str) -> objectives.Scenario:
    limits = printed.SCENARIOS[name]
    return objectives.Scenario(
        name, name, limits.accuracy, limits.time_ms * 1e-3, limits.energy_mj * 1e-3, limits.alpha_s
    )


def b14() -> Item:
    """Clock sync."""
    seconds, speed = printed.SYNC_NS * 1e-9, 33.3
    stamps = (100.0, 160.0, 165.0, 125.0)
    t = np.arange(10.0)
    line = clock.fit_line(t, 5e-3 + 20e-6 * t)
    pairs, readings = [(0, 1), (1, 2), (0, 2)], [3.0, -5.0, -2.0]
    rows = np.array([[float(j == b) - float(j == a) for j in range(3)] for a, b in pairs])
    return Item(
        "B14",
        "Synchronising clocks",
        "One reading of each device leaves the offsets known up to a constant. 83 ns is 25 m of light and 2.8 um "
        "of motion: neither is the claimed 10 cm.",
        physical={
            "offset": float(clock.offset_s(*stamps)),
            "delay": float(clock.delay_s(*stamps)),
            "offset_error_from_asymmetry(df=12,dr=8)": float(clock.asymmetry_error_s(12.0, 8.0)),
            "skew_ppm": line.drift * 1e6,
            "offset_s": line.offset_s,
            "network_offsets": clock.network_offsets_s(3, pairs, readings).tolist(),
        },
        checks={
            "underdetermined": "one reading per device and no reference row: "
            "offsets only known up to a common constant",
            "rank_without_gauge": int(np.linalg.matrix_rank(rows)),
            "light_in_83ns_m": clock.LIGHT_M_S * seconds,
            "ns_for_10cm_tof": float(clock.time_for_distance_s(0.1)) * 1e9,
            "motion_at_33.3mps_in_83ns_um": speed * seconds * 1e6,
            "ms_for_10cm_at_33.3mps": float(clock.time_for_distance_s(0.1, speed)) * 1e3,
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
    delays = np.random.default_rng(0).exponential(1.0, (200_000, 3))
    checks: dict[str, Value] = {f"n={n}: f, quorum": printed.quorum(n) for n in (4, 7, 10, 13)}
    return Item(
        "B16",
        "Consensus and roll-out",
        "The consensus alone takes 83 ms and the whole 142 ms, in a scenario whose limit is 35 ms.",
        physical={
            "one_way_ms_if_5_hops": float(consensus.one_way_s(mean, 5)),
            "kth_of_n_exp_mean(2 of 3,mean=1)": float(consensus.kth_exponential_s(2, 3)),
            "kth_simulated": float(consensus.kth_delay_s(delays, 2).mean()),
        },
        checks={
            **checks,
            "lognormal_sigma": printed.lognormal_sigma(mean, p95),
            "rest_of_142": after - mean,
            "e2e_drop": 1 - after / before,
            "cv": [before_sd / before, after_sd / after],
        },
    )


ITEMS = {"B13": b13, "B14": b14, "B15": b15, "B16": b16}
