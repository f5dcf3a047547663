"""The export dialog."""

from PySide6.QtWidgets import (
    QDialog,
)


def test_export_shows_what_the_runtime_cannot_take(window, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "app.views.panels.export.ExportDialog.exec", lambda self: shown.append(self) or QDialog.DialogCode.Rejected
    )
    window._store.set("point.alpha", 0.5)
    window.actions_["export.llama"].trigger()
    assert shown[0].text.toPlainText().startswith("llama-server")
