"""Garbage with Qt's objects in it is collected in Qt's thread."""

import gc
import threading

import pytest
from PySide6.QtCore import QObject

from app.views.widgets.qt_garbage import collect_in_this_thread


@pytest.fixture(autouse=True)
def as_before():
    yield
    gc.disable()  # as tests/conftest.py has it


def test_garbage_made_in_any_thread_is_destroyed_in_qt_s(qtbot):
    destroyed = []

    def litter():
        for _ in range(3000):
            ring = []
            ring.append(ring)
        gone = Ring()
        gone.itself = gone

    class Ring(QObject):
        def __del__(self):
            destroyed.append(threading.current_thread())

    gc.enable()
    parent = QObject()
    collect_in_this_thread(parent)
    assert not gc.isenabled()
    thread = threading.Thread(target=litter)
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: bool(destroyed))
    assert destroyed == [threading.main_thread()]
