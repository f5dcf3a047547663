"""Rows of the lab on networks and time: kernels in front (B09), the stamp of a packet (B15), consensus (B16)."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np

from app.text.format import quantity_text
from app.text.lab.item import UTC_TIME, Found, Input, Lab, Output, Values, moment_text
from core.articles.as_printed import article_b
from core.physics import clock, consensus
from core.spec import Provenance

_MS, _HOUR_S = 1e-3, 3600.0
_YEARS = (0.0, datetime(2261, 12, 31, tzinfo=UTC).timestamp())  # of 64 bits of nanoseconds
_SHOWN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def _b15(v: Values) -> Found:
    time_ns = round((v["time_utc_s"] + v["after_s"]) * 1e9)
    stamp = clock.dscp_of_time(time_ns)
    first, last = clock.times_of_dscp(stamp, time_ns)
    return {
        "dscp": float(stamp),
        "tos": float(clock.tos_byte(stamp)),
        "first": moment_text(first / 1e9),
        "last": moment_text(last / 1e9),
        "tick_s": clock.DSCP_TICK_S,
        "wrap_s": clock.DSCP_WRAP_S,
    }


def _b15_words(_v: Values, f: Found) -> str:
    return (
        f"The packet carries DSCP {f['dscp']:.0f}, a ToS byte of {f['tos']:.0f}. The stamp cannot order events within "
        f"{quantity_text(float(f['tick_s']), 's')} and repeats after {quantity_text(float(f['wrap_s']), 'h')}."
    )


B15 = Lab(
    "B15",
    "Time stamp in the six DSCP bits",
    (
        Input("time", "UTC time", _SHOWN, UTC_TIME, *_YEARS, (_SHOWN, _SHOWN + 24 * _HOUR_S), "assumed"),
        Input("after", "Time after it", 0.0, "h", 0.0, 1e9, (0.0, 24 * _HOUR_S), "assumed"),
    ),
    (
        Output("dscp", "DSCP"),
        Output("tos", "ToS byte"),
        Output("first", "First moment of the stamp"),
        Output("last", "Last moment of the stamp"),
        Output("tick_s", "Tick", "s"),
        Output("wrap_s", "Wraps after", "h"),
    ),
    _b15,
    _b15_words,
    "after_s",
    ("dscp",),
)

_Z95 = 1.6448536269514722
_MOST_SPREAD = math.exp(_Z95**2 / 2) * (1 - 1e-9)
_MOST_DRAWN = 2_000_000


def _b16(v: Values) -> Found:
    n, rounds, hops = int(v["nodes"]), int(v["rounds"]), int(v["hops"])
    mean, p95 = v["mean_s"], v["p95_s"]
    if p95 < mean:
        raise ValueError(
            f"P95: got {quantity_text(p95, 's')} beside a mean of {quantity_text(mean, 's')}, expected a P95 above it"
        )
    if p95 > _MOST_SPREAD * mean:
        raise ValueError(
            f"P95: got {quantity_text(p95, 's')} beside a mean of {quantity_text(mean, 's')}, expected at most "
            f"{_MOST_SPREAD:.2f} times the mean of a log-normal delay"
        )
    log_sd = consensus.lognormal_sd(mean, p95)
    n_hops = rounds * hops
    hop_s = float(consensus.one_way_s(mean, n_hops))
    hop_sd = math.sqrt(math.log1p(n_hops * math.expm1(log_sd**2)))  # variances of independent hops add
    hop_p95 = hop_s * math.exp(_Z95 * hop_sd - hop_sd**2 / 2)
    if hop_sd >= _Z95:
        raise ValueError(f"P95: its scatter is too wide for {n_hops} independent hops, expected a P95 nearer the mean")
    n_draws = int(np.clip(_MOST_DRAWN // (n * n_hops), 500, 20_000))
    delays = consensus.consensus_delay_s(n, rounds, hops, hop_s, hop_p95, n_draws)
    return {
        "faults": float(consensus.byzantine_faults(n)),
        "quorum": float(consensus.quorum(n)),
        "hop_s": hop_s,
        "log_sd": log_sd,
        "hop_p95_s": hop_p95,
        "decision_s": float(delays.mean()),
        "decision_p95_s": float(np.quantile(delays, 0.95)),
        "late_frac": float(np.mean(delays > v["limit_s"])),
        "most_hops": math.floor(v["limit_s"] / hop_s),
    }


def _b16_words(v: Values, f: Found) -> str:
    mean, p95, hop, limit = (
        quantity_text(float(x), "s") for x in (f["decision_s"], f["decision_p95_s"], f["hop_s"], v["limit_s"])
    )
    return (
        f"If the measured delay is {v['rounds'] * v['hops']:.0f} equal hops, one takes {hop}. A group of "
        f"{v['nodes']:.0f} that waits for {f['quorum']:.0f} answers a round then decides in {mean}, P95 {p95}; "
        f"{quantity_text(float(f['late_frac']), 'frac', 2)} of the decisions miss {limit}."
    )


B16 = Lab(
    "B16",
    "Byzantine consensus: hops, rounds and P95",
    (
        Input("nodes", "Nodes", 4, "1", 1, 200, (1, 40), "assumed", whole=True),
        Input("rounds", "Rounds", 1, "1", 1, 20, (1, 6), "assumed", whole=True),
        Input("hops", "Hops of an answer", 5, "1", 1, 20, (1, 10), "assumed", whole=True),
        Input("mean", "Measured mean", article_b.CONSENSUS_MS["mean"] * _MS, "s", 1e-6, 1e4, (0.01, 0.2)),
        Input("p95", "Measured P95", article_b.CONSENSUS_MS["p95"] * _MS, "s", 1e-6, 1e4, (0.083, 0.25)),
        Input("limit", "Limit", 35 * _MS, "s", 1e-6, 1e4, (0.01, 0.3)),
    ),
    (
        Output("faults", "Faulty nodes tolerated"),
        Output("quorum", "Quorum"),
        Output("hop_s", "Mean of one hop", "s"),
        Output("hop_p95_s", "P95 of one hop", "s"),
        Output("log_sd", "Log-sd of the measured delay"),
        Output("decision_s", "Mean of a decision", "s", Provenance.SIMULATED),
        Output("decision_p95_s", "P95 of a decision", "s", Provenance.SIMULATED),
        Output("late_frac", "Decisions over the limit", "frac", Provenance.SIMULATED),
        Output("most_hops", "Hops that the limit holds in the mean"),
    ),
    _b16,
    _b16_words,
    "nodes",
    ("decision_s", "decision_p95_s"),
)
