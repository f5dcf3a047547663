"""The curves as a table."""

from dataclasses import replace

from PySide6.QtGui import QGuiApplication

from app.text.quantities import LATENCY, WORDS
from app.views.panels.table import CurveTable, curve_table


def test_the_curves_are_there_as_a_table(store, qtbot, qapp):
    head, rows = curve_table(store, 5)
    _, prediction = store.curve(5)
    assert head[0] == "KV prune rate α"
    assert head[1] == f"Latency per token, {WORDS[prediction.decode_s.provenance]}"
    assert len(rows) == 5
    assert rows[0][1] == str(
        LATENCY.text(
            replace(
                prediction.decode_s,
                median=prediction.decode_s.median[0],
                q05=prediction.decode_s.q05[0],
                q95=prediction.decode_s.q95[0],
            )
        )
    )
    dialog = CurveTable(store, None)
    qtbot.addWidget(dialog)
    dialog.copy()
    assert QGuiApplication.clipboard().text().count("\t") == 4 * 22
