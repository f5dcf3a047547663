"""The pruning view: what pruning the cache keeps of the attention, what it saves, and what it costs in agreement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtGui import QUndoStack

from app.library.attention import RetainedMass, nearest
from app.library.axes import POLICY_NAMES
from app.library.prediction_curves import DROPPED_MASS
from app.model.store import Store
from app.text.chart import Chart, Points, Rule, Series
from app.text.format import at_most_text, number_text
from app.text.quantities import WORDS
from app.text.r_max import bounds_text, knee_text
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, label, set_text
from app.views.widgets.page import CardGrid, Page
from app.views.widgets.theme import Theme
from core.physics.pruning import zipf_retained_mass
from core.physics.quality import RETRIEVAL, RETRIEVAL_ALPHA, retrieval_score
from core.spec import LAYOUTS, POLICIES, Absent, Estimate, Provenance

_PACE_MS = 80
_N = 77
_COLORS = ("accent", "ok", "published", "measured", "text")


class Pruning(Page):
    """Retained mass, saved time, lost agreement and lost retrieval over the prune rate."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store = store
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Limit of pruning")
        self.mass = ChartCard(theme, "pruning.mass", "Attention mass kept")
        self.time = ChartCard(theme, "pruning.time", "Latency by layout")
        self.agreement = ChartCard(theme, "pruning.agreement", "Agreement by policy")
        self.retrieval = ChartCard(theme, "pruning.retrieval", "Retrieval by policy")
        self.bounds = label("", "dim", wrap=True, selectable=True)
        self.bounds.setAccessibleName("Bounds by sparsity and entropy")
        cards = [self.mass, self.time, self.agreement, self.retrieval]
        for card in cards:
            card.setMinimumHeight(230)
        top = Card()
        top.body.addWidget(self.sentence)
        top.body.addWidget(self.bounds)
        super().__init__("pruning", "Pruning", [top, CardGrid(cards)])
        self.follow(store, _concerns, self.refresh, _PACE_MS)

    def refresh(self) -> None:
        """Show the current point."""
        mark = self._store.r_max
        at = "" if mark.alpha is None else f" (α {at_most_text(mark.alpha, 2)})"
        set_text(self.sentence, f"{mark.text}{at}.")
        swept = self._store.dots("perplexity_ratio", "point.alpha")
        knee = knee_text(swept.x, swept.median) if len(np.unique(swept.x)) > 1 else ""
        set_text(self.bounds, f"{bounds_text(self._known())} {knee}".strip())
        self.mass.show_chart(self._mass_chart())
        self.time.show_chart(self._curves("layout", LAYOUTS, {key: key for key in LAYOUTS}, "decode_s"))
        self.agreement.show_chart(self._curves("policy", POLICIES, POLICY_NAMES, "top1_agreement"))
        self.retrieval.show_chart(self._retrieval_chart())

    def _known(self) -> RetainedMass | None:
        return nearest([*self._store.elsewhere, *self._store.measurements], self._store.point)

    def _rules(self) -> tuple[Rule, ...]:
        mark = self._store.r_max.alpha
        here = Rule("x", float(self._store.point.alpha), "", "text")
        return (here,) if mark is None else (here, Rule("x", mark, "r_max", "bad"))

    def _mass_chart(self) -> Chart:
        """Return the mass that the heaviest tokens hold: where it falls as a power of its rank, and as measured."""
        n = round(float(self._store.point.context_tokens))
        alpha = np.linspace(0.0, 0.95, _N)
        kept = np.maximum(np.round(n * (1 - alpha)), 1.0)
        mass = np.asarray(zipf_retained_mass(n, kept))
        here = float(np.interp(float(self._store.point.alpha), alpha, mass))
        known = self._known()
        bounds = None if known is None else known.bounds(DROPPED_MASS)
        rules = self._rules()
        if bounds is not None:
            rules = (*rules, Rule("x", bounds.as_published, WORDS[Provenance.AS_PUBLISHED], "published"))
        dots, measured = tuple[Points, ...](), ""
        if known is not None:
            dots = (Points(1 - np.array(known.keep_shares), np.array(known.retained_mass), "measured"),)
            measured = f"; dots: measured on this model at {known.n_tokens} tokens"
        return Chart(
            "Attention mass kept",
            ("prune rate α", "1"),
            ("mass", "frac"),
            series=(
                Series(alpha, mass, Provenance.PREDICTED, "heaviest tokens"),
                Series(alpha, 1 - alpha, Provenance.PREDICTED, "any tokens", "dim"),
            ),
            rules=rules,
            points=dots,
            x_range=(-0.01, 0.96),
            y_range=(0.0, 1.04),
            wash_from=self._store.r_max.alpha,
            description=f"At this rate the tokens kept hold {100 * here:.1f} % of the mass, if it falls as a power of "
            f"its rank; grey: tokens kept at random{measured}.",
        )

    def _retrieval_chart(self) -> Chart:
        """Return retrieval scores after pruning: of the policy, and of the best one."""
        alpha, here, series = np.linspace(0.0, RETRIEVAL_ALPHA, _N), self._store.point.policy, list[Series]()
        for key in (key for key in dict.fromkeys((here, "expected_attention")) if key in RETRIEVAL):
            found = retrieval_score(alpha, key)
            band = (np.asarray(found.q05), np.asarray(found.q95)) if key == here else (None, None)
            color = "accent" if key == here else "dim"
            series.append(
                Series(alpha, np.asarray(found.median), Provenance.PREDICTED, POLICY_NAMES[key], color, *band)
            )
        half = {POLICY_NAMES[key]: float(retrieval_score(0.5, key).median) for key in POLICIES if key in RETRIEVAL}
        scores = "; ".join(f"{name} {100 * score:.0f} %" for name, score in half.items())
        missing = "" if here in RETRIEVAL else f" No published table has {POLICY_NAMES[here]}."
        return Chart(
            "Retrieval by policy",
            ("prune rate α", "1"),
            ("score", "frac"),
            series=tuple(series),
            rules=self._rules(),
            x_range=(-0.01, 0.96),
            y_range=(0.0, 1.04),
            wash_from=self._store.r_max.alpha,
            description="Pruning harms retrieval from a long text far sooner than next-token accuracy. Retrieval "
            f"score at α 0.5, relative to the full cache: {scores}.{missing}",
        )

    def _curves(self, name: str, keys: tuple[str, ...], words: dict[str, str], output: str) -> Chart:
        """Return one curve over alpha for each layout or policy, with a band of agreement for the one in force."""
        store, series = self._store, list[Series]()
        unit, title = ("s", "latency") if output == "decode_s" else ("frac", "top-1 agreement")
        axes = (("prune rate α", "1"), (title, unit))
        for key in keys:
            point = replace(store.point, **{name: key})  # type: ignore[arg-type]
            x, said = store.curve(_N, "point.alpha", point)
            value = getattr(said, output)
            if isinstance(value, Absent):
                return Chart(title, *axes, message=f"Not predicted: {value.reason}")
            assert isinstance(value, Estimate)
            median = np.broadcast_to(np.asarray(value.median, dtype=float), x.shape)
            same = next((i for i, line in enumerate(series) if np.allclose(line.y, median, rtol=1e-6)), None)
            if same is None:
                same, color = len(series), _COLORS[len(series) % len(_COLORS)]
                series.append(Series(x, median, value.provenance, words[key], color))
            else:
                series[same] = replace(series[same], name=f"{series[same].name}, {words[key]}")
            if unit == "frac" and key == getattr(store.point, name):
                low, high = (np.broadcast_to(np.asarray(q, dtype=float), x.shape) for q in (value.q05, value.q95))
                series[same] = replace(series[same], low=low, high=high)
        least = min(float((s.y if s.low is None else s.low).min()) for s in series)
        most = max(float((s.y if s.high is None else s.high).max()) for s in series)
        margin = max(0.12 * (most - least), 0.02 * most)
        limit = store.limits.latency_s if output == "decode_s" else store.limits.top1_agreement
        rules = self._rules() if limit is None else (*self._rules(), Rule("y", limit, "limit", "bad"))
        ends = "; ".join(f"{s.name} {number_text(float(s.y[-1] / s.y[0]), 2)} times its value unpruned" for s in series)
        return Chart(
            title,
            *axes,
            series=tuple(series),
            rules=rules,
            x_range=(-0.01, 0.96),
            y_range=(least - margin, min(most + margin, 1.02) if unit == "frac" else most + margin),
            wash_from=store.r_max.alpha,
            description=f"At α 0.95: {ends}.",
        )


def _concerns(path: str) -> bool:
    return path == "prediction" or path.startswith("limits.")
