"""The sentence on top: what limits this operating point and what to change; and the numbers it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from app.library.axes import SLIDERS
from app.model.explained import evidence, explained
from app.model.followed import brief_warning
from app.model.store import Store
from app.text.explain import ranked, rich
from app.text.format import at_most_text, change_text, exact_text, quantity_text
from app.text.names import PARTS
from app.views.panels.palette import plain
from app.views.widgets.common import Card, label, set_text, set_tip
from app.views.widgets.theme import PADDING
from core.spec import Estimate

_PACE_MS = 150  # the sentence follows a drag at this pace


class Headline(Card):
    """One sentence and the button that explains it."""

    def __init__(self, store: Store, why: QAction) -> None:
        super().__init__()
        self.setObjectName("headline")
        self._store = store
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setTextFormat(Qt.TextFormat.RichText)
        self.sentence.setAccessibleName("Bottleneck of this operating point")
        self.sentence.setMinimumHeight(50)  # three lines: the plots below must not jump
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        button = QPushButton(plain(why))
        button.setObjectName("why.button")
        button.setAccessibleName("Why: the numbers behind the verdict")
        button.clicked.connect(why.trigger)
        line = QHBoxLayout()
        line.setSpacing(PADDING)
        line.addWidget(self.sentence, 1)
        line.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.body.addLayout(line)
        self._later = QTimer(self, singleShot=True, interval=_PACE_MS)
        self._later.timeout.connect(self.refresh)
        store.changed.connect(self._on_changed)
        self.refresh()

    def _on_changed(self, path: str) -> None:
        if (
            path in ("prediction", "measurements", "calibration", "sustained") or path.startswith("limits.")
        ) and not self._later.isActive():
            self._later.start()

    def refresh(self) -> None:
        """Show the current verdict."""
        said = brief_warning(self._store)
        set_text(self.sentence, rich(explained(self._store)) + (f" <b>{escape(said)}</b>" if said else ""))
        set_tip(self.sentence, evidence(self._store))


class Why(QDialog):
    """The numbers behind the verdict: where the time goes, what each change would do, what each slider does."""

    def __init__(self, store: Store, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Why")
        self.setObjectName("why")
        self.resize(640, 620)
        text = QTextBrowser()
        text.setAccessibleName("The numbers behind the verdict")
        text.setHtml(why_html(store))
        text.setFrameShape(QTextBrowser.Shape.NoFrame)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(text, 1)
        layout.addWidget(buttons)


def why_html(store: Store) -> str:
    """Return the explanation as a page."""
    prediction = store.prediction
    if not isinstance(prediction.decode_s, Estimate):
        return f"<p>{escape(prediction.decode_s.reason)}</p>"
    now, verdict = float(prediction.decode_s.median), explained(store)
    parts = [
        (PARTS[key], quantity_text(value, "s"), f"{100 * share:.0f} %") for key, value, share in ranked(verdict.parts_s)
    ]
    steps = [
        (
            change.step.text,
            quantity_text(now * (1.0 + change.decode_frac), "s"),
            change_text(now * change.decode_frac, "s", like=now),
            "not predicted" if change.top1_difference is None else change_text(change.top1_difference, "frac"),
        )
        for change in verdict.changes
    ]
    blocks = [
        f"<p>{rich(verdict)}</p>",
        f"<p>Decode time per token: {quantity_text(now, 's')}, {escape(evidence(store))}.</p>",
        "<h4>Time by cost</h4>",
        _table(("part", "time", "share"), parts),
        "<p>Time is the larger of memory (reading and unpacking) and arithmetic, plus the cost per layer and "
        "per token; only the larger is shown.</p>",
        "<h4>Effect of one change</h4>",
        _table(("change", "latency", "difference", "top-1 agreement"), steps),
        "<h4>Effect of each slider</h4>",
        _table(("slider", "step", "latency", "power", "top-1 agreement"), _sensitivity_rows(store, now)),
        f"<p>{escape(_mark_text(store))}</p>",
        *(f"<p>Outside the valid range of the model: {escape(text)}</p>" for text in prediction.outside),
    ]
    return "".join(blocks)


def _sensitivity_rows(store: Store, now: float) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for path in SLIDERS:
        step = store.sensitivities[path]
        if not step.binding:
            rows.append((step.axis.label, "", "not binding here", "", ""))
            continue
        rows.append(
            (
                step.axis.label,
                f"+{exact_text(step.axis.step, step.axis.unit)}",
                "–" if step.decode_s is None else change_text(step.decode_s, "s", like=now),
                "–" if step.power_w is None else change_text(step.power_w, "W"),
                "–" if step.top1_agreement is None else change_text(step.top1_agreement, "frac"),
            )
        )
    return rows


def _mark_text(store: Store) -> str:
    mark = store.r_max
    at = "" if mark.alpha is None else f" (α {at_most_text(mark.alpha, 2)})"
    return f"{mark.text}{at}."


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f"<th align='left'>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table cellspacing='0' cellpadding='4'><tr>{top}</tr>{body}</table>"
