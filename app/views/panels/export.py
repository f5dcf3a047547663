"""Presets as files: open, save, save as, recent, export. Errors are one sentence in a box; nothing is lost by them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QUndoStack
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QMessageBox,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.library.files import FileError
from app.library.presets import open_preset
from app.model import export, presets
from app.model.commands import SetPoint
from app.model.settings import Settings
from app.model.store import Store
from app.views.widgets.common import label

SUFFIX = ".json"
_FILTER = "Trilemma presets (*.json)"


class Files(QObject):
    """Commands of the File menu."""

    recent_changed = Signal()

    def __init__(self, store: Store, stack: QUndoStack, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self._store, self._stack, self._settings, self._window = store, stack, settings, window
        self._document: Mapping[str, Any] | None = None

    def open(self, path: Path) -> None:
        """Open a preset as one step that can be undone.

        Raises
        ------
        FileError
            One sentence; nothing was changed.
        """
        preset = open_preset(path, self._store.catalogue)
        others = {"limits": preset.limits, "axis": preset.axis}
        self._stack.push(SetPoint(self._store, f"Open {path.name}", preset.point, others))
        for note in preset.notes:
            self._store.say("info", note)
        self._document = preset.document
        self._holds(path)

    def ask_open(self) -> None:
        """Ask for a preset and open it."""
        name, _ = QFileDialog.getOpenFileName(self._window, "Open preset", self._folder(), _FILTER)
        if name:
            self.try_open(Path(name))

    def try_open(self, path: Path) -> None:
        """Open a preset, or say in a box why not."""
        try:
            self.open(path)
        except FileError as error:
            self._refuse("The preset was not opened", error)

    def save(self) -> None:
        """Save to the preset's file; ask for one where there is none."""
        name = self._store.get("preset")
        if name:
            self._save(Path(name))
        else:
            self.ask_save()

    def ask_save(self) -> None:
        """Ask for a file and save to it."""
        point = self._store.point
        suggested = self._store.get("preset") or str(Path(self._folder()) / f"{point.model}-{point.weights}{SUFFIX}")
        name, _ = QFileDialog.getSaveFileName(self._window, "Save preset", suggested, _FILTER)
        if name:
            self._save(Path(name) if Path(name).suffix else Path(name).with_suffix(SUFFIX))

    def _save(self, path: Path) -> None:
        try:
            self._document = presets.save_preset(path, self._store, self._document)
        except FileError as error:
            self._refuse("The preset was not saved", error)
            return
        self._holds(path)
        self._store.say("info", f"Saved {path.name}.")

    def export_json(self) -> None:
        """Show the point with its numbers as JSON, to copy or save."""
        self._show_export(ExportDialog(self._window, "Export as JSON", export.json_export(self._store)))

    def export_runtime(self) -> None:
        """Show the settings of the point for its runtime, and what they cannot express; others can be chosen."""
        self._show_export(RuntimeExportDialog(self._window, self._store))

    def _show_export(self, dialog: ExportDialog) -> None:
        if dialog.exec() == QDialog.DialogCode.Accepted and dialog.made is not None:
            folder, title = Path(self._folder()), dialog.windowTitle()
            name, _ = QFileDialog.getSaveFileName(self._window, title, str(folder / dialog.made.file))
            if name:
                try:
                    export.save_export(Path(name), dialog.made)
                except FileError as error:
                    self._refuse("The export was not saved", error)

    def _holds(self, path: Path) -> None:
        self._store.set("preset", str(path))
        self._settings.add_recent(path)
        self._stack.setClean()
        self.recent_changed.emit()

    def _folder(self) -> str:
        name = self._store.get("preset")
        return str(Path(name).parent if name else Path.home())

    def _refuse(self, what: str, error: FileError) -> None:
        self._store.say("error", str(error))
        QMessageBox.warning(self._window, what, f"{what}: {error}")


class ExportDialog(QDialog):
    """An export as text, with one sentence for each value that is not in it."""

    def __init__(self, parent: QWidget, title: str, made: export.Export | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("export")
        self.resize(720, 460)
        self.made: export.Export | None = None
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setProperty("role", "code")
        self.text.setAccessibleName(title)
        self._heading = label("Not expressed", "heading")
        self.left_out = label("", "secondary", wrap=True, selectable=True)
        buttons = QDialogButtonBox()
        self._save = buttons.addButton("Save…", QDialogButtonBox.ButtonRole.AcceptRole)
        self._copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Close)
        self._save.clicked.connect(self.accept)
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        buttons.rejected.connect(self.reject)
        self._body = QVBoxLayout(self)
        self._body.addWidget(self.text, 1)
        self._body.addWidget(self._heading)
        self._body.addWidget(self.left_out)
        self._body.addWidget(buttons)
        self.text.setFocus(Qt.FocusReason.OtherFocusReason)
        if made is not None:
            self.show_export(made)

    def show_export(self, made: export.Export | None, reason: str = "") -> None:
        """Show an export, or the reason that there is none."""
        self.made = made
        sentences = (reason,) if made is None else made.not_taken
        self.text.setPlainText("" if made is None else made.text)
        self.left_out.setText("\n".join(sentences))
        self._heading.setVisible(made is not None and bool(sentences))
        self.left_out.setVisible(bool(sentences))
        for button in (self._save, self._copy):
            button.setEnabled(made is not None)


class RuntimeExportDialog(ExportDialog):
    """The settings of the store's point for a runtime that can be chosen; first for its own."""

    def __init__(self, parent: QWidget, store: Store) -> None:
        super().__init__(parent, "Export for a runtime")
        self._store = store
        self.writer = QComboBox()
        self.writer.setObjectName("export.runtime.writer")
        self.writer.setAccessibleName("Runtime")
        usual = export.usual_export(store)
        if not usual:
            self.writer.addItem("The runtime of the point", "")
        for key, name in export.runtime_exports():
            self.writer.addItem(name, key)
        self.writer.setCurrentIndex(self.writer.findData(usual))
        self._body.insertWidget(0, self.writer)
        self.writer.currentIndexChanged.connect(self._show_chosen)
        self._show_chosen()

    def _show_chosen(self) -> None:
        try:
            self.show_export(export.runtime_export(self._store, self.writer.currentData()))
        except ValueError as error:
            self.show_export(None, f"{str(error).removeprefix('settings: ')}.")
