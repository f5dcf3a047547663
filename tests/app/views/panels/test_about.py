"""Versions and places."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QMessageBox,
)

from app.library.files import data_dir


def test_about_names_versions_and_where_things_are(window, monkeypatch):
    shown = []
    monkeypatch.setattr(QMessageBox, "exec", lambda box: shown.append(box))
    window.actions_["about"].trigger()
    assert str(data_dir()) in shown[0].text()
    assert "Qt 6" in shown[0].text()
    assert shown[0].textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
