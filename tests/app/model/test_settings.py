"""What is remembered between two starts, and that no file can keep the program from starting."""

import json
import os
from pathlib import Path

import pytest

from app.library.files import FileError
from app.library.limits import Limits
from app.model.settings import Settings, apply, capture, load_settings, save_settings, settings_file
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint


@pytest.fixture
def store(qapp):
    return Store(load_catalogue())


def test_the_store_is_where_it_was(store, tmp_path, qapp):
    store.set("point", OperatingPoint(board="rk3588", alpha=0.3, weights="int8"))
    store.set("limits", Limits(0.01, 15.0, 0.97, 2.0, 64.0, 5.0))
    store.set("axis", "point.context")
    store.set("theme", "light")
    store.set("auto_measure", False)
    settings = Settings(geometry="AAAA", docks="BBBB")
    settings.add_recent(Path("/a/edge.json"))
    store.set("preset", settings.preset)
    capture(settings, store)
    save_settings(tmp_path / "settings.json", settings)
    loaded, notes = load_settings(tmp_path / "settings.json")
    again = Store(load_catalogue())
    assert notes == []
    assert apply(loaded, again) == []
    assert again.point == store.point
    assert again.limits == store.limits
    assert [again.get(p) for p in ("axis", "theme", "auto_measure", "preset")] == [
        "point.context",
        "light",
        False,
        "/a/edge.json",
    ]
    assert (loaded.geometry, loaded.docks, loaded.recent) == ("AAAA", "BBBB", ["/a/edge.json"])


def test_ten_recent_presets_the_last_first_each_once():
    settings = Settings()
    for i in (*range(12), 5):
        settings.add_recent(Path(f"/p/{i}.json"))
    assert len(settings.recent) == 10
    assert settings.recent[0] == settings.preset == "/p/5.json"
    assert len(set(settings.recent)) == 10


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 99}', '{"version": 1, "theme": 5}', '{"version": 1, "point": {"alpha": 1}}']
)
def test_an_unreadable_file_is_kept_aside_and_the_defaults_are_used(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_text(content)
    settings, notes = load_settings(path)
    assert settings == Settings()
    assert len(notes) == 1
    assert notes[0].endswith("it was kept as settings.unreadable.json")
    assert (tmp_path / "settings.unreadable.json").read_text() == content
    assert not path.exists()


def test_the_generation_before_is_used_when_the_last_is_unreadable(tmp_path):
    path = tmp_path / "settings.json"
    save_settings(path, Settings(theme="light"))
    save_settings(path, Settings(theme="dark"))
    path.write_bytes(path.read_bytes()[:40])
    settings, notes = load_settings(path)
    assert settings.theme == "light"
    assert len(notes) == 1


def test_saving_what_is_there_keeps_the_generation_before(tmp_path):
    path = tmp_path / "settings.json"
    for theme in ("light", "dark", "dark"):
        save_settings(path, Settings(theme=theme))
    assert json.loads((tmp_path / "settings.before.json").read_text())["theme"] == "light"


def test_a_point_that_no_longer_holds_is_left_out_in_words(store):
    settings = Settings()
    capture(settings, store)
    settings.point.board = "sold"
    settings.theme = "pink"
    notes = apply(settings, store)
    assert store.point.board == "this"
    assert [note.split(":")[0] for note in notes] == ["Setting not restored"] * 2


def test_a_disk_that_refuses_is_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "settings.json"
    save_settings(path, Settings(theme="light"))

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FileError, match="no space left on device"):
        save_settings(path, Settings(theme="dark"))
    monkeypatch.undo()
    assert load_settings(path)[0].theme == "light"


def test_the_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    assert settings_file() == tmp_path / "settings.json"
