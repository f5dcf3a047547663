"""A store, its undo stack and the theme, and the panels that most tests of the views show."""

import pytest
from PySide6.QtGui import QAction

from app.library.board_library import BoardLibrary
from app.model.commands import undo_stack
from app.model.conductor import Conductor
from app.model.settings import Settings
from app.model.store import Store
from app.views.main_window import MainWindow
from app.views.panels.controls import Controls
from app.views.panels.curves import Curves
from app.views.widgets.theme import Theme
from tests.app.views.parts import CATALOGUE, shown
from tests.app.views.silent_session import SilentSession


@pytest.fixture
def store(qapp):
    made = Store(CATALOGUE)
    made.set_machine("this test", [], "")
    made.set("point.context", 1024.0)
    made.set("point.alpha", 0.3)
    return made


@pytest.fixture(scope="module")
def theme(qapp):
    return Theme("dark")


@pytest.fixture
def stack(qapp):
    return undo_stack()


@pytest.fixture
def controls(qtbot, store, stack, theme):
    made = Controls(store, stack, theme, QAction("&Measure this point"), QAction("&Pin as A"))
    return shown(qtbot, made, (300, 900))


@pytest.fixture
def curves(qtbot, store, stack, theme):
    made = shown(qtbot, Curves(store, stack, theme), (900, 800))
    made.make_plots()
    return made


@pytest.fixture
def parts(qapp, theme, tmp_path):
    store = Store(CATALOGUE)
    sessions = []
    conductor = Conductor(
        store,
        lambda on_event: sessions.append(SilentSession(on_event)) or sessions[0],
        BoardLibrary(tmp_path, pytest.fail),
    )
    return store, undo_stack(), conductor, theme, Settings()


@pytest.fixture
def window(qtbot, parts):
    made = MainWindow(*parts)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    made.curves.make_plots()
    for page in made.centre.pages.values():
        page.fill()
    return made
