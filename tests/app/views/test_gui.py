"""The dashboard as a program: how it starts, refuses to start, takes its picture and remembers."""

import json
import os
import struct
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.cli.bench.start import measure_start
from app.gui import Dashboard, Options, _keep_settings, wait
from app.library.limits import Limits
from app.model.explained import explained
from app.model.store import Store
from app.qt_platform import CannotStart, _remedy, check_platform, refuse_losing_references
from app.text.explain import rich
from app.views.widgets.curve_plot import CurvePlot


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def command(*words, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run(
        [sys.executable, str(LAUNCHER), *words],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("pyside", "python", "refused"),
    [
        ("6.12.0", (3, 11), True),
        ("6.12.0", (3, 12), False),
        ("6.11.3", (3, 11), False),
        ("6.12.1", (3, 11), False),
    ],
)
def test_the_pyside_that_loses_references_is_refused(pyside, python, refused):
    if refused:
        with pytest.raises(CannotStart, match="aborts a live window"):
            refuse_losing_references(pyside, python)
    else:
        refuse_losing_references(pyside, python)


@pytest.mark.parametrize(
    ("checkout", "error", "typed"),
    [
        (True, ImportError("libEGL.so.1"), "make run"),
        (False, ImportError("libEGL.so.1"), "apt-get install libegl1 "),
        (False, ModuleNotFoundError("PySide6"), "pip install PySide6-Essentials"),
    ],
)
def test_where_qt_does_not_load_it_says_what_can_be_typed(checkout, error, typed, monkeypatch):
    monkeypatch.setattr("app.qt_platform.CHECKOUT", checkout)
    monkeypatch.setitem(sys.modules, "PySide6", None)
    monkeypatch.setattr("app.qt_platform.import_before_qt", lambda: None)
    assert typed in _remedy(error)
    with pytest.raises(CannotStart, match="Qt does not load: .*" + ("make run" if checkout else "pip install")):
        check_platform(headless=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be without a display server")
@pytest.mark.parametrize("display", ["", ":987"])
def test_without_a_display_it_says_what_works_without_one(display):
    done = command("gui", QT_QPA_PLATFORM="", DISPLAY=display)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for headless in ("trilemma predict", "trilemma measure", "trilemma calibrate", "gui --screenshot FILE"):
        assert headless in done.stderr


def test_a_display_that_does_not_answer_is_a_sentence_not_an_abort():
    done = command("gui", QT_QPA_PLATFORM="nonsense")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("trilemma gui: the display cannot be opened; without one use: ")


def test_a_picture_needs_no_display(monkeypatch):
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    monkeypatch.setattr("app.qt_platform._has_display", lambda: False)
    check_platform(headless=True)
    assert os.environ["QT_QPA_PLATFORM"] == "offscreen"
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")


def test_the_picture_is_the_window(folder):
    path = folder / "window.png"
    done = command(
        "gui", "--screenshot", str(path), "--seconds", "0.5", "--size", "1100x700", "--theme", "light", "--json",
        QT_QPA_PLATFORM="",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"screenshot": str(path)}
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1100, 700)
    assert len(content) > 20000  # a flat image would be a tenth of it


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seconds", "3"), "--seconds requires --screenshot FILE"),
        (("--screenshot", "x.png", "--seconds", "soon"), "'soon': expected a number of seconds, 0 to 3600"),
        (("--size", "big"), "'big': expected WIDTHxHEIGHT in pixels"),
        (("--size", "100x100"), "'100x100': expected WIDTHxHEIGHT in pixels"),
        (("--theme", "pink"), "invalid choice: 'pink'"),
        (("--screenshot", "x.png", "--preset", "/nowhere/p.json"), "/nowhere/p.json: cannot be read: no such file"),
        (("--screenshot", "/nowhere/here/x.png", "--seconds", "0"), "/nowhere/here/x.png: cannot be saved: "),
    ],
)
def test_what_is_asked_for_wrongly_is_one_sentence(words, sentence, folder):
    if words[1].startswith("/nowhere"):
        (folder / "file").write_text("not a folder")
        words = tuple(word.replace("/nowhere", str(folder / "file")) for word in words)
        sentence = sentence.replace("/nowhere", str(folder / "file"))
    done = command("gui", *words, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_window_is_painted_without_torch_pandas_and_scipy():
    found = measure_start(1)
    assert found["heavy_imports"] == []
    assert found["first_paint_cpu_s"]["median"] < found["curves_paint_cpu_s"]["median"]
    assert 0.05 < found["first_paint_cpu_s"]["median"] <= found["first_paint_wall_s"]["median"] * os.cpu_count()


def dashboard(qtbot, **options):
    made = Dashboard(Options(**options))
    qtbot.addWidget(made.window)
    return made


def test_it_opens_where_it_was_closed(qtbot, folder):
    first = dashboard(qtbot)
    save = _keep_settings(first)
    first.window.docks["log"].hide()
    first.store.set("point.alpha", 0.4)
    first.store.set("limits", Limits(0.01, None, 0.95))
    first.store.set("theme", "light")
    save()
    second = dashboard(qtbot)
    assert second.store.point == first.store.point
    assert second.store.limits == Limits(0.01, None, 0.95)
    assert second.store.axis == "point.alpha"
    assert second.theme.choice == "light"
    assert second.window.docks["log"].isHidden()
    assert not second.window.docks["board"].isHidden()


def test_settings_are_saved_soon_after_a_change(qtbot, folder):
    made = dashboard(qtbot)
    _keep_settings(made)
    made.store.set("point.alpha", 0.4)
    path = folder / "data" / "settings.json"
    qtbot.waitUntil(path.exists)
    assert json.loads(path.read_text())["point"]["alpha"] == 0.4


def test_settings_that_cannot_be_read_are_a_line_in_the_log(qtbot, folder):
    (folder / "data").mkdir()
    (folder / "data" / "settings.json").write_text("{broken")
    made = dashboard(qtbot)
    assert made.store.log[0].level == "warning"
    assert "settings.json: expected a JSON document" in made.store.log[0].text


def test_a_preset_named_on_the_command_line_is_opened(qtbot, folder):
    from app.model.presets import save_preset

    first = dashboard(qtbot)
    first.store.set("point.alpha", 0.7)
    save_preset(folder / "edge.json", first.store)
    first.store.set("point.alpha", 0.1)
    second = dashboard(qtbot, preset=folder / "edge.json")
    assert second.store.point.alpha == 0.7


def test_the_first_picture_is_already_of_the_preset_on_the_command_line(qtbot, folder):
    from app.model.presets import save_preset

    first = dashboard(qtbot)
    first.store.set("point.board", "raspberry_pi_5")
    first.store.set("point.context", 2048.0)
    save_preset(folder / "edge.json", first.store)
    shown = dashboard(qtbot, preset=folder / "edge.json").window
    assert shown.controls.choices["point.board"].currentData() == "raspberry_pi_5"
    said = shown.headline.sentence.text()
    assert said == rich(explained(first.store)) != rich(explained(Store(first.store.catalogue)))


@pytest.mark.parametrize("change", ["nothing", "the point", "the file"])
def test_the_last_preset_is_marked_when_it_is_no_longer_what_is_shown(qtbot, folder, change):
    from app.model.presets import save_preset

    path = folder / "edge.json"
    first = dashboard(qtbot)
    save = _keep_settings(first)
    save_preset(path, first.store)
    first.window.open_preset(path)
    if change == "the point":
        first.store.set("point.alpha", 0.3)
    elif change == "the file":
        path.unlink()
    save()
    second = dashboard(qtbot)
    assert second.store.get("preset") == str(path)
    assert second.stack.isClean() == (change == "nothing")
    said = [line.text for line in second.store.log if "edge.json" in line.text]
    assert len(said) == (change == "the file")


def test_waiting_ends_where_nothing_can_be_measured(qtbot, monkeypatch):
    monkeypatch.setattr("app.gui.SETTLED_AFTER_S", 0.0)
    made = dashboard(qtbot)
    made.store.set_link(state="attached", text="Attached.")
    made.store.set_machine("m", [], "This machine cannot measure: torch is not installed.")
    made.window.show()
    wait(made, None)  # returns soon, or the test times out
    assert made.store.calibration is None
    assert len(made.window.curves.findChildren(CurvePlot)) == 3  # and not before there is something to see


def test_what_is_imported_before_qt_does_not_import_it():
    program = (
        f"import sys; sys.path.insert(0, {str(LAUNCHER.parent)!r}); import trilemma\n"
        "from app.qt_platform import import_before_qt\n"
        "import_before_qt()\n"
        "assert 'numpy' in sys.modules and 'PySide6' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
