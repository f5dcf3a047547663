"""Content of the schedule view: timelines with their facts in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.library.timelines import Chain, Graph, Request, Tasks
from app.text.format import counted, quantity_text
from app.text.names import PARTS
from core.physics.realtime import Response, Task, kernel_wait_quantile_s

_N_TOKENS = 6  # of a request that are drawn
_N_ITEMS = 6  # of a chain that are drawn
_PATH = 12  # operations of a critical path that are named


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a timeline. `role` is a colour of the palette; a hollow bar is not what happens but what was said."""

    row: int
    start: float
    end: float
    label: str = ""
    role: str = "accent"
    hollow: bool = False
    slack_end: float | None = None  # how far it may slip


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows of bars over one axis, and marks across them."""

    rows: tuple[str, ...]
    bars: tuple[Bar, ...]
    unit: str
    marks: tuple[tuple[float, str, str], ...] = ()  # position, name, colour
    message: str = ""

    @property
    def end(self) -> float:
        """The last moment shown."""
        ends = [bar.slack_end or bar.end for bar in self.bars] + [bar.end for bar in self.bars]
        return max([*ends, *(at for at, *_ in self.marks)], default=1.0) or 1.0


@dataclass(frozen=True, slots=True)
class ScheduleContent:
    """A timeline with the sentence that answers, further facts, and a table with its head first."""

    timeline: Timeline
    sentence: str
    facts: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    holds: bool | None = None  # whether the deadline is met
    inside: Timeline | None = None  # of one token, where the other is of a whole request


def content_of(found: Graph | Chain | Tasks | Request) -> ScheduleContent:
    """Return the content for a timing."""
    if isinstance(found, Graph):
        return _graph(found)
    if isinstance(found, Chain):
        return _chain(found)
    return _tasks(found) if isinstance(found, Tasks) else _request(found)


def _s(value: float) -> str:
    return quantity_text(value, "s")


def _graph(found: Graph) -> ScheduleContent:
    plan, made, slack = found.plan, found.made, found.slack
    critical = set(slack.critical_path)
    bars = tuple(
        Bar(
            span.worker,
            span.start_s,
            span.end_s,
            span.name,
            "bad" if slack.slack_s[span.name] < 0 else "accent" if span.name in critical else "dim",
            slack_end=max(span.end_s, slack.latest_s[span.name] + span.end_s - span.start_s),
        )
        for span in made.spans
    )
    deadline = plan.deadline_s if math.isfinite(plan.deadline_s) else None
    marks = ((deadline, "deadline", "bad"),) if deadline is not None else ()
    words = f"{plan.name}: {_s(made.makespan_s)} on {counted(plan.n_workers, 'worker')}"
    if deadline is not None:
        share = 100 * abs(1 - made.makespan_s / deadline)
        words += f", {share:.0f} % {'before' if found.meets_deadline else 'after'} its deadline of {_s(deadline)}"
    first = found.first_in_s
    saved = f"; this order saves {100 * (1 - made.makespan_s / first):.1f} %" if made.makespan_s < first else ""
    facts = (
        f"Critical path: {_path(slack.critical_path)}, {_s(slack.critical_s)}.",
        f"First in, first out: {_s(first)}{saved or ', no more than this order'}.",
        f"Sharing the memory stretches it by {made.stretch:.3g}; without sharing no order is below {_s(made.lower_s)} "
        f"and no list schedule above {_s(made.upper_s)} (Graham).",
    )
    rows = [
        (span.name, str(span.worker + 1), _s(span.start_s), _s(span.end_s), _s(slack.slack_s[span.name]))
        for span in sorted(made.spans, key=lambda s: (s.start_s, s.worker))
    ]
    return ScheduleContent(
        Timeline(tuple(f"worker {i + 1}" for i in range(plan.n_workers)), bars, "s", marks),
        f"{words}.",
        facts,
        (("operation", "worker", "start", "end", "slack"), *rows),
        found.meets_deadline,
    )


def _path(names: tuple[str, ...]) -> str:
    """Return a path in words; the middle of a long one is left out."""
    shown = names if len(names) <= _PATH else (*names[: _PATH // 2], "…", *names[-_PATH // 2 :])
    return " → ".join(shown)


def _chain(found: Chain) -> ScheduleContent:
    plan = found.plan
    n = min(plan.n_items, _N_ITEMS)
    overlapped = found.printed_starts != found.strict_starts
    rows, bars = list[str](), list[Bar]()
    for i, (stage, length) in enumerate(zip(plan.stages, plan.lengths, strict=True)):
        rows.append(stage)
        for k in range(n):
            start = found.strict_starts[i] + k * found.interval
            bars.append(Bar(len(rows) - 1, start, start + length, str(k + 1), "accent" if k == 0 else "dim"))
        if overlapped:
            start = found.printed_starts[i]
            rows.append(f"{stage}, as printed")
            bars.append(Bar(len(rows) - 1, start, start + length, "1", "published", hollow=True))
    unit = plan.unit
    words = (
        f"{plan.name}: {counted(plan.n_items, 'item')} in {found.strict_makespan:g} {unit}, "
        f"one every {found.interval:g}; the longest stage sets the pace."
    )
    facts = list[str]()
    if overlapped:
        facts.append(
            f"As printed it would take {found.printed_makespan:g} {unit}, but a stage starts before the one it waits "
            f"for has ended."
        )
    busy = ", ".join(f"{s} {100 * x / found.interval:.0f} %" for s, x in zip(plan.stages, plan.lengths, strict=True))
    facts.append(f"Each stage works this share of the time: {busy}.")
    table = [
        (stage, f"{length:g}", f"{strict:g}", f"{printed:g}")
        for stage, length, strict, printed in zip(
            plan.stages, plan.lengths, found.strict_starts, found.printed_starts, strict=True
        )
    ]
    head = ("stage", f"length [{unit}]", "starts", "starts as printed")
    return ScheduleContent(Timeline(tuple(rows), tuple(bars), unit), words, tuple(facts), (head, *table))


def _tasks(found: Tasks) -> ScheduleContent:
    given, rows, bars, table = found.given, list[str](), list[Bar](), list[tuple[str, ...]]()
    for i, (task, worst, simulated) in enumerate(zip(given.tasks, found.worst, found.simulated_ns, strict=True)):
        rows.append(task.name)
        due = task.due_ns / 1e9
        bars += _response_bars(i, task, worst)
        bars.append(Bar(i, due, due, "", "bad"))  # a tick: the deadline
        said = "no bound: overloaded" if worst.worst_ns is None else _s(worst.worst_ns / 1e9)
        seen = "not simulated" if simulated is None else _s(simulated / 1e9)
        table.append((task.name, said, seen, _s(due), "meets it" if worst.meets_deadline else "misses it"))
    late = [task.name for task, worst in zip(given.tasks, found.worst, strict=True) if not worst.meets_deadline]
    words = f"{given.name}: " + (
        "every deadline holds in the worst case" if not late else f"in the worst case {', '.join(late)} is late"
    )
    facts = [f"The tasks need {100 * found.utilisation_frac:.1f} % of the processor."]
    sections = [t.section_ns / 1e9 for t in given.tasks if t.section_ns]
    if sections:
        busy = [min(t.section_ns / t.period_ns, 1.0) for t in given.tasks if t.section_ns]
        p99 = kernel_wait_quantile_s(sections, busy, 0.99)
        facts.append(
            f"The longest part that cannot be preempted, {_s(max(sections))}, sets the jitter of what is above it; "
            f"P99 of the wait for such parts {_s(p99)} where each runs once a period."
        )
    head = ("task", "worst response", "simulated", "deadline", "")
    timeline = Timeline(tuple(rows), tuple(bars), "s")
    return ScheduleContent(timeline, f"{words}.", tuple(facts), (head, *table), not late)


def _response_bars(row: int, task: Task, worst: Response) -> list[Bar]:
    """Return the parts of the worst response: jitter and blocking, interference, and the task's own time."""
    if worst.worst_ns is None:
        return [Bar(row, 0.0, task.due_ns / 1e9, "no bound", "bad", hollow=True)]
    waits = (task.jitter_ns + worst.blocking_ns) / 1e9
    own, end = task.cost_ns / 1e9, worst.worst_ns / 1e9
    begins = max(end - own, waits)
    parts = [Bar(row, 0.0, waits, "blocked", "dim", hollow=True)] if waits else []
    if begins > waits:
        parts.append(Bar(row, waits, begins, "preempted", "dim"))
    return [*parts, Bar(row, begins, end, "own time", "accent" if worst.meets_deadline else "bad")]


def _request(found: Request) -> ScheduleContent:
    token = found.token_s
    if token is None:
        return ScheduleContent(
            Timeline((), (), "s", message="There is no decode time of this point."), "There is no timeline."
        )
    step = float(token.median)
    first = 0.0 if found.first_token_s is None else float(found.first_token_s.median)
    words = f"A token takes {_s(step)}" + (f", the first one {_s(first)}" if first else "")
    holds = None
    if found.deadline_s is not None:
        worst = float(token.q95)
        holds = worst <= found.deadline_s
        words += (
            f"; at its 95 % quantile, {_s(worst)}, a token {'meets' if holds else 'misses'} the limit of "
            f"{_s(found.deadline_s)}"
        )
    return ScheduleContent(
        _whole_request(found, first, step),
        f"{words}.",
        tuple(_waits(found, first, step)),
        holds=holds,
        inside=_inside(found, step),
    )


def _whole_request(found: Request, first: float, step: float) -> Timeline:
    """Return the prompt, then as many tokens as take about as long."""
    n = max(_N_TOKENS, round(first / step, -1 - (first / step > 200)))
    bars = [Bar(0, 0.0, first, quantity_text(float(found.context_tokens), "tokens"), "accent")] if first else []
    rows = ("prompt and first token", f"{n:.0f} more tokens")
    return Timeline(rows, (*bars, Bar(1, first, first + n * step, f"{n:.0f} × {_s(step)}", "dim")), "s")


def _inside(found: Request, step: float) -> Timeline:
    """Return the parts of a token's time in sequence, with the limit."""
    rows, bars, at = list[str](), list[Bar](), 0.0
    scale = step / (sum(found.parts_s.values()) or step)  # parts of a bound that overlaps are shares of the time
    for name, seconds in found.parts_s.items():
        if seconds > 1e-3 * step:
            bars.append(Bar(len(rows), at, at + seconds * scale, _s(seconds * scale)))
            rows.append(PARTS[name])
            at += seconds * scale
    marks = () if found.deadline_s is None else ((found.deadline_s, "limit", "bad"),)
    return Timeline(tuple(rows), tuple(bars), "s", marks)


def _waits(found: Request, first: float, step: float) -> list[str]:
    """Return the wait of an urgent request behind non-preemptible work."""
    n = found.n_layers
    facts = [
        "Prompt and first token are one pass and are not added twice. Loading the prompt and handing tokens over are "
        "not predicted.",
        f"An urgent request behind a token that cannot be interrupted waits {_s(_p99(step))} at P99, at most "
        f"{_s(step)}; if it may come in between the {n} layers, at most about {_s(step / n)}.",
    ]
    if first:
        facts.append(
            f"Behind a prompt that cannot be interrupted it waits up to {_s(first)}: the longest part that cannot be "
            f"preempted sets the jitter, not how fast a switch is."
        )
    return facts


def _p99(kernel_s: float) -> float:
    return kernel_wait_quantile_s([kernel_s], [1.0], 0.99)
