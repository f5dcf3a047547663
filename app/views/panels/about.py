"""About: version, system, and the folders of data and settings."""

from __future__ import annotations

import platform

from PySide6 import __version__ as pyside_version
from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.library.files import data_dir
from app.model.settings import settings_file

ABOUT = "Latency, power and accuracy of a language model on an edge board, predicted and measured."


def about_text() -> str:
    """Return all of it as text, to read out or to paste into a report."""
    return "\n".join(
        (
            f"Trilemma {QApplication.applicationVersion()}",
            "",
            ABOUT,
            "",
            f"Python {platform.python_version()} · Qt {qVersion()} · PySide6 {pyside_version} · {platform.platform()}",
            f"Measurements and calibrations: {data_dir()}",
            f"Settings: {settings_file()}",
            "",
            "Apache License 2.0",
        )
    )


def show_about(parent: QWidget) -> None:
    """Show it in a box whose text can be selected."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, "About Trilemma", about_text(), QMessageBox.StandardButton.Ok, parent)
    box.setObjectName("about")
    box.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    box.exec()
