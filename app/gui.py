"""The dashboard put together: settings, store, session, conductor, window; then Qt runs it. Nothing is parsed here."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from app import VERSION, stopping
from app.qt_platform import CannotStart, check_platform, take_remarks

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget


HEAVY = ("torch", "pandas", "scipy", "core.calibrate.fit", "core.tables.as_points")
"""What the dashboard must not import before its window and its curves are painted."""

CALIBRATED_WITHIN_S = 120.0
"""How long a screenshot without ``--seconds`` waits for the calibration."""

SETTLED_AFTER_S = 2.5
"""And how long at least, once the plots are made: the sensors need a moment too."""

SAVE_AFTER_MS = 500


@dataclass(frozen=True)
class Options:
    """What the command line asks of the dashboard."""

    screenshot: Path | None = None
    seconds: float | None = None
    preset: Path | None = None
    size: tuple[int, int] | None = None
    theme: str | None = None
    attach: str = "this"
    ssh_config: Path | None = None
    board_as: str | None = None


class Dashboard:
    """Everything of one run, built and shown, not yet attached.

    Parameters
    ----------
    options : Options

    Raises
    ------
    FileError
        The preset cannot be opened.
    """

    def __init__(self, options: Options) -> None:
        from PySide6.QtWidgets import QApplication

        from app.client.target import open_target
        from app.library.board_library import BoardLibrary
        from app.library.files import data_dir
        from app.library.registry import with_known
        from app.model import settings as settings_
        from app.model.attached_board import show
        from app.model.boards import Boards, session_of
        from app.model.commands import undo_stack
        from app.model.conductor import Conductor
        from app.model.store import Store
        from app.views.main_window import MainWindow
        from app.views.widgets.theme import Theme
        from core.catalogue.load import load_catalogue

        take_remarks()
        self._target = options.attach
        self.application = QApplication.instance() or QApplication(["trilemma"])
        self.application.setApplicationName("trilemma")
        self.application.setApplicationVersion(VERSION)
        self.store = Store(load_catalogue())
        library = BoardLibrary(data_dir(), lambda sentence: self.store.say("warning", sentence))
        show(with_known(self.store.catalogue, library.boards()), self.store)
        self.settings, notes = settings_.load_settings(settings_.settings_file())
        notes += settings_.apply(self.settings, self.store)
        if options.theme:
            self.store.set("theme", options.theme)
        self.stack = undo_stack()
        notes += self._compare_with_preset()
        target = open_target("this")
        self.conductor = Conductor(self.store, session_of(target), library, target.name)
        self.conductor.wanted_sheet = options.board_as
        self.boards = Boards(self.conductor, self.settings, options.ssh_config)
        self.theme = Theme(self.store.get("theme"), sheet=False)
        self.window = MainWindow(
            self.store, self.stack, self.conductor, self.theme, self.settings, self.boards, options.preset
        )
        self.theme.apply()
        if options.size:
            self.window.resize(*options.size)
            if not self.settings.docks:
                self.window.reset_layout()
        for note in notes:
            self.store.say("warning", note)

    def _start_background(self) -> None:
        """Read the published rows once the curves are there that draw them; follow a limit on the sustained speed."""
        from app.library.table_points import shipped_rows
        from app.model.background import Background
        from app.model.published import Published
        from app.model.sustained import SustainedSpeed

        SustainedSpeed(self.store, self.window)
        store, work = self.store, Background(self.window)

        def show(published: Published) -> None:
            store.published = published
            store.changed.emit("published")

        self.window.curves.plotted.connect(lambda _: work.run(lambda: Published(shipped_rows(store.catalogue)), show))

    def _compare_with_preset(self) -> list[str]:
        """Mark the last preset as changed where it no longer holds what is on the screen; return what is to be said."""
        from app.library.files import FileError
        from app.library.presets import open_preset

        name = self.store.get("preset")
        if not name:
            return []
        try:
            preset = open_preset(Path(name), self.store.catalogue)
        except FileError as error:
            self.stack.resetClean()
            return [str(error)]
        if (preset.point, preset.limits) != (self.store.point, self.store.limits):
            self.stack.resetClean()
        return []

    def close(self) -> None:
        """Detach the board."""
        self.boards.close()
        self.conductor.stop()

    def attach(self) -> None:
        """Attach the board that was asked for.

        Raises
        ------
        CannotStart
            The target names none.
        """
        self._start_background()
        if self._target == "this":
            self.conductor.start()
        elif reason := self.boards.attach(self._target):
            raise CannotStart(reason.rstrip("."))


def open_dashboard(options: Options) -> Dashboard:
    """Check the platform and build the dashboard, without looking for garbage: what is made at the start stays.

    Raises
    ------
    CannotStart, FileError
        One sentence.
    """
    gc.disable()
    try:
        check_platform(headless=options.screenshot is not None)
        dashboard = Dashboard(options)
    except BaseException:
        gc.enable()
        raise
    gc.freeze()
    from app.views.widgets.qt_garbage import collect_in_this_thread

    collect_in_this_thread(dashboard.window)
    return dashboard


def run(options: Options) -> int:
    """Open the dashboard and return its exit status; with `options.screenshot`, save its picture and end.

    A signal ends the process at once until the window is shown, then Qt's loop and with it this function. No handler
    raises from here on: Qt dies of an exception in its hands, or drops it.

    Raises
    ------
    CannotStart, FileError
        One sentence.
    """
    stopping.handle(stopping.end_at_once)
    dashboard = open_dashboard(options)
    _report_mistakes(dashboard)
    dashboard.window.show()
    try:
        with _loops_ended_by_signals(dashboard) as came:
            if options.screenshot is not None:
                dashboard.attach()
                wait(dashboard, options.seconds)
            else:
                save = _keep_settings(dashboard)
                _when_painted(dashboard.window, dashboard.attach)
                dashboard.application.exec()
                save()
        if came:
            return stopping.stopped(came[0])
        if options.screenshot is not None:
            _save_picture(dashboard, options.screenshot)
        return 0
    finally:
        dashboard.close()


def _report_mistakes(dashboard: Dashboard) -> None:
    """Put an error that nothing caught into the log panel, beside its traceback on standard error."""

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        dashboard.store.say("error", f"Trilemma made a mistake: {kind.__name__}: {error}")

    sys.excepthook = report


@contextmanager
def _loops_ended_by_signals(dashboard: Dashboard) -> Iterator[list[int]]:
    """End all loops of Qt, those of dialogs too, at a signal, and the process at a second one.

    One that comes before a loop runs is heard in it: the byte that Python writes at every signal waits in a socket.

    Yields
    ------
    list of int
        The signal that came; empty while there was none.
    """
    from PySide6.QtCore import QSocketNotifier

    came: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if came:
            stopping.end_at_once(number)
        came.append(number)

    def end() -> None:
        read_end.recv(1)
        dashboard.application.exit()

    read_end, write_end = socket.socketpair()
    write_end.setblocking(False)
    notifier = QSocketNotifier(read_end.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(end)
    with closing(read_end), closing(write_end):
        before = signal.set_wakeup_fd(write_end.fileno(), warn_on_full_buffer=False)
        try:
            with stopping.handled(hear):
                yield came
        finally:
            signal.set_wakeup_fd(before)
            notifier.setEnabled(False)


def wait(dashboard: Dashboard, seconds: float | None) -> None:
    """Let the dashboard run: for `seconds`, or until it has calibrated itself and measured its point.

    It ends early, without `seconds`, where nothing can be measured here.
    """
    from PySide6.QtCore import QEventLoop, QTimer

    loop, store, began_s = QEventLoop(), dashboard.store, time.monotonic()
    curves = dashboard.window.curves

    def enough() -> None:
        passed_s = time.monotonic() - began_s
        if seconds is not None:
            done = passed_s >= seconds
        else:
            cannot = store.link.state == "attached" and bool(store.not_measured_here)
            calibrated = store.calibration is not None and store.activity.kind == "idle"
            drawn = curves.cards[-1].plot is not None or not curves.isVisible()
            settled = drawn and passed_s >= SETTLED_AFTER_S
            done = passed_s >= CALIBRATED_WITHIN_S or (settled and (cannot or calibrated))
        if done:
            loop.quit()

    ticks = QTimer(interval=100)
    ticks.timeout.connect(enough)
    ticks.start()
    loop.exec()
    ticks.stop()


def _save_picture(dashboard: Dashboard, path: Path) -> None:
    from PySide6.QtCore import QBuffer, QIODevice

    from app.library.files import write_whole

    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    dashboard.window.grab().save(buffer, "PNG")
    write_whole(path, bytes(buffer.data().data()))


def _when_painted(widget: QWidget, then: Callable[[], None]) -> None:
    """Call `then` once, after the widget's next paint and the window's with it."""
    from PySide6.QtCore import QEvent, QObject, QTimer

    class Watch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                widget.removeEventFilter(self)
                QTimer.singleShot(0, then)
            return False

    watch = Watch(widget)
    widget.installEventFilter(watch)


def _keep_settings(dashboard: Dashboard) -> Callable[[], None]:
    """Save the settings half a second after anything in them has changed, and when the function returned is called."""
    from PySide6.QtCore import QTimer

    from app.library.files import FileError
    from app.model import settings as settings_

    def save() -> None:
        settings_.capture(dashboard.settings, dashboard.store)
        dashboard.settings.geometry, dashboard.settings.docks = dashboard.window.layout_state()
        try:
            settings_.save_settings(settings_.settings_file(), dashboard.settings)
        except FileError as error:
            dashboard.store.say("error", str(error))

    def on_changed(path: str) -> None:
        if path.split(".")[0] in settings_.KEPT:
            timer.start()

    timer = QTimer(dashboard.window, interval=SAVE_AFTER_MS, singleShot=True)
    timer.timeout.connect(save)
    dashboard.store.changed.connect(on_changed)
    dashboard.window.layout_changed.connect(timer.start)
    dashboard.boards.changed.connect(timer.start)
    return save


def first_paint() -> dict[str, Any]:
    """Show the dashboard as at any start, and return what its first painted window cost.

    Returns
    -------
    dict
        ``cpu_s`` of this process since it began and ``at_s`` on the system's monotonic clock; ``curves_cpu_s`` and
        ``curves_at_s`` when the curves are painted too; ``heavy_imports`` by then.
    """
    dashboard = open_dashboard(Options())
    cost: dict[str, Any] = {}

    def painted() -> None:
        cost.update(cpu_s=time.process_time(), at_s=time.monotonic())

    def curves_painted() -> None:
        cost.update(curves_cpu_s=time.process_time(), curves_at_s=time.monotonic())
        cost["heavy_imports"] = [name for name in HEAVY if name in sys.modules]
        dashboard.application.quit()

    curves = dashboard.window.curves
    _when_painted(dashboard.window, painted)
    curves.plotted.connect(lambda plots: _when_painted(plots[-1].viewport(), curves_painted))
    dashboard.window.show()
    dashboard.application.exec()
    return cost
