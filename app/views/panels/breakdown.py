"""The breakdown view: what a token's time and energy go to, and where the point lies under the board's roofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QWidget

from app.model.breakdown import Roofline, reported_here, roofline, token_stages_s
from app.model.store import Store
from app.text.bar import Bar
from app.text.chart import Chart, Points, Rule, Series
from app.text.explain import ranked
from app.text.format import estimate_text, quantity_text
from app.text.names import PARTS
from app.text.quantities import WORDS
from app.views.widgets.bars import Bars
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, label, set_text
from app.views.widgets.page import CardGrid, Page
from app.views.widgets.theme import Theme
from core.physics.stages import binding_parts_s
from core.spec import Estimate, Provenance

_PACE_MS = 80
_STAGES = {
    "prompt_load_s": "prompt load",
    "kv_build_s": "KV build",
    "first_token_s": "first token",
    "decode_s": "streaming",
    "buffer_write_s": "buffer write",
    "protocol_s": "protocol",
    "peripheral_s": "peripheral interrupt",
}
"""The seven stages of a request, by the name that a measured span carries (`core.physics.pipeline`)."""


_TOKEN_STAGES = {
    "embedding_s": "embedding",
    "qkv_s": "query, key, value",
    "rope_and_write_s": "rotation, cache write",
    "attention_s": "attention",
    "out_s": "output projection",
    "mlp_s": "feed-forward",
    "head_s": "head",
    "rest_s": "the rest",
}
"""Stages of a token, all layers together, by the name a measurement gives them (`core.physics.stages`)."""


class Breakdown(Page):
    """Parts of a token, stages of a request, the roofline."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store = store
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Bottleneck of this point by cost")
        self.parts = Bars(theme, "Parts of a token's time", "breakdown.parts")
        self.stages = Bars(theme, "Stages of a request", "breakdown.stages")
        self.token = Bars(theme, "Stages of a token", "breakdown.token")
        self._stage_words, self._token_words = label("", "dim", wrap=True), label("", "dim", wrap=True)
        self.roofs = ChartCard(theme, "breakdown.roofline", "Roofline")
        self.roofs.setMinimumHeight(280)
        top = Card()
        top.body.addWidget(self.sentence)
        cards = [
            self._card("A token's time by cost", self.parts),
            self._card("Stages of a request", self.stages, self._stage_words),
            self._card("Stages of a token", self.token, self._token_words),
        ]
        grid = CardGrid(cards)
        super().__init__("breakdown", "Breakdown", [top, grid, self.roofs])
        self.follow(store, _concerns, self.refresh, _PACE_MS)

    def _card(self, title: str, bars: Bars, words: QWidget | None = None) -> Card:
        card = Card()
        card.body.addWidget(label(title, "heading"))
        card.body.addWidget(bars)
        if words is not None:
            card.body.addWidget(words)
        card.body.addStretch(1)
        return card

    def refresh(self) -> None:
        """Show the current point."""
        store = self._store
        prediction = store.prediction
        if not isinstance(prediction.decode_s, Estimate):
            set_text(self.sentence, f"There is no decode time: {prediction.decode_s.reason}.")
        else:
            e = prediction.decode_s
            took = estimate_text(float(e.median), float(e.q05), float(e.q95), "s")
            binds = " The power limit binds." if str(prediction.binding) == "power" else ""
            set_text(self.sentence, f"A token takes {took}, {WORDS[e.provenance]}.{binds}")
        origin = prediction.decode_s.provenance if isinstance(prediction.decode_s, Estimate) else Provenance.PREDICTED
        self.parts.show_bars(
            [
                Bar(PARTS[key], seconds, f"{quantity_text(seconds, 's')} · {100 * share:.0f} %", origin)
                for key, seconds, share in ranked(binding_parts_s(prediction))
            ]
        )
        self._show_stages()
        self.roofs.show_chart(
            roofline_chart(roofline(store.point, store.catalogue, store.posterior, prediction), origin)
        )

    def _show_stages(self) -> None:
        """Show the stages of the last measured request, else the two that are predicted."""
        store = self._store
        spans, request = reported_here(store, "spans"), reported_here(store, "request_stages_s")
        request = request if isinstance(request, Mapping) else {}
        known = {name: value for name, value in request.items() if isinstance(value, Mapping) and "median" in value}
        said = "KV build and first token are one forward pass and are not added twice."
        if spans:
            bars, told = stage_bars(spans), {span["stage"] for span in spans}
            said += f" Together {quantity_text(sum(bar.value for bar in bars), 's')}, end to end."
            within = {name: value for name, value in known.items() if name not in told}
            if within:
                names = " and ".join(_STAGES.get(name, name) for name in within)
                said += f" {names[0].upper()}{names[1:]} {'lie' if len(within) > 1 else 'lies'} within them"
                said += ", of all programs." if "peripheral_s" in within else "."
            bars += [_measured_bar(_STAGES.get(name, name), value) for name, value in within.items()]
            missing = [words for name, words in _STAGES.items() if name not in told | within.keys()]
        elif known:
            bars = [_measured_bar(_STAGES.get(name, name), value) for name, value in known.items()]
            missing = [words for name, words in _STAGES.items() if name not in known]
        else:
            bars = self._predicted_stages()
            missing = [w for name, w in _STAGES.items() if name not in ("first_token_s", "kv_build_s", "decode_s")]
        if missing:
            said += f" Not measured at this point: {', '.join(missing)}."
        self.stages.show_bars(bars)
        set_text(self._stage_words, said)
        self._show_token_stages()

    def _predicted_stages(self) -> list[Bar]:
        store = self._store
        pairs = (("KV build and first token", "ttft_s"), ("streaming, a token", "decode_s"))
        found = [(words, store.measured(name), getattr(store.prediction, name)) for words, name in pairs]
        best = [(words, a if isinstance(a, Estimate) else b) for words, a, b in found]
        return [
            Bar(words, float(output.median), quantity_text(float(output.median), "s"), output.provenance)
            for words, output in best
            if isinstance(output, Estimate)
        ]

    def _show_token_stages(self) -> None:
        """Show the stages of a token: as measured where they were, each with its prediction."""
        store, prediction = self._store, self._store.prediction
        measured = reported_here(store, "stages_s")
        measured = measured if isinstance(measured, Mapping) and "absent" not in measured else {}
        predicted = token_stages_s(store.point, store.catalogue, prediction)
        origin = prediction.decode_s.provenance if isinstance(prediction.decode_s, Estimate) else Provenance.PREDICTED
        bars = []
        for name, seconds in predicted.items():
            words = _TOKEN_STAGES.get(name, name)
            beside = f"{WORDS[origin]} {quantity_text(seconds, 's')}" if seconds else "predicted within the rest"
            if name in measured:
                bars.append(_measured_bar(words, measured[name], beside))
            else:
                bars.append(Bar(words, seconds, beside, origin))
        self.token.show_bars(bars)
        words = "" if measured else "Not measured at this point: the Board menu has a command for it."
        set_text(self._token_words, words)


def _measured_bar(words: str, value: Mapping[str, Any], beside: str = "") -> Bar:
    median = float(value["median"])
    text = quantity_text(median, "s")
    return Bar(words, median, f"{text} · {beside}" if beside else text, Provenance.MEASURED)


def stage_bars(spans: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """Return the measured stages of a request, in order; spans of one stage are added."""
    lengths: dict[str, float] = {}
    for span in spans:
        lengths[span["stage"]] = lengths.get(span["stage"], 0.0) + float(span["end_s"]) - float(span["start_s"])
    return [
        Bar(_STAGES.get(name, name), length, quantity_text(length, "s"), Provenance.MEASURED)
        for name, length in lengths.items()
    ]


def roofline_chart(found: Roofline, origin: Provenance) -> Chart:
    """Return the roofs with decode and prompt below them, on logarithmic axes."""
    intensities = [spot.op_per_byte for spot in found.spots] or [1.0]
    low, high = min(*intensities, 1.0) / 4, max(*intensities, found.ridge_op_per_byte or 1.0) * 4
    x = np.geomspace(low, high, 200)
    peak = x * found.bandwidth_byte_s
    reached = x * found.reached_byte_s
    if found.compute_op_s is not None:
        peak, reached = np.minimum(peak, found.compute_op_s), np.minimum(reached, found.compute_op_s)
    rules = () if found.ridge_op_per_byte is None else (Rule("x", found.ridge_op_per_byte, "ridge", "dim"),)
    speeds = [spot.op_s for spot in found.spots]
    bottom = min([float(reached[0]), *speeds]) / 2
    shares = [f"{spot.name} reaches {100 * spot.op_s / _roof(found, spot.op_per_byte):.0f} % of its roof"
              for spot in found.spots]  # fmt: skip
    return Chart(
        "Roofline",
        ("operations per byte", "op/byte"),
        ("speed", "op/s"),
        series=(Series(x, peak, Provenance.CALIBRATED, color="dim"), Series(x, reached, origin)),
        rules=rules,
        points=(
            Points(
                np.array(intensities if found.spots else []),
                np.array(speeds),
                "accent",
                size_px=9,
                names=tuple(spot.name for spot in found.spots),
            ),
        ),
        x_range=(low, high),
        y_range=(bottom, float(peak.max()) * 2),
        log=(True, True),
        description=f"Grey: peak; coloured: as reached in practice. {'; '.join(shares)}.",
    )


def _roof(found: Roofline, op_per_byte: float) -> float:
    memory = op_per_byte * found.bandwidth_byte_s
    return memory if found.compute_op_s is None else min(memory, found.compute_op_s)


def _concerns(path: str) -> bool:
    return path in ("prediction", "measurements")
