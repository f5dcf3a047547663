"""``trilemma lab clock``: clock offset and bound, drift, timestamp range, fault tolerance and quorum size."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import parse_quantity, quantity_text
from core.catalogue.csv_rows import read_columns
from core.catalogue.inputs import read_text
from core.physics.clock import (
    DSCP_TICK_S,
    DSCP_WRAP_S,
    delay_s,
    dscp_of_time,
    fit_line,
    hull_line,
    network_offsets_s,
    offset_s,
    quickest,
    times_of_dscp,
    tos_byte,
    track,
)
from core.physics.consensus import byzantine_faults, consensus_delay_s, kth_exponential_s, quorum

FIRST_YEAR, LAST_YEAR = 1970, 2261  # of 64 bits of nanoseconds
MOST_CLOCKS = 1000
EXCHANGE_SD_S = 1e-3  # [prior] of one reading over a network, where a file gives no delay
EXAMPLES = """examples:
  trilemma lab clock offset 100ms 160ms 165ms 125ms   one exchange: sent, received, answered, returned
  trilemma lab clock drift resources/examples/clock.csv
  trilemma lab clock network resources/examples/clocks.csv
  trilemma lab clock stamp 2026-01-01T00:00:00Z       the six bits that an article writes into a packet
  trilemma lab clock consensus 4 --mean 12ms          faults and quorum of a group, and how long its k-th answer takes
  trilemma lab clock consensus 10 --mean 8ms --p95 15ms --rounds 3 --hops 2
  trilemma lab B16 --mean 83ms --p95 110ms --hops 5   the other way: the hops of a measured delay
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the calculators."""
    parser.add_argument("what", choices=tuple(_CALCULATORS), help="calculation")
    parser.add_argument("values", nargs="+", metavar="VALUE", help="times, a file, a UTC time or a number of nodes")
    parser.add_argument("--mean", default="1", metavar="TIME", help="consensus: mean delay of one hop (1 s)")
    parser.add_argument("--p95", metavar="TIME", help="consensus: its 95 %% quantile, to simulate a log-normal delay")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="consensus: rounds of the protocol (1)")
    parser.add_argument("--hops", type=int, default=1, metavar="N", help="consensus: hops of an answer (1)")


def run(args: argparse.Namespace) -> int:
    """Calculate and print."""
    try:
        document = _CALCULATORS[args.what](args)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(document)
    else:
        rows = document.items()
        print_table([(name.removesuffix("_s").replace("_", " "), _text(name, value)) for name, value in rows])
    return 0


def _offset(args: argparse.Namespace) -> dict[str, Any]:
    if len(args.values) != 4:
        raise ValueError(f"offset: got {len(args.values)} times, expected four: t1 t2 t3 t4 of one exchange")
    t = [parse_quantity(text, "s", name=f"t{i}") for i, text in enumerate(args.values, 1)]
    if t[3] < t[0] or t[2] < t[1]:
        raise ValueError("offset: an answer precedes its request, expected t1 <= t4 and t2 <= t3")
    offset, bound = _told(offset_s(*t), *t), _told(delay_s(*t), *t)
    if bound < 0:
        raise ValueError("offset: the reply was held for longer than the round trip, expected t4 - t1 >= t3 - t2")
    return {"offset_s": offset, "error_at_most_s": bound, "note": "asymmetry of the two directions cannot be observed"}


def _told(difference_s: Any, *of_s: float) -> float:
    """Return a difference of times, 0 where it is below their last digits."""
    return 0.0 if abs(difference_s) <= 2.0 * np.spacing(max(map(abs, of_s))) else float(difference_s)


def _drift(args: argparse.Namespace) -> dict[str, Any]:
    text = read_text(Path(args.values[0]))
    names = text.splitlines()[0].split(",") if text else []
    with_delay = "delay_s" in [name.strip() for name in names]
    columns = read_columns(Path(args.values[0]).name, text, ("t_s", "offset_s", *(["delay_s"] if with_delay else [])))
    t, y = columns[:2]
    sd = np.maximum(columns[2], 1e-9) if with_delay else np.full(t.size, EXCHANGE_SD_S)
    line, hull = fit_line(t, y, 1 / sd**2), hull_line(t, y)
    followed = track(t, y, sd)
    document = {
        "n_exchanges": int(t.size),
        "offset_s": line.offset_s,
        "drift_ppm": line.drift * 1e6,
        "hull_offset_s": hull.offset_s,
        "hull_drift_ppm": hull.drift * 1e6,
        "now_s": float(followed.offset_s[-1]),
        "now_sd_s": float(followed.offset_sd_s[-1]),
        "now_drift_ppm": float(followed.drift[-1] * 1e6),
    }
    if with_delay:
        quick = quickest(columns[2])
        best = int(np.argmin(columns[2]))
        document |= {"n_quickest": int(quick.sum()), "quickest_offset_s": float(y[best]),
                     "error_at_most_s": float(columns[2][best])}  # fmt: skip
    return document


def _network(args: argparse.Namespace) -> dict[str, Any]:
    path = Path(args.values[0])
    a, b, y = read_columns(path.name, read_text(path), ("clock", "other_clock", "offset_s"))
    if not a.size:
        raise ValueError(f"{path.name}: got no rows, expected at least one")
    named = np.concatenate([a, b])
    if (named != np.round(named)).any() or named.min() < 0 or named.max() > MOST_CLOCKS:
        raise ValueError(f"network: clock, other_clock: expected the numbers of clocks, from 0 to {MOST_CLOCKS}")
    n = int(named.max()) + 1
    found = network_offsets_s(n, np.stack([a, b], axis=1).astype(int), y)
    return {f"clock_{i}_s": round(float(offset), 15) for i, offset in enumerate(found)}


def _stamp(args: argparse.Namespace) -> dict[str, Any]:
    text = args.values[0]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"stamp: got {text!r}, expected a UTC time such as 2026-01-01T00:00:00Z") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    if not FIRST_YEAR <= when.year <= LAST_YEAR:
        raise ValueError(f"stamp: got the year {when.year}, expected {FIRST_YEAR} to {LAST_YEAR}")
    time_ns = round(when.timestamp() * 1e9)
    stamp = dscp_of_time(time_ns)
    first, last = times_of_dscp(stamp, time_ns)
    return {
        "time_ns": time_ns,
        "dscp": stamp,
        "tos_byte": tos_byte(stamp),
        "first_moment": datetime.fromtimestamp(first / 1e9, UTC).isoformat(),
        "last_moment": datetime.fromtimestamp(last / 1e9, UTC).isoformat(),
        "tick_s": DSCP_TICK_S,
        "wraps_after_s": DSCP_WRAP_S,
        "note": "it cannot order events within a tick, and it replaces the packet's class",
    }


def _consensus(args: argparse.Namespace) -> dict[str, Any]:
    text = args.values[0]
    if not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise ValueError(f"consensus: got {text!r}, expected a number of nodes from 1 to 100000")
    n, mean = int(text), parse_quantity(args.mean, "s", name="mean", low=0.0)
    votes = quorum(n)
    if args.p95 is not None:
        return _simulated(args, n, mean)
    if (args.rounds, args.hops) != (1, 1):
        raise ValueError("consensus: got rounds or hops without --p95, expected the 95 % quantile of a hop beside them")
    return {
        "n_nodes": n,
        "faults_tolerated": byzantine_faults(n),
        "quorum": votes,
        "mean_time_of_quorum_s": float(kth_exponential_s(votes, n, mean)),
        "mean_time_of_all_s": float(kth_exponential_s(n, n, mean)),
        "note": "answers with independent exponential delays",
    }


def _simulated(args: argparse.Namespace, n_nodes: int, mean_s: float) -> dict[str, Any]:
    q95 = parse_quantity(args.p95, "s", name="p95", low=0.0)
    if not 0.0 < mean_s <= q95:
        raise ValueError(
            f"p95: got {args.p95} beside a mean of {args.mean}, expected a mean above 0 and a P95 above it"
        )
    delays = consensus_delay_s(n_nodes, args.rounds, args.hops, mean_s, q95)
    return {
        "n_nodes": n_nodes,
        "faults_tolerated": byzantine_faults(n_nodes),
        "quorum": quorum(n_nodes),
        "n_rounds": args.rounds,
        "n_hops": args.hops,
        "mean_of_decision_s": float(delays.mean()),
        "p95_of_decision_s": float(np.quantile(delays, 0.95)),
        "p99_of_decision_s": float(np.quantile(delays, 0.99)),
        "provenance": "simulated",
        "note": f"{delays.size} draws; hops with independent log-normal delays",
    }


_CALCULATORS = {
    "offset": _offset,
    "drift": _drift,
    "network": _network,
    "stamp": _stamp,
    "consensus": _consensus,
}


def _text(name: str, value: Any) -> str:
    if isinstance(value, float):
        return quantity_text(value, "s", 6) if name.endswith("_s") else f"{value:.6g}"
    return str(value)
