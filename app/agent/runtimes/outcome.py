"""Result of a run of a runtime: records, applied fields, and the spans of its request in one clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, List, Mapping, Sequence, Tuple

from app.agent.runtimes.entry import RuntimeEntry

QUALITY = ("perplexity", "perplexity_ratio", "mean_kl", "top1_agreement")


class Failed(Exception):
    """The run cannot give a number; the message is one sentence."""


class Refused(Failed):
    """A server refused a request, with an HTTP status and in words of its own."""

    def __init__(self, sentence: str, status: int, words: str) -> None:
        super().__init__(sentence)
        self.status, self.words = status, words


class Unreadable(Failed):
    """A server answered with something else than its interface has."""


class Silent(Failed):
    """A server that is there said nothing for as long as it may."""


class Cancelled(Exception):
    """The run was given up because its `cancelled` callback said so."""


@dataclass(frozen=True)
class Run:
    """Request to a runtime."""

    point: Mapping[str, Any]
    what: Collection[str]
    progress: Callable[[float, str], None]
    cancelled: Callable[[], bool]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def context_tokens(self) -> int:
        """Length of the prompt."""
        value = self.point.get("context_tokens", 512)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= 1 << 24:
            raise Failed(f"context_tokens: got {value!r:.40}, expected 1 to {1 << 24}")
        return int(value)

    def check(self) -> None:
        """Raise `Cancelled` once the run is not wanted any more."""
        if self.cancelled():
            raise Cancelled


@dataclass
class Timeline:
    """Moments of one request on the board's monotonic clock [s], and what was generated."""

    start_s: float
    sent_s: float = math.nan  # the request had left
    token_s: List[float] = field(default_factory=list)  # arrival of each piece of text
    token_count: List[int] = field(default_factory=list)  # tokens that had arrived by then, all together
    buffer_write_s: float = 0.0  # spent taking the pieces apart, all together
    end_s: float = math.nan
    stall_s: float = 0.0  # longest time that this program did not get to run

    def gaps_s(self) -> List[float]:
        """Return the time of each token after the first: gaps between arrivals, shared by the tokens they brought."""
        gaps: List[float] = []
        for i in range(1, len(self.token_s)):
            n_tokens = self.token_count[i] - self.token_count[i - 1]
            gaps += [(self.token_s[i] - self.token_s[i - 1]) / n_tokens] * n_tokens if n_tokens > 0 else []
        return gaps

    def spans(self, prefill_s: float) -> List[Dict[str, Any]]:
        """Return the request cut into stages without a gap or an overlap, so that their sum is end to end.

        `prefill_s` is what the runtime says its prefill took; NaN leaves prefill inside the first token.
        """
        first_s, last_s = self.token_s[0], self.token_s[-1]
        built_s = min(self.sent_s + prefill_s, first_s) if prefill_s == prefill_s else self.sent_s
        cuts: List[Tuple[str, float, float]] = [
            ("prompt_load_s", self.start_s, self.sent_s),
            ("kv_build_s", self.sent_s, built_s),
            ("first_token_s", built_s, first_s),
            ("decode_s", first_s, last_s),
            ("protocol_s", last_s, self.end_s),
        ]
        return [{"stage": name, "start_s": a, "end_s": b} for name, a, b in cuts if b > a]


def one_line(value: object, most: int = 100) -> str:
    """Return what a runtime says as one line of printable text."""
    text = " ".join(str(value).split())[:most]
    return "".join(char for char in text if char.isprintable())


def now_s() -> float:
    """Return the time of the board's monotonic clock, the one that samples carry."""
    return time.monotonic_ns() * 1e-9


def record(samples: Sequence[float]) -> Dict[str, Any]:
    """Describe samples by median, 5 % and 95 % quantiles (linear interpolation) and number.

    Raises
    ------
    Failed
        A sample is no measurement: negative or not finite.
    """
    ordered = sorted(samples)
    if not ordered or not all(0.0 <= sample < math.inf for sample in ordered):
        raise Failed(f"the runtime gave {ordered[:3]} as measured values, expected finite ones of at least 0")

    def quantile(share: float) -> float:
        at = share * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    return {
        "median": quantile(0.5),
        "q05": quantile(0.05),
        "q95": quantile(0.95),
        "n": len(ordered),
        "provenance": "measured",
    }


def speed_of(tokens_s: Mapping[str, Any]) -> Dict[str, Any]:
    """Return tokens per second from the record of seconds per token."""
    if not tokens_s["q05"] > 0.0:
        raise Failed("the runtime gave a time of 0 s for a token: the run is not a measurement")
    return {**tokens_s, "median": 1 / tokens_s["median"], "q05": 1 / tokens_s["q95"], "q95": 1 / tokens_s["q05"]}


def blank(entry: RuntimeEntry, what: Collection[str]) -> Dict[str, Any]:
    """Return all outputs as absent, each with its reason."""
    body: Dict[str, Any] = {}
    for part, names in {"decode": ("decode_s", "tokens_per_s"), "ttft": ("ttft_s",)}.items():
        body.update({name: {"absent": f"{part} was not asked for"} for name in names if part not in what})
    reason = f"{entry.kind} does not tell how much memory it uses"
    body["memory_byte"] = {"absent": reason}
    reason = "quality was not asked for"
    if "quality" in what:
        reason = f"{entry.kind} gives no reference to compare with: accuracy is measured with Trilemma's own decoder"
    body.update({name: {"absent": reason} for name in QUALITY})
    return body


UNSET = {"activation_keep": 1.0, "kv_layout": "", "weight_sparsity": 0.0, "on_chip_frac": 0.0, "adapter_rank": 0.0}
"""Options of a point that no other runtime can be given in a run, and what they are without it."""


def applied(entry: RuntimeEntry, run: Run, known: Mapping[str, str]) -> Tuple[Dict[str, Any], List[str]]:
    """Return the fields of the point that differ from the request, and sentences.

    Parameters
    ----------
    known
        Formats that the runtime reported ("weights", "kv"), in its own words; "" where it did not.

    A measurement belongs to the point that really ran, so the client files it there. It knows the names of formats,
    this program does not: their words go as they are.
    """
    point, notes = run.point, []
    fields: Dict[str, Any] = {}
    if point.get("alpha"):
        fields["alpha"] = 0.0
        notes.append(f"alpha {point['alpha']:g} was not applied: {entry.kind} keeps its whole KV cache.")
    if point.get("beta", 1.0) != 1.0:
        fields["beta"] = 1.0
        notes.append(f"beta {point['beta']:g} was not applied: {entry.kind} chooses its own instructions.")
    if point.get("bandwidth_byte_s") is not None:
        fields["bandwidth_byte_s"] = None
        notes.append(f"The memory bandwidth was not limited: {entry.kind} ran with all of it.")
    if point.get("power_limit_w") is not None:
        fields["power_limit_w"] = None
        notes.append("The power was not limited: %s ran in the power mode of the board." % entry.kind)
    if point.get("compensation", "none") != "none":
        fields["compensation"] = "none"
        notes.append(
            f"compensation {point['compensation']} was not applied: {entry.kind} runs its weights as they are."
        )
    for name in (name for name, none in UNSET.items() if point.get(name, none) != none):
        fields[name] = UNSET[name]
        notes.append(f"{name} {point[name]} was not applied: {entry.kind} has no such setting.")
    for name in ("weights", "kv"):
        told, stated, wanted = one_line(known.get(name) or ""), getattr(entry, name), point.get(name)
        actual = (stated or told) if told.lower().startswith("unknown") else (told or stated)
        if not actual:
            notes.append(
                f"{entry.kind} does not tell its {name} format: {wanted} is what was asked for, not what was seen."
            )
        elif actual.lower() != wanted:
            fields[name] = actual
    return fields, notes
