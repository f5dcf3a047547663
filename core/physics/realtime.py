"""Real time on one processor: response-time analysis, an event simulation that agrees with it, and preemption jitter.

Tasks have fixed priorities (the first is the highest) and preempt each other; a context switch costs `switch_ns` on the
way in and on the way out. The worst response of a task comes after the critical instant: everything of higher priority
released together, as late as its jitter allows and as soon again, just after the longest section that cannot be
preempted began. All of it is in integer nanoseconds, so that no ceiling ever falls on the wrong side.

::

    w(q) = (q + 1) C + B + sum_hp ceil((w + J_j) / T_j) (C_j + 2 cs),    R = J + max_q (w(q) - q T)

References
----------
docs/physics.md, M12; quantities, B09. Joseph and Pandya 1986; Audsley et al. 1993 (jitter); Lehoczky 1990 (responses
longer than a period); Liu and Layland 1973; Bini and Buttazzo 2003 (hyperbolic bound).
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
    cost_ns : Worst execution time C, > 0.
    period_ns : T, > 0.
    deadline_ns : D, > 0; 0 means the period.
    jitter_ns : Longest delay J from arrival to release, >= 0.
    section_ns : Longest section of it that cannot be preempted, 0 to C: it blocks what is above.
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
        """The deadline in force."""
        return self.deadline_ns or self.period_ns


@dataclass(frozen=True, slots=True)
class Response:
    """The worst response of a task from its arrival; None where the processor is overloaded and it has no bound."""

    worst_ns: int | None
    blocking_ns: int
    meets_deadline: bool


def blocking_ns(tasks: Sequence[Task], index: int) -> int:
    """Longest non-preemptible section of any task of lower priority [ns]."""
    return max((t.section_ns for t in tasks[index + 1 :]), default=0)


def responses(tasks: Sequence[Task], switch_ns: int = 0, blocking: Sequence[int] | None = None) -> list[Response]:
    """Worst response of each task, exactly.

    Parameters
    ----------
    tasks : In order of priority, the highest first.
    switch_ns : Cost of a context switch, >= 0.
    blocking : Blocking of each task [ns] in place of `blocking_ns`.
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
    """Share of the processor that the tasks need, ``sum C/T``."""
    return math.fsum(t.cost_ns / t.period_ns for t in tasks)


def liu_layland_bound(n_tasks: int) -> float:
    """Utilisation up to which any n tasks with rate-monotonic priorities meet their periods, ``n (2^(1/n) - 1)``."""
    check_range("n_tasks", n_tasks, 1)
    return float(n_tasks * math.expm1(math.log(2) / n_tasks))


def hyperbolic_product(tasks: Sequence[Task]) -> float:
    """``prod (U_i + 1)``; 2 or less suffices for rate-monotonic priorities, more decides nothing."""
    return math.prod(1 + t.cost_ns / t.period_ns for t in tasks)


# --- simulation -------------------------------------------------------------------------------------------------------


def simulate(tasks: Sequence[Task], index: int, switch_ns: int = 0, blocking: int | None = None) -> int | None:
    """Longest response of task `index` seen when the processor runs from its critical instant [ns].

    An event loop, one preemptive processor with a queue by priority: it shares no formula with `responses`. At time 0 a
    section of lower priority has just begun, all tasks above are released at the end of their jitter and from then on
    at their arrivals; the run ends when no work of this priority or above is left. None where the processor is
    overloaded.
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
    """Worst response of an urgent request, ``C + interrupt + switch + kernel in front`` [s]."""
    for name, value in (
        ("cost_s", cost_s),
        ("interrupt_s", interrupt_s),
        ("switch_s", switch_s),
        ("kernel_s", kernel_s),
    ):
        check_range(name, value, 0.0)
    return cost_s + interrupt_s + switch_s + kernel_s


def kernel_wait_quantile_s(kernel_s: ArrayLike, busy_frac: ArrayLike, quantile: float) -> float:
    """Quantile of the wait for kernels that cannot be preempted, for requests at random times [s].

    A request finds kernel i running with probability `busy_frac` u_i and waits for what is left of it, uniform on
    0..K_i: ``P(wait > w) = sum u_i max(0, 1 - w/K_i)``, inverted exactly piece by piece. So the P99 jitter is set by
    the longest kernel, not by how fast a switch is.

    Parameters
    ----------
    kernel_s : (n,) kernel lengths, > 0 [s].
    busy_frac : (n,) share of time each one runs, >= 0, at most 1 together.
    quantile : In [0, 1).
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
