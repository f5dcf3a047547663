"""The export dialogs."""

import json

from PySide6.QtWidgets import QDialog

from app.model.export import json_export, runtime_export, save_export
from app.views.panels.export import RuntimeExportDialog


def shown(window, monkeypatch, action):
    dialogs = []
    monkeypatch.setattr(
        "app.views.panels.export.ExportDialog.exec", lambda self: dialogs.append(self) or QDialog.DialogCode.Rejected
    )
    window.actions_[action].trigger()
    return dialogs[0]


def test_a_runtime_without_settings_says_so_and_offers_the_others(window, monkeypatch):
    dialog = shown(window, monkeypatch, "export.runtime")
    assert isinstance(dialog, RuntimeExportDialog)
    assert dialog.text.toPlainText() == ""
    assert "has no settings file" in dialog.left_out.text()
    dialog.writer.setCurrentIndex(dialog.writer.findData("ollama"))
    assert dialog.text.toPlainText().startswith("FROM ./smollm2-135m")


def test_the_first_settings_are_of_the_point_s_runtime_with_what_they_cannot_express(window, monkeypatch):
    window._store.set("point.board", "rk3588")
    window._store.set("point.alpha", 0.5)
    dialog = shown(window, monkeypatch, "export.runtime")
    assert dialog.writer.currentData() == "rkllm"
    assert "target_platform='rk3588'" in dialog.text.toPlainText()
    assert "KV prune rate 0.5" in dialog.left_out.text()


def test_json_takes_everything(window, tmp_path):
    window._store.set("point.alpha", 0.5)
    export = json_export(window._store)
    save_export(tmp_path / export.file, export)
    document = json.loads((tmp_path / "export.json").read_text())
    assert (document["format"], document["point"]["alpha"], export.not_taken) == ("trilemma-export", 0.5, ())


def test_a_saved_command_line_says_above_it_what_is_not_expressed(window, tmp_path):
    window._store.set("point.alpha", 0.5)
    export = runtime_export(window._store, "llama-server")
    save_export(tmp_path / "run.sh", export)
    lines = (tmp_path / "run.sh").read_text().splitlines()
    assert lines[-1] == export.text
    assert [line.removeprefix("# not expressed: ") for line in lines[:-1]] == list(export.not_taken)
