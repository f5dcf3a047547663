"""Presets as files: open, save, save as, recent, export. Errors are one sentence in a box; nothing is lost by them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QUndoStack
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFileDialog, QMessageBox, QPlainTextEdit, QVBoxLayout, QWidget

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
        self._show_export("Export as JSON", export.json_export(self._store), ".json")

    def export_llama_server(self) -> None:
        """Show the llama-server command line of the point, and what it cannot take."""
        made = export.llama_server_export(self._store.point, self._store.catalogue)
        self._show_export("Export for llama-server", made, ".sh")

    def _show_export(self, title: str, made: export.Export, suffix: str) -> None:
        dialog = ExportDialog(self._window, title, made)
        if dialog.exec() == QDialog.DialogCode.Accepted:
            name, _ = QFileDialog.getSaveFileName(self._window, title, str(Path(self._folder()) / f"export{suffix}"))
            if name:
                try:
                    export.save_export(Path(name), made)
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
    """An export as text, with one sentence for each value that the runtime cannot take."""

    def __init__(self, parent: QWidget, title: str, made: export.Export) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("export")
        self.resize(720, 420)
        self.text = QPlainTextEdit(made.text)
        self.text.setReadOnly(True)
        self.text.setProperty("role", "code")
        self.text.setAccessibleName(title)
        layout = QVBoxLayout(self)
        layout.addWidget(self.text, 1)
        if made.not_taken:
            layout.addWidget(label("Not supported by the runtime", "heading"))
        for sentence in made.not_taken:
            layout.addWidget(label(sentence, "secondary", wrap=True, selectable=True))
        buttons = QDialogButtonBox()
        save = buttons.addButton("Save…", QDialogButtonBox.ButtonRole.AcceptRole)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Close)
        save.clicked.connect(self.accept)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(made.text))
        buttons.rejected.connect(self.reject)
        self.text.setFocus(Qt.FocusReason.OtherFocusReason)
        layout.addWidget(buttons)
