"""Real time on one processor: response-time analysis, an event simulation to check it, and preemption jitter.

Tasks have fixed priorities (the first is the highest) and preempt each other; a context switch costs `switch_ns` on the
way in and on the way out. The worst response of a task comes after the critical instant: everything of higher priority
released together at the end of its jitter and again as early as possible, just after the longest non-preemptible
section began. Times are integer nanoseconds, so that every ceiling is exact.

::

    w(q) = (q + 1) C + B + sum_hp ceil((w + J_j) / T_j) (C_j + 2 cs),    R = J + max_q (w(q) - q T)

References
----------
.. [1] docs/physics.md M12
.. [2] docs/articles.md B09
.. [3] joseph1986, audsley1993, lehoczky1990, liu1973 and bini2003, docs/references.md
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from core.units import check_range


@dataclass(frozen=True, slots=True)
class Task:
    """A periodic task; times in whole nanoseconds.

    Attributes
    ----------
    name : str
        Name of the task.
    cost_ns : int
        Worst execution time C [ns], > 0.
    period_ns : int
        Period T [ns], > 0.
    deadline_ns : int
        Deadline D [ns], >= 0; 0 is the period.
    jitter_ns : int
        Longest delay J from arrival to release [ns], >= 0.
    section_ns : int
        Longest section that cannot be preempted [ns], 0 to C; it blocks tasks of higher priority.
    """

    name: str
    cost_ns: int
    period_ns: int
    deadline_ns: int = 0
    jitter_ns: int = 0
    section_ns: int = 0

    def __post_init__(self) -> None:
        for name in ("cost_ns", "period_ns", "deadline_ns", "jitter_ns", "section_ns"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} = {getattr(self, name)!r} is not a whole number of nanoseconds")
        check_range("cost_ns", self.cost_ns, 1)
        check_range("period_ns", self.period_ns, 1)
        check_range("deadline_ns", self.deadline_ns, 0)
        check_range("jitter_ns", self.jitter_ns, 0)
        check_range("section_ns", self.section_ns, 0, self.cost_ns)

    @property
    def due_ns(self) -> int:
        """Return the deadline in force [ns]."""
        return self.deadline_ns or self.period_ns


@dataclass(frozen=True, slots=True)
class Response:
    """The worst response of a task from its arrival.

    Attributes
    ----------
    worst_ns : int or None
        Worst response [ns]; None where the processor is overloaded and there is no bound.
    blocking_ns : int
        Blocking by tasks of lower priority [ns].
    meets_deadline : bool
        Whether the worst response is within the deadline.
    """

    worst_ns: int | None
    blocking_ns: int
    meets_deadline: bool


def blocking_ns(tasks: Sequence[Task], index: int) -> int:
    """Return the longest non-preemptible section of any task of lower priority.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks by priority, the highest first.
    index : int
        Number of the task that is blocked [1].

    Returns
    -------
    int
        Blocking B [ns].

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09

    Examples
    --------
    >>> blocking_ns([Task("a", 1, 4), Task("b", 2, 6, section_ns=1), Task("c", 3, 13, section_ns=2)], 0)
    2
    """
    return max((t.section_ns for t in tasks[index + 1 :]), default=0)


def responses(tasks: Sequence[Task], switch_ns: int = 0, blocking: Sequence[int] | None = None) -> list[Response]:
    """Return the worst response of each task, exactly.

    ``w(q) = (q + 1) C + B + sum_hp ceil((w + J_j) / T_j) (C_j + 2 cs)``, ``R = J + max_q (w(q) - q T)``, over the jobs
    q of the busy period.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks by priority, the highest first.
    switch_ns : int
        Cost cs of a context switch [ns], >= 0.
    blocking : sequence of int, optional
        Blocking B of each task [ns]; None takes `blocking_ns`.

    Returns
    -------
    list of Response
        One response for each task [ns].

    Raises
    ------
    ValueError
        `switch_ns` is below 0, or a busy period has no end within 300 000 steps of the iteration.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09
    .. [3] joseph1986, docs/references.md
    .. [4] audsley1993, docs/references.md, jitter
    .. [5] lehoczky1990, docs/references.md, responses longer than a period

    Examples
    --------
    >>> tasks = [Task("a", 10, 40), Task("b", 20, 60), Task("c", 30, 130)]
    >>> [r.worst_ns for r in responses(tasks)], [r.worst_ns for r in responses(tasks, blocking=[5, 5, 5])]
    ([10, 30, 100], [15, 35, 105])
    """
    check_range("switch_ns", switch_ns, 0)
    blocks = [blocking_ns(tasks, i) for i in range(len(tasks))] if blocking is None else list(blocking)
    found = []
    for i, task in enumerate(tasks):
        worst = _worst_ns(task, tasks[:i], switch_ns, blocks[i])
        found.append(Response(worst, blocks[i], worst is not None and worst <= task.due_ns))
    return found


def _worst_ns(task: Task, above: Sequence[Task], switch_ns: int, blocking: int) -> int | None:
    interference = [(t.period_ns, t.jitter_ns, t.cost_ns + 2 * switch_ns) for t in above]
    if _overloaded(task, above, switch_ns):
        return None
    worst, w, q = 0, 0, 0
    for _ in range(_MOST_ROUNDS):
        after = (q + 1) * task.cost_ns + blocking + sum(-(-(w + j) // t) * c for t, j, c in interference)
        if after > w:
            w = after
            continue
        worst, q = max(worst, w - q * task.period_ns), q + 1
        if w + task.jitter_ns <= q * task.period_ns:  # the busy period ends before the next job
            return worst + task.jitter_ns
    raise ValueError(
        f"{task.name}: {q} of its jobs follow each other without a pause and no end is seen, "
        "expected a utilisation further from 1"
    )


_MOST_ROUNDS = 300_000


def _overloaded(task: Task, above: Sequence[Task], switch_ns: int) -> bool:
    need = Fraction(task.cost_ns, task.period_ns) + sum(Fraction(t.cost_ns + 2 * switch_ns, t.period_ns) for t in above)
    return need > 1


def utilisation(tasks: Sequence[Task]) -> float:
    """Return the share of the processor that the tasks need, ``U = sum C / T``.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks.

    Returns
    -------
    float
        Utilisation [1].

    References
    ----------
    .. [1] docs/articles.md B09

    Examples
    --------
    >>> round(utilisation([Task("a", 1, 4), Task("b", 2, 6), Task("c", 3, 13)]), 10)
    0.8141025641
    """
    return math.fsum(t.cost_ns / t.period_ns for t in tasks)


def liu_layland_bound(n_tasks: int) -> float:
    """Return the utilisation up to which any n rate-monotonic tasks meet their periods, ``n (2^(1/n) - 1)``.

    Parameters
    ----------
    n_tasks : int
        Tasks n [1], >= 1.

    Returns
    -------
    float
        Utilisation [1].

    Raises
    ------
    ValueError
        `n_tasks` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09
    .. [3] liu1973, docs/references.md

    Examples
    --------
    >>> round(liu_layland_bound(3), 10)
    0.7797631497
    """
    check_range("n_tasks", n_tasks, 1)
    return float(n_tasks * math.expm1(math.log(2) / n_tasks))


def hyperbolic_product(tasks: Sequence[Task]) -> float:
    """Return ``prod (U_i + 1)`` of the tasks.

    Up to 2 rate-monotonic tasks meet their periods; above 2 the test decides nothing.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks.

    Returns
    -------
    float
        Product [1].

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09
    .. [3] bini2003, docs/references.md

    Examples
    --------
    >>> round(hyperbolic_product([Task("a", 1, 4), Task("b", 2, 6), Task("c", 3, 13)]), 9)
    2.051282051
    """
    return math.prod(1 + t.cost_ns / t.period_ns for t in tasks)


# --- simulation -------------------------------------------------------------------------------------------------------


def simulate(tasks: Sequence[Task], index: int, switch_ns: int = 0, blocking: int | None = None) -> int | None:
    """Return the longest response of a task by an event simulation from its critical instant.

    One preemptive processor with a queue by priority; no formula is shared with `responses`. At time 0 a section of
    lower priority has just begun and all tasks of higher priority are released at the end of their jitter, then at
    their arrivals. The run ends when no work of this priority or above is left.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks by priority, the highest first.
    index : int
        Number of the task [1].
    switch_ns : int
        Cost of a context switch [ns].
    blocking : int, optional
        Blocking of the task [ns]; None takes `blocking_ns`.

    Returns
    -------
    int or None
        Longest response [ns]; None where the processor is overloaded.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09

    Examples
    --------
    >>> [simulate([Task("a", 1, 4), Task("b", 2, 6), Task("c", 3, 13)], i) for i in range(3)]
    [1, 3, 10]
    """
    if _overloaded(tasks[index], tasks[:index], switch_ns):
        return None
    now, worst = blocking_ns(tasks, index) if blocking is None else blocking, 0
    arrivals = [-t.jitter_ns for t in tasks[: index + 1]]  # of the next job of each task
    releases = [(0, i) for i in range(index + 1)]  # a heap: time, priority
    ready: list[tuple[int, int, int]] = []  # a heap: priority, arrival, work left
    _admit(releases, ready, arrivals, tasks, now, switch_ns)
    while ready:
        i, arrival, work = heapq.heappop(ready)
        slice_ns = min(work, releases[0][0] - now)
        now += slice_ns
        if work > slice_ns:
            heapq.heappush(ready, (i, arrival, work - slice_ns))
        elif i == index:
            worst = max(worst, now - arrival)
        if ready:  # work that arrives as the last one ends begins a new busy period
            _admit(releases, ready, arrivals, tasks, now, switch_ns)
    return worst


def _admit(
    releases: list[tuple[int, int]],
    ready: list[tuple[int, int, int]],
    arrivals: list[int],
    tasks: Sequence[Task],
    now: int,
    switch_ns: int,
) -> None:
    """Move the jobs released by `now` to the ready queue and schedule each task's next release."""
    lowest = len(arrivals) - 1
    while releases[0][0] <= now:
        i = releases[0][1]
        work = tasks[i].cost_ns + (2 * switch_ns if i < lowest else 0)
        heapq.heappush(ready, (i, arrivals[i], work))
        arrivals[i] += tasks[i].period_ns
        heapq.heapreplace(releases, (max(arrivals[i], 0), i))


# --- jitter of a request against kernels that cannot be preempted -----------------------------------------------------


def preemption_response_s(cost_s: float, interrupt_s: float, switch_s: float, kernel_s: float = 0.0) -> float:
    """Return the worst response of an urgent request, ``C + interrupt + switch + kernel``.

    Parameters
    ----------
    cost_s : float
        Execution time C of the request [s], >= 0.
    interrupt_s : float
        Latency of the interrupt [s], >= 0.
    switch_s : float
        Context switch [s], >= 0.
    kernel_s : float
        Kernel in front that cannot be preempted [s], >= 0.

    Returns
    -------
    float
        Response [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B09

    Examples
    --------
    >>> [round(preemption_response_s(100e-6, 8.3e-6, 2.1e-6, k) * 1e6, 4) for k in (0.0, 41.6e-3)]
    [110.4, 41710.4]
    """
    for name, value in (
        ("cost_s", cost_s),
        ("interrupt_s", interrupt_s),
        ("switch_s", switch_s),
        ("kernel_s", kernel_s),
    ):
        check_range(name, value, 0.0)
    return cost_s + interrupt_s + switch_s + kernel_s


def kernel_wait_quantile_s(kernel_s: ArrayLike, busy_frac: ArrayLike, quantile: float) -> float:
    """Return a quantile of the wait behind kernels that cannot be preempted, for requests at random times.

    ``P(wait > w) = sum u_i max(0, 1 - w / K_i)``, inverted exactly: a request finds kernel i running with probability
    u_i and waits for the rest of it, uniform on 0..K_i. So the longest kernel sets the P99, not the speed of a switch.

    Parameters
    ----------
    kernel_s : array_like, shape (n,)
        Lengths K of the kernels [s], > 0.
    busy_frac : array_like, shape (n,)
        Share u of time that each runs [1], >= 0, at most 1 together.
    quantile : float
        Quantile [1], 0 to below 1.

    Returns
    -------
    float
        Wait [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B09

    Examples
    --------
    >>> round(kernel_wait_quantile_s([41.6e-3], [0.5], 0.99) * 1e3, 6)
    40.768
    """
    k, u = np.atleast_1d(np.asarray(kernel_s, float)), np.atleast_1d(np.asarray(busy_frac, float))
    check_range("kernel_s", k, 0.0, open_low=True)
    check_range("busy_frac", u, 0.0, 1.0)
    check_range("sum of busy_frac", u.sum(), 0.0, 1.0 + 1e-12)
    check_range("quantile", quantile, 0.0, 1.0, open_high=True)
    exceed = 1 - quantile
    if u.sum() <= exceed:
        return 0.0
    corners = np.unique(np.r_[0.0, k])
    tail = (u * np.maximum(0, 1 - corners[:, None] / k)).sum(axis=1)  # falls along the corners, straight in between
    return float(np.interp(exceed, tail[::-1], corners[::-1]))
