"""The quantities that cards, live plots and tables show: where each comes from, its unit, its limit, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.text.format import EstimateText, estimate_text
from core.spec import Estimate, Output, Provenance

WORDS = {
    Provenance.MEASURED: "measured",
    Provenance.CALIBRATED: "calibrated",
    Provenance.PREDICTED: "predicted",
    Provenance.PUBLISHED: "published",
    Provenance.SIMULATED: "simulated",
    Provenance.AS_PUBLISHED: "as published",
}
"""How the screen calls where a number comes from."""


def measured_as(hello: Mapping[str, Any]) -> Provenance:
    """Return the provenance of an attached board's values, measured or simulated, from its hello."""
    return Provenance.SIMULATED if hello.get("simulated") else Provenance.MEASURED


N_MOST, N_MOST_RATIO = 3, 4  # digits of a number, and of a ratio that is near 1


@dataclass(frozen=True, slots=True)
class Quantity:
    """One output of an operating point as the screen shows it. `limit` is the store's path of its limit, or ""."""

    output: str  # field of core.spec.Prediction
    title: str
    short: str
    unit: str
    limit: str = ""
    at_most: bool = True  # the limit is an upper one
    least: float | None = None  # no value is smaller
    most: float | None = None  # no value is larger

    def text(self, output: Estimate, like: float | None = None) -> EstimateText:
        """Return a value with its interval in words; `like` is a number whose prefix is taken."""
        return estimate_text(float(output.median), float(output.q05), float(output.q95), self.unit, like=like)

    def figure(self, output: Estimate, like: float | None = None) -> EstimateText:
        """Return a value as it stands without its interval: with no more digits than one reads."""
        median, low, high = float(output.median), float(output.q05), float(output.q95)
        return estimate_text(median, low, high, self.unit, like, N_MOST_RATIO if self.unit == "1" else N_MOST)

    def verdict(self, output: Output, limit: float | None) -> tuple[str, bool | None]:
        """Return whether a limit holds: in words with a sign, and by the median alone (None: nothing to say).

        A limit inside the 90 % interval is held or missed only likely.
        """
        if limit is None or not isinstance(output, Estimate):
            return "", None
        better, worse = (output.q05, output.q95) if self.at_most else (output.q95, output.q05)
        sign = 1.0 if self.at_most else -1.0

        def holds(value: float) -> bool:
            return sign * value <= sign * limit

        if holds(float(output.median)):
            return ("✓ holds" if holds(float(worse)) else "✓ likely"), True
        return ("✗ likely missed" if holds(float(better)) else "✗ missed"), False


LATENCY = Quantity("decode_s", "Latency per token", "Latency", "s", "limits.latency", least=0.0)
POWER = Quantity("power_w", "Power", "Power", "W", "limits.power", least=0.0)
TOP1 = Quantity(
    "top1_agreement", "Top-1 agreement", "Top-1", "frac", "limits.accuracy", at_most=False, least=0.0, most=1.0
)
REQUEST = Quantity("request_p99_s", "P99 of a request", "Request P99", "s", "limits.request", least=0.0)
SUSTAINED = Quantity(
    "sustained_tokens_s", "Sustained speed", "Sustained speed", "tokens/s", "limits.sustained", at_most=False, least=0.0
)
PERPLEXITY = Quantity("perplexity_ratio", "Perplexity ratio", "Perplexity ×", "1", least=0.0)
TTFT = Quantity("ttft_s", "First token", "First token", "s", least=0.0)
ENERGY = Quantity("energy_j_per_token", "Energy per token", "Energy", "J/token", least=0.0)
MEMORY = Quantity("memory_byte", "Memory", "Memory", "byte", least=0.0)

ALL = (LATENCY, TTFT, POWER, ENERGY, TOP1, PERPLEXITY, MEMORY)
"""In the order of tables."""
