"""Scheduling a graph of operations: slack, list schedules with shared bandwidth, and their bounds.

An operation has a length, predecessors, and the share w of the bandwidth of its memory that it uses while it runs
alone. Operations of one memory that run at the same time and ask for more than there is get ``w_i / sum w`` of it each,
and so take ``sum w`` times as long; those without traffic keep their length. Rates change when an
operation starts or ends (event driven).

References
----------
.. [1] docs/physics.md M12
.. [2] docs/articles.md A16
.. [3] graham1966 and topcuoglu2002 (upward rank of HEFT), docs/references.md
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.units import check_range


@dataclass(frozen=True, slots=True)
class Operation:
    """One node of the graph.

    Attributes
    ----------
    name : str
        Name of the operation.
    length_s : float
        Time that it takes alone [s], >= 0.
    after : tuple of str
        Names of its predecessors.
    memory_frac : float
        Share of the bandwidth of its memory that it uses while it runs alone [1], 0 to 1.
    memory : str
        The memory that it reads, such as HBM or DDR; operations of different memories do not slow each other down.
    """

    name: str
    length_s: float
    after: tuple[str, ...] = ()
    memory_frac: float = 0.0
    memory: str = ""

    def __post_init__(self) -> None:
        check_range(f"{self.name}: length_s", self.length_s, 0.0)
        check_range(f"{self.name}: memory_frac", self.memory_frac, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Slack:
    """Earliest and latest start of each operation by name, and the critical path.

    Attributes
    ----------
    earliest_s, latest_s : dict of str to float
        Starts [s].
    slack_s : dict of str to float
        Their difference [s]: the delay that leaves the end unchanged.
    critical_path : tuple of str
        Operations of the longest path.
    critical_s : float
        Its length [s].
    """

    earliest_s: dict[str, float]
    latest_s: dict[str, float]
    slack_s: dict[str, float]
    critical_path: tuple[str, ...]
    critical_s: float


@dataclass(frozen=True, slots=True)
class Span:
    """Worker and times of one operation of a schedule.

    Attributes
    ----------
    name : str
        Name of the operation.
    worker : int
        Number of the worker.
    start_s, end_s : float
        Start and end [s].
    """

    name: str
    worker: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """A list schedule and its bounds, ``lower_s <= makespan_s <= upper_s`` without shared bandwidth.

    Attributes
    ----------
    spans : tuple of Span
        The operations in the order of their ends.
    makespan_s : float
        End of the last operation [s].
    lower_s : float
        max(critical path, work / workers) [s].
    upper_s : float
        Graham's bound, work / workers + (1 - 1 / workers) critical path [s].
    stretch : float
        Makespan over that of unlimited bandwidth [1].
    """

    spans: tuple[Span, ...]
    makespan_s: float
    lower_s: float
    upper_s: float
    stretch: float


def _in_order(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations with every predecessor first, otherwise in the given order.

    Raises
    ------
    ValueError
        Two operations share a name, a predecessor does not exist, or the graph has a cycle.
    """
    by_name = {op.name: op for op in operations}
    if len(by_name) < len(operations):
        twice = next(op.name for i, op in enumerate(operations) if by_name[op.name] is not op)
        raise ValueError(f"operation {twice!r} is there twice, expected distinct names")
    for op in operations:
        for name in op.after:
            if name not in by_name:
                raise ValueError(f"operation {op.name!r}: after {name!r} names no operation of the graph")
    waits = {op.name: len(set(op.after)) for op in operations}
    followers = _successors(operations)
    ready, ordered = [op.name for op in operations if not op.after], list[Operation]()
    for name in ready:
        ordered.append(by_name[name])
        for follower in followers[name]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    if len(ordered) < len(operations):
        stuck = next(op.name for op in operations if waits[op.name])
        raise ValueError(f"operation {stuck!r} waits for itself through a cycle, expected a graph without one")
    return ordered


def _successors(operations: Sequence[Operation]) -> dict[str, list[str]]:
    """Return the operations that wait for each operation."""
    found: dict[str, list[str]] = {op.name: [] for op in operations}
    for op in operations:
        for name in dict.fromkeys(op.after):
            found[name].append(op.name)
    return found


def slack(operations: Sequence[Operation], deadline_s: float | None = None) -> Slack:
    """Return earliest and latest starts by forward and backward passes, and their difference.

    ``ES = max over predecessors of (ES + length)``, ``LS = min over successors of LS - length``, ``slack = LS - ES``

    Parameters
    ----------
    operations : sequence of Operation
        The graph.
    deadline_s : float, optional
        End that the latest starts count back from [s]; None takes the end of the critical path. A deadline that the
        graph misses gives negative slack.

    Returns
    -------
    Slack
        Starts and slack of each operation [s], and the critical path.

    Raises
    ------
    ValueError
        Two operations share a name, a predecessor does not exist, or the graph has a cycle.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A16

    Examples
    --------
    >>> graph = [
    ...     Operation("A", 3.0), Operation("B", 2.0, ("A",)), Operation("C", 4.0, ("A",)),
    ...     Operation("D", 2.0, ("B", "C")), Operation("E", 3.0, ("C",)),
    ... ]
    >>> found = slack(graph)
    >>> [found.slack_s[name] for name in "ABCDE"], found.critical_s
    ([0.0, 3.0, 0.0, 1.0, 0.0], 10.0)
    """
    ordered, after = _in_order(operations), _successors(operations)
    length = {op.name: op.length_s for op in ordered}
    earliest: dict[str, float] = {}
    cause: dict[str, str | None] = {}
    for op in ordered:
        cause[op.name] = max(op.after, key=lambda n: earliest[n] + length[n], default=None)
        earliest[op.name] = max((earliest[n] + length[n] for n in op.after), default=0.0)
    last: str | None = max(earliest, key=lambda n: earliest[n] + length[n], default=None)
    critical = 0.0 if last is None else earliest[last] + length[last]
    path = list[str]()
    while last is not None:
        path.append(last)
        last = cause[last]
    end = critical if deadline_s is None else deadline_s
    latest: dict[str, float] = {}
    for op in reversed(ordered):
        latest[op.name] = min((latest[n] for n in after[op.name]), default=end) - op.length_s
    least = 1e-12 * max(critical, abs(end))  # what rounding leaves is none
    margins = {n: latest[n] - earliest[n] if abs(latest[n] - earliest[n]) > least else 0.0 for n in earliest}
    return Slack(earliest, latest, margins, tuple(reversed(path)), critical)


def upward_rank(operations: Sequence[Operation]) -> dict[str, float]:
    """Return the length of the longest path from the start of each operation to the end of the graph.

    ``rank = length + max over successors of rank``

    Parameters
    ----------
    operations : sequence of Operation
        The graph.

    Returns
    -------
    dict of str to float
        Rank of each operation [s].

    Raises
    ------
    ValueError
        Two operations share a name, a predecessor does not exist, or the graph has a cycle.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] topcuoglu2002, docs/references.md

    Examples
    --------
    >>> upward_rank([Operation("A", 3.0), Operation("B", 2.0, ("A",)), Operation("C", 4.0, ("A",))])
    {'C': 4.0, 'B': 2.0, 'A': 7.0}
    """
    ordered, after = _in_order(operations), _successors(operations)
    rank: dict[str, float] = {}
    for op in reversed(ordered):
        rank[op.name] = op.length_s + max((rank[n] for n in after[op.name]), default=0.0)
    return rank


def list_schedule(
    operations: Sequence[Operation],
    n_workers: int,
    *,
    share_bandwidth: bool = True,
    rank: Mapping[str, float] | None = None,
) -> Schedule:
    """Return the list schedule that starts the ready operation of highest rank on each free worker.

    Operations that run together and ask one memory for more than its bandwidth get ``w_i / sum w`` of it each. Without
    sharing, ``max(CP, W / m) <= makespan <= W / m + (1 - 1 / m) CP``.

    Parameters
    ----------
    operations : sequence of Operation
        The graph.
    n_workers : int
        Equal workers m [1], >= 1.
    share_bandwidth : bool
        Whether operations share the memory bandwidth.
    rank : mapping of str to float, optional
        Priority of each operation [s]; None takes `upward_rank`.

    Returns
    -------
    Schedule
        Spans, makespan and bounds [s].

    Raises
    ------
    ValueError
        `n_workers` is below 1, two operations share a name, a predecessor does not exist, or the graph has a cycle.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A16
    .. [3] graham1966, docs/references.md
    .. [4] topcuoglu2002, docs/references.md

    Examples
    --------
    >>> two = [Operation("A", 2.0, memory_frac=0.8), Operation("B", 2.0, memory_frac=0.7)]
    >>> made = list_schedule(two, 2)
    >>> round(made.makespan_s, 6), made.lower_s, made.upper_s, round(made.stretch, 6)
    (3.0, 2.0, 3.0, 1.5)
    """
    check_range("n_workers", n_workers, 1)
    ordered = _in_order(operations)
    ranks = upward_rank(operations) if rank is None else rank
    spans = _run(ordered, n_workers, ranks, share_bandwidth)
    makespan = max((s.end_s for s in spans), default=0.0)
    critical, work = slack(operations).critical_s, math.fsum(op.length_s for op in operations)
    free = makespan
    if share_bandwidth:
        free = max((s.end_s for s in _run(ordered, n_workers, ranks, share_bandwidth=False)), default=0.0)
    return Schedule(
        tuple(spans),
        makespan,
        max(critical, work / n_workers),
        work / n_workers + (1 - 1 / n_workers) * critical,
        makespan / free if free else 1.0,
    )


def _run(ordered: Sequence[Operation], n_workers: int, rank: Mapping[str, float], share_bandwidth: bool) -> list[Span]:
    by_name, after = {op.name: op for op in ordered}, _successors(ordered)
    waits = {op.name: len(set(op.after)) for op in ordered}
    ready = [(-rank[op.name], i, op.name) for i, op in enumerate(ordered) if not op.after]
    heapq.heapify(ready)
    position = {op.name: i for i, op in enumerate(ordered)}
    free, left, started = list(range(n_workers)), dict[str, float](), dict[str, tuple[int, float]]()
    now, spans = 0.0, list[Span]()
    while ready or left:
        while ready and free:
            name = heapq.heappop(ready)[2]
            started[name] = heapq.heappop(free), now
            left[name] = by_name[name].length_s
        pace = _paces([by_name[n] for n in left]) if share_bandwidth else dict.fromkeys(left, 1.0)
        step = min(left[n] / pace[n] for n in left)
        ending = [n for n in left if left[n] / pace[n] <= step * (1 + 1e-12)]
        now += step
        for n in left:
            left[n] -= step * pace[n]
        for name in ending:
            del left[name]
            worker, start = started[name]
            spans.append(Span(name, worker, start, now))
            heapq.heappush(free, worker)
            for follower in after[name]:
                waits[follower] -= 1
                if not waits[follower]:
                    heapq.heappush(ready, (-rank[follower], position[follower], follower))
    return spans


def _paces(running: Sequence[Operation]) -> dict[str, float]:
    """Return the pace of each operation that runs, 1 where the bandwidth of its memory suffices."""
    wanted: dict[str, float] = {}
    for op in running:
        wanted[op.memory] = wanted.get(op.memory, 0.0) + op.memory_frac
    return {op.name: 1.0 / max(1.0, wanted[op.memory]) if op.memory_frac else 1.0 for op in running}


def contended_length_s(length_s: float, gamma: float, load_frac: float) -> float:
    """Return the length of an operation under load as item A16 prints it, ``T (1 + gamma u)``.

    Parameters
    ----------
    length_s : float
        Length T without load [s], >= 0.
    gamma : float
        Weight gamma [1], 0.1 to 0.9.
    load_frac : float
        Load u [1], 0 to 1.

    Returns
    -------
    float
        Length [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A16

    Examples
    --------
    >>> [round(contended_length_s(100.0, gamma, 0.8), 6) for gamma in (0.1, 0.5, 0.9)]
    [108.0, 140.0, 172.0]
    """
    check_range("length_s", length_s, 0.0)
    check_range("gamma", gamma, 0.1, 0.9)
    check_range("load_frac", load_frac, 0.0, 1.0)
    return length_s * (1 + gamma * load_frac)


# --- lengths by formula -----------------------------------------------------------------------------------------------


def memory_length_s(byte: float, bandwidth_byte_s: float) -> float:
    """Return the time to move bytes at a bandwidth, ``B / BW``.

    Parameters
    ----------
    byte : float
        Bytes B [byte], >= 0.
    bandwidth_byte_s : float
        Bandwidth BW [byte/s], > 0.

    Returns
    -------
    float
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] williams2009, docs/references.md

    Examples
    --------
    >>> memory_length_s(51.2e6, 51.2e9)
    0.001
    """
    check_range("byte", byte, 0.0)
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0, open_low=True)
    return byte / bandwidth_byte_s


def compute_length_s(flop: float, compute_op_s: float) -> float:
    """Return the time of operations at a rate, ``F / P``.

    Parameters
    ----------
    flop : float
        Operations F [op], >= 0.
    compute_op_s : float
        Compute rate P [op/s], > 0.

    Returns
    -------
    float
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] williams2009, docs/references.md

    Examples
    --------
    >>> compute_length_s(2e9, 1e12)
    0.002
    """
    check_range("flop", flop, 0.0)
    check_range("compute_op_s", compute_op_s, 0.0, open_low=True)
    return flop / compute_op_s


def roofline_length_s(byte: float, flop: float, bandwidth_byte_s: float, compute_op_s: float) -> float:
    """Return the longer of moving and computing, ``max(B / BW, F / P)``.

    Parameters
    ----------
    byte : float
        Bytes B [byte], >= 0.
    flop : float
        Operations F [op], >= 0.
    bandwidth_byte_s : float
        Bandwidth BW [byte/s], > 0.
    compute_op_s : float
        Compute rate P [op/s], > 0.

    Returns
    -------
    float
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] williams2009, docs/references.md

    Examples
    --------
    >>> roofline_length_s(51.2e6, 2e9, 51.2e9, 1e12)
    0.002
    """
    return max(memory_length_s(byte, bandwidth_byte_s), compute_length_s(flop, compute_op_s))


FORMULAS: dict[str, Callable[..., float]] = {
    "memory": memory_length_s,
    "compute": compute_length_s,
    "roofline": roofline_length_s,
    "contended": contended_length_s,
}
"""Formulas that a schedule file can name for the length of an operation, with their arguments by name."""
