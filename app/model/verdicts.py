"""Verdicts of applications: margins to the limits of scenarios, or to the user's own limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.library.limits import Limits
from core.catalogue.energy import load_scenarios
from core.catalogue.inputs import read_scenario
from core.catalogue.memory_reserve import usable_memory
from core.physics.objectives import Scenario, beyond, judge
from core.physics.objectives import sentence as scenario_sentence
from core.predict.explain import margin_frac
from core.predict.request import request_p99_s
from core.predict.sweep import largest_context
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Output, Posterior

MINE = ""
"""Key of the user's own limits among the scenarios."""


@dataclass(frozen=True, slots=True)
class Margin:
    """Margin to one limit: 1 at the ideal, 0 at the limit, below 0 beyond it; `worse` at the 90 % interval's
    end that is less good.
    """

    name: str
    limit: float | None  # in SI; None: there is none
    value: Output
    unit: str
    left: float | None  # None: no limit, or no value
    worse: float | None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """A point judged by one scenario, or by the user's limits (then without a score)."""

    key: str
    name: str
    margins: tuple[Margin, ...]
    feasible: bool | None  # None: nothing to judge by
    score: float | None
    sentence: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Values to judge: measured ones of the point, else predicted."""

    top1_agreement: Output
    decode_s: Output
    energy_j_per_token: Output
    power_w: Output
    ttft_s: Output
    sustained_tokens_s: Output


def known_scenarios(own: str = "") -> dict[str, Scenario]:
    """Return the published scenarios by key, and one of the user's in a file.

    Raises
    ------
    ValueError
        The file does not hold a scenario; one sentence.
    """
    found = dict(load_scenarios())
    if own and own not in found:
        found[own] = read_scenario(Path(own))
    return found


def judged(scenario: Scenario, figures: Figures) -> Judged:
    """Judge a point by a scenario: agreement with the reference counts as accuracy, a token as one inference."""
    margins = (
        _margin("accuracy", scenario.min_accuracy_frac, figures.top1_agreement, "frac", at_least=True),
        _margin("latency", scenario.max_latency_s, figures.decode_s, "s"),
        _margin("energy", scenario.max_energy_j, figures.energy_j_per_token, "J"),
    )
    values = figures.top1_agreement, figures.decode_s, figures.energy_j_per_token
    missing = next((value.reason for value in values if isinstance(value, Absent)), None)
    if missing is not None:
        said = f"{scenario.name} cannot be judged: {missing.rstrip('.')}."
        return Judged(scenario.key, scenario.name, margins, None, None, said, scenario.source)
    verdict = judge(scenario, *(float(value.median) for value in values if isinstance(value, Estimate)))
    words = scenario_sentence(scenario, verdict)
    return Judged(
        scenario.key, scenario.name, margins, bool(verdict.feasible), float(verdict.score), words, scenario.source
    )


def judged_by_limits(limits: Limits, figures: Figures) -> Judged:
    """Judge a point by the user's limits."""
    request = request_p99_s(figures.ttft_s, figures.decode_s, limits.tokens)
    margins = (
        _margin("accuracy", limits.top1_agreement, figures.top1_agreement, "frac", at_least=True),
        _margin("latency", limits.latency_s, figures.decode_s, "s"),
        _margin("power", limits.power_w, figures.power_w, "W"),
        _margin("request P99", limits.request_p99_s, request, "s"),
        _margin("sustained speed", limits.sustained_tokens_s, figures.sustained_tokens_s, "tokens/s", at_least=True),
    )
    left = {margin.name: margin.left for margin in margins if margin.left is not None}
    if not left:
        none_set = "No limit is set: the operating point panel has fields for them."
        return Judged(MINE, "my limits", margins, None, None, none_set)
    tightest = min(left, key=lambda name: left[name])
    broken = ", ".join(beyond(name, value) for name, value in left.items() if value < 0)
    words = (
        f"Does not meet my limits: beyond the limit in {broken}."
        if broken
        else f"Meets my limits: the tightest is {tightest}, with {100 * left[tightest]:.0f} % left."
    )
    return Judged(MINE, "my limits", margins, not broken, None, words)


def longest_context(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, limits: Limits
) -> int | Absent:
    """Return the largest context within the limits on times and within the memory that the board has for a model."""
    had = usable_memory(catalogue.resolve(point).board)
    return largest_context(
        point,
        catalogue,
        posterior,
        latency_s=limits.latency_s,
        memory_byte=had.usable_byte if had else None,
        request_s=limits.request_p99_s,
        answer_tokens=limits.tokens,
    )


def _margin(name: str, limit: float | None, value: Output, unit: str, *, at_least: bool = False) -> Margin:
    if limit is None or isinstance(value, Absent):
        return Margin(name, limit, value, unit, None, None, at_least)

    output = {"frac": "top1_agreement", "tokens/s": "sustained_tokens_s"}.get(unit, "")

    def left(of: float) -> float:
        return margin_frac(output, limit, of)

    worse = value.q05 if at_least else value.q95
    return Margin(name, limit, value, unit, left(float(value.median)), left(float(worse)), at_least)
