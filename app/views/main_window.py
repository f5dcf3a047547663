"""The main window: docks around the curves and the live view, the sentence on top, the legend below, and the menus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QByteArray, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QMoveEvent, QResizeEvent, QUndoStack
from PySide6.QtWidgets import (
    QMainWindow,
    QMenu,
    QTabBar,
    QTabWidget,
    QWidget,
)

from app.model.boards import Boards
from app.model.commands import SetPoint
from app.model.conductor import Conductor
from app.model.settings import Settings
from app.model.store import Store
from app.views.actions import Actions
from app.views.centre import VIEWS, Centre
from app.views.docks import DockLayout
from app.views.panels.attach import BoardCommands
from app.views.panels.board import BoardPanel
from app.views.panels.calibration import CalibrationPanel
from app.views.panels.controls import Controls
from app.views.panels.export import Files
from app.views.panels.headline import Why
from app.views.panels.legend import Legend
from app.views.panels.log import LogPanel
from app.views.panels.palette import ActionList
from app.views.panels.picture import PictureCommands
from app.views.panels.recorder import RecordLight, ReplayBar, TapeCommands
from app.views.panels.table import CurveTable
from app.views.widgets.common import Dock, label, set_text, set_tip
from app.views.widgets.numbers import NumbersPanel
from app.views.widgets.theme import GAP, Theme
from core.spec import OperatingPoint

LAYOUT_VERSION = 1
SWITCHES = ("auto_measure", "curves.as_published")
COMPENSATE_TIP = "Make a parameter set for these weights, install it, and measure without and with it"
SAID_MS = 8000  # how long a warning stands at the foot; the log keeps it


class MainWindow(QMainWindow):
    """The dashboard.

    Parameters
    ----------
    store : Store
    stack : QUndoStack
    conductor : Conductor
    theme : Theme
    settings : Settings
        Where the window was; `layout_state` says where it is.
    boards : Boards, optional
        What can be attached.
    preset : Path, optional
        Opened before the first panel shows a point.

    Raises
    ------
    FileError
        The preset cannot be opened.
    """

    layout_changed = Signal()
    attach_wanted = Signal(str)  # a target

    def __init__(
        self,
        store: Store,
        stack: QUndoStack,
        conductor: Conductor,
        theme: Theme,
        settings: Settings,
        boards: Boards | None = None,
        preset: Path | None = None,
    ) -> None:
        super().__init__()
        self.boards = boards or Boards(conductor, settings)
        self.setObjectName("dashboard")
        self._store, self._stack, self._conductor = store, stack, conductor
        self._theme, self._settings = theme, settings
        self.files = Files(store, stack, settings, self)
        if preset is not None:
            self.files.open(preset)
        self.actions_ = Actions(self)
        self._make_actions()
        self.docks = self._make_docks()
        self._make_centre()
        self._make_foot()
        self._make_menus()
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setDockOptions(QMainWindow.DockOption.AllowNestedDocks | QMainWindow.DockOption.AllowTabbedDocks)
        self.setMinimumSize(860, 560)
        self.resize(QSize(1600, 1000).boundedTo(self.screen().availableSize()))
        self._layout = DockLayout(self, self.docks)
        self._restore()
        store.changed.connect(self._on_changed)
        self._clean = stack.isClean()
        stack.cleanChanged.connect(self._on_clean)
        self._show_preset()
        self._enable()
        self.controls.sliders["point.alpha"].line.setFocus(Qt.FocusReason.OtherFocusReason)

    # ---- made once

    def _make_actions(self) -> None:
        a, store = self.actions_, self._store
        a.add("&File", "open", "&Open preset…", self.files.ask_open, "Ctrl+O")
        a.add("&File", "save", "&Save preset", self.files.save, "Ctrl+S")
        a.add("&File", "save_as", "Save preset &as…", self.files.ask_save, "Ctrl+Shift+S")
        a.separate("&File")
        a.add("&File", "export.json", "Export as &JSON…", self.files.export_json, "Ctrl+E")
        a.add("&File", "export.runtime", "Export for a run&time…", self.files.export_runtime)
        pictures = PictureCommands(a, lambda: self.centre.front)
        a.separate("&File")
        a.add("&File", "quit", "&Quit", self.close, "Ctrl+Q")
        for key, made, keys in (
            ("undo", self._stack.createUndoAction(self, "&Undo"), "Ctrl+Z"),
            ("redo", self._stack.createRedoAction(self, "&Redo"), "Ctrl+Shift+Z; Ctrl+Y"),
        ):
            made.setShortcuts([QKeySequence(part) for part in keys.split("; ")])
            made.setObjectName(key)
            a.put("&Edit", key, made)
        a.separate("&Edit")
        a.add("&Edit", "pin", "&Pin as A", self._pin, "Ctrl+D", "Keep this point as a grey ghost to compare with")
        a.add("&Edit", "unpin", "U&npin A", lambda: store.set("pinned", None), "Ctrl+Shift+D")
        pictures.add_copies()
        pause = a.add(
            "&View", "pause", "&Pause the live view", self._pause, "Space", "Freeze the view; recording continues"
        )
        pause.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)  # shown only: `keyPressEvent` takes what is left
        titles = {"curves": "Curves", "live": "Live", **{key: title for key, (title, *_) in VIEWS.items()}}
        for i, (key, title) in enumerate(titles.items(), start=1):
            a.add("&View", key, f"Show {title.lower()}", lambda k=key: self.centre.show_view(k), f"Ctrl+{i % 10}")  # type: ignore[misc]
        a.add("&View", "markers", "&Markers A and B", self._markers, "M", "Time, means and energy between two markers")
        a.add("&View", "why", "&Why?", lambda: Why(store, self).exec(), "Ctrl+I", "The numbers behind the verdict")
        a.add("&View", "table", "Curves as a &table…", lambda: CurveTable(store, self).exec(), "Ctrl+T")
        self._add_switch("&View", "curves.as_published", "Golden formula as p&ublished")
        a.separate("&View")
        a.add_themes("&View", store.get("theme"), lambda choice: store.set("theme", choice))
        a.separate("&View")
        a.add("&View", "reset_layout", "&Reset layout", self.reset_layout)
        self._make_board_actions()
        a.add("&Help", "palette", "Command &palette…", lambda: self._list(runnable=True), "Ctrl+Shift+P")
        a.add("&Help", "shortcuts", "Keyboard &shortcuts", lambda: self._list(runnable=False), "?; F1")
        a.add("&Help", "about", "&About Trilemma", self._about)

    def _make_board_actions(self) -> None:
        a, store, conductor = self.actions_, self._store, self._conductor
        self.board_commands = BoardCommands(a, self.boards, store, self)
        self.attach_wanted.connect(self.board_commands.attach)
        a.add("&Board", "measure", "&Measure this point", lambda: self._do(conductor.measure_now()), "Ctrl+M; F5")
        a.add("&Board", "stages", "Measure its &stages", lambda: self._do(conductor.measure_now(("stages",), ())))
        a.add("&Board", "compensate", "Compensate its weights", self._compensate, tip=COMPENSATE_TIP)
        a.add("&Board", "rollback", "Roll back the parameter set", lambda: self._do(conductor.parameters("rollback")))
        a.add("&Board", "calibrate", "&Calibrate now", lambda: self._do(conductor.calibrate_now()), "Ctrl+K")
        a.add("&Board", "cancel", "Canc&el all jobs", conductor.cancel, "Ctrl+.")
        a.add("&Board", "reconnect", "Reconnect &now", conductor.reconnect_now, "Ctrl+R")
        self._add_switch("&Board", "auto_measure", "Measure &when a slider stops")
        TapeCommands(a, conductor.tape, self, self._do, lambda path: self.attach_wanted.emit(str(path)))

    def _make_docks(self) -> dict[str, Dock]:
        a, store = self.actions_, self._store
        self.controls = Controls(store, self._stack, self._theme, a["measure"], a["pin"])
        board = BoardPanel(store, self._conductor, self._theme, a["reconnect"])
        calibration = CalibrationPanel(store, a["calibrate"], a["cancel"])
        calibration.proposed.connect(self._go_and_measure)
        numbers = NumbersPanel(store)
        docks = {
            "controls": Dock("dock.controls", "Operating point", self.controls),
            "numbers": Dock("dock.numbers", "This point", numbers),
            "board": Dock("dock.board", "Board", board),
            "calibration": Dock("dock.calibration", "Calibration", calibration),
            "log": Dock("dock.log", "Log", LogPanel(store, self._theme)),
        }
        board.follow(docks["board"])
        calibration.follow(docks["calibration"])
        numbers.follow(docks["numbers"])
        for dock in docks.values():
            toggle = dock.toggleViewAction()
            toggle.setObjectName(f"show.{dock.objectName()}")
            toggle.setText(f"Panel: {dock.windowTitle().lower()}")
            a.put("&View", toggle.objectName(), toggle)
            dock.visibilityChanged.connect(self._moved)
            dock.dockLocationChanged.connect(self._moved)
        return docks

    def _make_centre(self) -> None:
        a = self.actions_
        self.centre = Centre(self._store, self._stack, self._conductor, self._theme, a["why"], a["pause"])
        self.centre.proposed.connect(self._go_and_measure)
        self.centre.commanded.connect(lambda key: a[key].trigger())
        self.headline, self.curves, self.tabs = self.centre.headline, self.centre.curves, self.centre.tabs
        middle = self.centre.layout()
        assert middle is not None
        middle.addWidget(ReplayBar(self._store, self._conductor.tape, self._theme))
        self.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, self.docks["controls"])  # Tab goes from left to right
        self.setCentralWidget(self.centre)
        self.setContentsMargins(GAP, 0, GAP, 0)

    @property
    def live(self) -> QWidget | None:
        """The live view, once it is made."""
        return self.centre.pages["live"].content

    def _make_foot(self) -> None:
        self.legend = Legend(self._theme)
        self._preset = label("", "dim")
        self._preset.setAccessibleName("Preset")
        bar = self.statusBar()
        bar.setSizeGripEnabled(False)
        bar.addWidget(self.legend, 1)
        bar.addPermanentWidget(RecordLight(self._conductor.tape))
        bar.addPermanentWidget(self._preset)

    def _make_menus(self) -> None:
        self._recent = QMenu("Open &recent", self)
        self._recent.aboutToShow.connect(self._fill_recent)
        submenus = {"open": self._recent, "attach_this": self.board_commands.menu}
        for title, actions in self.actions_.menus.items():
            menu = self.menuBar().addMenu(title)
            for action in actions:
                if action is None:
                    menu.addSeparator()
                    continue
                menu.addAction(action)
                if action.objectName() in submenus:
                    menu.addMenu(submenus[action.objectName()])

    # ---- layout

    def reset_layout(self) -> None:
        """Put all panels where they are at the first start."""
        self._layout.reset()

    def layout_state(self) -> tuple[str, str]:
        """Return the window's geometry and the docks' places, in base64 as the settings keep them."""
        parts = (self.saveGeometry(), self.saveState(LAYOUT_VERSION))
        geometry, docks = (bytes(part.toBase64().data()).decode("ascii") for part in parts)
        return geometry, docks

    def _restore(self) -> None:
        if self._settings.geometry:
            self.restoreGeometry(QByteArray.fromBase64(self._settings.geometry.encode()))
        self.reset_layout()
        if self._settings.docks:
            self.restoreState(QByteArray.fromBase64(self._settings.docks.encode()), LAYOUT_VERSION)
        screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
        if screens and not any(screen.intersects(self.frameGeometry()) for screen in screens):
            self.move(screens[0].topLeft())

    def _moved(self, *_: object) -> None:
        for bar in self.findChildren(QTabBar):  # Qt makes one where docks share a place
            if not bar.accessibleName():
                bar.setObjectName("dock.tabs")
                bar.setAccessibleName("Panels in tabs")
        self.layout_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Report a new layout."""
        super().resizeEvent(event)
        self._layout.fit_later()
        self.layout_changed.emit()

    def moveEvent(self, event: QMoveEvent) -> None:
        """Report a new layout."""
        super().moveEvent(event)
        self.layout_changed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pause on Space where no button, list or text has taken it."""
        if event.key() == Qt.Key.Key_Space:
            self.actions_["pause"].trigger()
        else:
            super().keyPressEvent(event)

    # ---- commands

    def open_preset(self, path: Path) -> None:
        """Open a preset.

        Raises
        ------
        FileError
            One sentence; nothing was changed.
        """
        self.files.open(path)

    def _fill_recent(self) -> None:
        self._recent.clear()
        for name in self._settings.recent:
            action = self._recent.addAction(Path(name).name)
            action.setToolTip(name)
            action.triggered.connect(lambda _checked=False, n=name: self.files.try_open(Path(n)))
        if not self._settings.recent:
            self._recent.addAction("No recent presets").setEnabled(False)

    def _do(self, refused: str) -> None:
        if refused:
            self._store.say("warning", refused)

    def _go_and_measure(self, point: OperatingPoint) -> None:
        self._stack.push(SetPoint(self._store, "Go to the proposed point", point))
        self._do(self._conductor.measure_now())

    def _compensate(self) -> None:
        point, refused = self._store.point, self._store.not_measurable
        if not refused and point.weights == "fp32":
            refused = "Weights in fp32 are the reference: choose a quantised format to compensate it."
        if not refused and point.compensation == "none":
            self._stack.push(SetPoint(self._store, "Compensate the weights", replace(point, compensation="both")))
        self._do(refused or self._conductor.measure_now(("compensation",), ()))

    def _pin(self) -> None:
        self._store.set("pinned", self._store.point)

    def _pause(self) -> None:
        if self._conductor.tape.position is None:
            self._store.set("paused", not self._store.get("paused"))
        else:
            self._conductor.tape.toggle()

    def _markers(self) -> None:
        self.centre.show_view("live")
        self.centre.toggle_markers()

    def _add_switch(self, menu: str, path: str, text: str) -> None:
        """Make the command that switches a path of the store on and off."""
        store = self._store
        action = self.actions_.add(menu, path, text, lambda: store.set(path, not store.get(path)))
        action.setCheckable(True)
        action.setChecked(store.get(path))

    def _list(self, *, runnable: bool) -> None:
        title = "Commands" if runnable else "Keyboard shortcuts"
        actions = [a for a in self.actions_.all() if runnable or a.shortcuts()]
        ActionList(self, title, actions, runnable=runnable).exec()

    def _about(self) -> None:
        from app.views.panels.about import show_about

        show_about(self)

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        store = self._store
        if path == "theme":
            self._theme.choose(self._store.get("theme"))
            self.actions_[f"theme.{self._store.get('theme')}"].setChecked(True)
        elif path in SWITCHES:
            self.actions_[path].setChecked(store.get(path))
        elif path == "preset":
            self._show_preset()
        elif path == "log" and store.log[-1].level != "info":
            self.statusBar().showMessage(store.log[-1].text, SAID_MS)
        if path in ("activity", "link", "measurements", "pinned", "prediction"):
            self._enable()

    def _on_clean(self, clean: bool) -> None:
        self._clean = clean
        self._show_preset()

    def _show_preset(self) -> None:
        name = self._store.get("preset")
        state = "saved" if self._clean else "changed"
        set_text(self._preset, f"Preset: {Path(name).name} · {state}" if name else "No preset")
        self._preset.setToolTip(name)
        self.setWindowTitle(f"{Path(name).stem} – Trilemma" if name else "Trilemma")

    def _enable(self) -> None:
        a, store = self.actions_, self._store
        attached = store.link.state == "attached"
        a["measure"].setEnabled(attached and not store.not_measurable)
        a["stages"].setEnabled(a["measure"].isEnabled())
        set_tip(a["measure"], store.not_measurable or "Run this point on the board and measure it")
        played = self._conductor.tape.position is not None
        a["calibrate"].setEnabled(attached and not played and not store.not_measured_here)
        a["cancel"].setEnabled(store.activity.kind != "idle")
        a["unpin"].setEnabled(store.get("pinned") is not None)
        a["reconnect"].setEnabled(not attached)
