"""Whether Qt can start here and with what: a display, a PySide6 that does not abort, and what is imported before it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from app import CHECKOUT

WITHOUT_QT = (
    "numpy",
    "app.client.blocking_session",
    "app.client.target",
    "core.catalogue.load",
    "app.library.prediction_curves",
    "app.library.measurements",
    "app.text.quantities",
)
"""What the dashboard imports before Qt; none of it imports Qt itself."""

WITHOUT_DISPLAY = (
    "without one use: trilemma predict, trilemma measure, trilemma calibrate, or trilemma gui --screenshot FILE"
)


QT_LIBRARIES = "libegl1 libgl1 libxkbcommon0 libfontconfig1 libdbus-1-3 libxkbcommon-x11-0 libxcb-cursor0"
"""Debian packages of what Qt most often lacks; ``packaging/system-libraries.sh`` has all of them."""


class CannotStart(Exception):
    """The dashboard cannot run here; the message is one sentence saying why and what does."""


def check_platform(*, headless: bool) -> None:
    """Make Qt able to start: no screen is needed when `headless`.

    Raises
    ------
    CannotStart
        There is no display, Qt does not load, or this PySide6 loses references.
    """
    if not os.environ.get("QT_QPA_PLATFORM") and not _has_display():
        if not headless:
            raise CannotStart(f"there is no display; {WITHOUT_DISPLAY}")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    import_before_qt()
    try:
        import PySide6
        import PySide6.QtWidgets
    except ImportError as error:
        raise CannotStart(f"Qt does not load: {error}; {_remedy(error)}") from error
    refuse_losing_references(PySide6.__version__, sys.version_info[:2])


def _remedy(error: ImportError) -> str:
    """Return what the user can type where Qt does not load."""
    if CHECKOUT:
        return "make run installs what is missing"
    if isinstance(error, ModuleNotFoundError):
        return "pip install PySide6-Essentials installs it"
    return f"a library of the system is missing; on Debian and Ubuntu type apt-get install {QT_LIBRARIES}"


def refuse_losing_references(pyside: str, python: tuple[int, int]) -> None:
    """Refuse the PySide6 that loses one reference to None per call, which aborts a live window.

    Raises
    ------
    CannotStart
        It is PySide6 6.12.0 below Python 3.12, where None is not immortal.
    """
    if pyside.startswith("6.12.0") and python < (3, 12):
        raise CannotStart(
            f"PySide6 {pyside} on Python {python[0]}.{python[1]} aborts a live window after about 100 frames; "
            f"install PySide6-Essentials>=6.8,<6.12"
        )


def _has_display() -> bool:
    if sys.platform != "linux" or os.environ.get("WAYLAND_DISPLAY"):
        return True
    display = os.environ.get("DISPLAY", "")
    if display.startswith(":"):  # a local server that is gone would make Qt abort
        return Path(f"/tmp/.X11-unix/X{display[1:].split('.')[0]}").exists()
    return bool(display)


def take_remarks() -> None:
    """Print Qt's remarks, but not the one its offscreen platform makes for every window that is resized.

    Qt aborts the process where it cannot open a display; end with one sentence instead.
    """
    from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

    def say(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        if kind == QtMsgType.QtFatalMsg:
            print(f"trilemma gui: the display cannot be opened; {WITHOUT_DISPLAY}", file=sys.stderr, flush=True)
            os._exit(2)  # returning would let Qt abort
        if "propagateSizeHints" not in text:
            print(text, file=sys.stderr)

    qInstallMessageHandler(say)


def import_before_qt() -> None:
    """Import what does not need Qt: once it is there, it reads the source of every module imported after it.

    numpy comes without a pool of threads: the dashboard's matrices are small, and the cores are the board's.
    """
    name = "OPENBLAS_NUM_THREADS"
    given = os.environ.get(name)
    os.environ.setdefault(name, "1")
    for module in WITHOUT_QT:
        importlib.import_module(module)
    if given is None:
        del os.environ[name]  # the board's own processes decide for themselves
