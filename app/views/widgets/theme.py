"""The look: two palettes, one style sheet made from either, and the theme that follows the system or a setting.

A panel takes colours from ``theme.palette`` and repaints on ``theme.changed``. Sizes are logical pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from string import Template

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

BODY_PX, SECONDARY_PX, HEADING_PX, VALUE_PX = 13, 12, 11, 24
RADIUS, PADDING, GAP = 8, 14, 10

CHOICES = ("system", "light", "dark")
"""What the setting ``theme`` may hold."""


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one scheme, as ``#rrggbb``. `on_accent` is text on an accent or bad background."""

    bg: str
    panel: str
    raised: str
    line: str
    text: str
    dim: str
    accent: str
    measured: str
    published: str
    bad: str
    ok: str
    on_accent: str

    def color(self, name: str, alpha: float = 1.0) -> QColor:
        """Return a colour of the palette, translucent by `alpha` in 0..1."""
        color = QColor(getattr(self, name))
        color.setAlphaF(alpha)
        return color


DARK = Palette(
    bg="#15181d",
    panel="#1c2027",
    raised="#242a33",
    line="#323a45",
    text="#e6eaf0",
    dim="#98a3b3",
    accent="#5aa9ff",
    measured="#ffb454",
    published="#9b8cff",
    bad="#ff6b6b",
    ok="#4cc38a",
    on_accent="#0d1117",
)
LIGHT = Palette(
    bg="#f4f6f9",
    panel="#ffffff",
    raised="#eef1f5",
    line="#d5dbe3",
    text="#1b2430",
    dim="#5b6778",
    accent="#0b63c9",
    measured="#b45309",
    published="#6b4fd8",
    bad="#c0362c",
    ok="#1c7c4d",
    on_accent="#ffffff",
)


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two ``#rrggbb`` colours, 1..21 (WCAG 2.2, relative luminance)."""

    def luminance(color: str) -> float:
        channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def font(px: int, *, bold: bool = False, caps: bool = False) -> QFont:
    """Return the interface font at a size; `caps` is the spaced capitals of headings."""
    made = QFont(QApplication.font())
    made.setPixelSize(px)
    made.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    if caps:
        made.setCapitalization(QFont.Capitalization.AllUppercase)
        made.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.8)
    return made


class Theme(QObject):
    """The palette in force. `choice` "system" follows the desktop live; "light" and "dark" force one.

    With `sheet` False the style sheet waits for `apply`: a window built before it is styled once, not widget by widget.
    """

    changed = Signal()

    def __init__(self, choice: str = "system", *, sheet: bool = True) -> None:
        super().__init__()
        self.choice = choice
        self.palette = DARK
        self._with_sheet = sheet
        self._scheme = QGuiApplication.styleHints().colorScheme()
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._scheme_changed)
        self.choose(choice)

    def choose(self, choice: str) -> None:
        """Follow the system or force a scheme.

        Raises
        ------
        ValueError
            `choice` is not one of CHOICES.
        """
        if choice not in CHOICES:
            raise ValueError(f"theme: got {choice!r}, expected one of {', '.join(CHOICES)}")
        self.choice = choice
        scheme = {"system": Qt.ColorScheme.Unknown, "light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}[choice]
        QGuiApplication.styleHints().setColorScheme(scheme)
        self._take_palette()

    def apply(self) -> None:
        """Set the style sheet, now and at every later change."""
        self._with_sheet = True
        self._take_palette()

    def _scheme_changed(self, scheme: Qt.ColorScheme) -> None:
        self._scheme = scheme
        self._take_palette()

    def _take_palette(self) -> None:
        light = self._scheme is Qt.ColorScheme.Light if self.choice == "system" else self.choice == "light"
        wanted = LIGHT if light else DARK  # a platform that cannot tell, such as offscreen, gets the dark one
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self.palette = wanted
        application.setPalette(_qt_palette(wanted))
        if self._with_sheet and application.styleSheet() != (sheet := style_sheet(wanted)):
            application.setStyleSheet(sheet)  # which polishes every widget anew, the same sheet too
        self.changed.emit()


def _qt_palette(p: Palette) -> QPalette:
    made = QPalette()
    for role, name in (
        (QPalette.ColorRole.Window, "bg"),
        (QPalette.ColorRole.WindowText, "text"),
        (QPalette.ColorRole.Base, "raised"),
        (QPalette.ColorRole.AlternateBase, "panel"),
        (QPalette.ColorRole.Text, "text"),
        (QPalette.ColorRole.Button, "raised"),
        (QPalette.ColorRole.ButtonText, "text"),
        (QPalette.ColorRole.Highlight, "accent"),
        (QPalette.ColorRole.HighlightedText, "on_accent"),
        (QPalette.ColorRole.ToolTipBase, "raised"),
        (QPalette.ColorRole.ToolTipText, "text"),
        (QPalette.ColorRole.PlaceholderText, "dim"),
        (QPalette.ColorRole.Link, "accent"),
        (QPalette.ColorRole.Mid, "line"),
    ):
        made.setColor(role, QColor(getattr(p, name)))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(p.dim))
    return made


def style_sheet(p: Palette) -> str:
    """Return the style sheet of a palette."""
    sizes = {
        "body": BODY_PX,
        "secondary": SECONDARY_PX,
        "heading": HEADING_PX,
        "radius": RADIUS,
    }
    return _SHEET.substitute({f.name: getattr(p, f.name) for f in fields(p)} | sizes)


_SHEET = Template("""
QWidget { color: $text; font-size: ${body}px; }
QMainWindow, QDialog { background: $bg; }
QMainWindow::separator { background: $bg; width: 6px; height: 6px; }
QMainWindow::separator:hover { background: $line; }
QToolTip { background: $raised; color: $text; border: 1px solid $line; padding: 4px 6px; }

QFrame[role="card"] { background: $panel; border: 1px solid $line; border-radius: ${radius}px; }
QFrame[role="card-head"] { background: $panel; border: 1px solid $line; border-bottom: none;
    border-top-left-radius: ${radius}px; border-top-right-radius: ${radius}px; }
QFrame[role="card-body"] { background: $panel; border: 1px solid $line; border-top: none;
    border-bottom-left-radius: ${radius}px; border-bottom-right-radius: ${radius}px; }
QLabel { background: transparent; }
QWidget[role="dim"], QWidget[role="bad"], QWidget[role="ok"], QWidget[role="secondary"]
    { font-size: ${secondary}px; }
QWidget[role="dim"] { color: $dim; }
QWidget[role="published"] { color: $published; font-size: ${secondary}px; }
QWidget[role="bad"] { color: $bad; }
QWidget[role="ok"] { color: $ok; }
QLabel[role="heading"] { color: $dim; font-size: ${heading}px; font-weight: 600; }

QPushButton { background: $raised; border: 1px solid $line; border-radius: 5px; padding: 5px 10px; }
QPushButton:hover { border-color: $dim; }
QPushButton:pressed { background: $line; }
QPushButton:focus { border: 1px solid $accent; }
QPushButton:disabled { color: $dim; background: $panel; }
QPushButton[role="primary"] { background: $accent; color: $on_accent; border-color: $accent; font-weight: 600; }
QPushButton[role="primary"]:focus { border: 1px solid $text; }
QPushButton[role="primary"]:disabled { background: $raised; color: $dim; border-color: $line; font-weight: 400; }
QPushButton:checked { background: $line; border-color: $dim; }

QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }

QLineEdit { background: $raised; border: 1px solid $line; border-radius: 5px; padding: 3px 8px;
            selection-background-color: $accent; selection-color: $on_accent; }
QLineEdit:focus { border: 1px solid $accent; }
QLineEdit[wrong="true"] { border: 1px solid $bad; }

QAbstractItemView { background: $panel; border: 1px solid $line; outline: none;
                    selection-background-color: $accent; selection-color: $on_accent; }
QComboBox { selection-background-color: $accent; selection-color: $on_accent; }
QTableView, QTreeView { gridline-color: $panel; border: none; }
QTreeView::item, QTableView::item { padding: 3px 6px; }
QTreeView::item:disabled { color: $dim; }
QHeaderView { background: $panel; border: none; }
QHeaderView::section { background: $panel; color: $dim; font-size: ${secondary}px; border: none;
                       border-bottom: 1px solid $line; padding: 3px 9px; }
QPlainTextEdit, QTextBrowser { background: $panel; border: none; padding: 4px 10px; font-size: ${secondary}px;
                 selection-background-color: $accent; selection-color: $on_accent; }
QPlainTextEdit[role="code"] { font-family: monospace; }

QDockWidget { font-size: ${heading}px; color: $dim; }
QDockWidget::title { background: $bg; padding: 3px 4px; text-align: left; }
QScrollArea, QScrollArea > QWidget > QWidget#page { background: transparent; border: none; }

QTabWidget::pane { border: none; }
QTabBar { background: transparent; qproperty-drawBase: 0; font-size: ${secondary}px; }
QTabBar::tab { background: transparent; color: $dim; padding: 4px 9px; border: 1px solid transparent;
               border-radius: 5px; margin-right: 1px; }
QTabBar[tight="true"]::tab { padding: 4px 4px; }
QTabBar::tab:selected { background: $raised; color: $text; border-color: $line; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:focus { border-color: $accent; }
QTabBar::tear { width: 0; border: none; }
QTabBar QToolButton { background: $raised; border: 1px solid $line; border-radius: 4px; }
QTabBar QToolButton:hover { border-color: $dim; }

QMenuBar { background: $bg; padding: 2px 6px; }
QMenuBar::item { background: transparent; padding: 3px 9px; border-radius: 5px; }
QMenuBar::item:selected { background: $raised; }
QMenu { background: $panel; border: 1px solid $line; padding: 4px; }
QMenu::item { padding: 4px 24px 4px 12px; border-radius: 4px; }
QMenu::item:selected { background: $accent; color: $on_accent; }
QMenu::item:disabled { color: $dim; background: transparent; }
QMenu::separator { height: 1px; background: $line; margin: 4px 6px; }

QProgressBar { background: $raised; border: 1px solid $line; border-radius: 4px; max-height: 6px; }
QProgressBar::chunk { background: $accent; border-radius: 3px; }
QStatusBar { background: $bg; color: $dim; font-size: ${secondary}px; }
QStatusBar::item { border: none; }

QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line; border-radius: 4px; min-height: 24px; min-width: 24px; margin: 1px; }
QScrollBar::handle:hover { background: $dim; }
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page
    { background: none; border: none; width: 0; height: 0; }
""")
