import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.views.widgets.theme import DARK, LIGHT, Theme, contrast, style_sheet


def test_contrast_of_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1.0


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_text_reads_on_every_background(palette):
    pairs = [(text, background) for text in ("text", "dim", "bad") for background in ("bg", "panel", "raised")]
    pairs += [
        (text, background) for text in ("accent", "measured", "published", "ok") for background in ("bg", "panel")
    ]
    pairs += [("on_accent", "accent")]
    low = {pair: contrast(*(getattr(palette, name) for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_data_lines_stand_out_from_the_panel_and_from_the_washes(palette):
    for line in ("accent", "measured", "published", "bad", "dim"):
        assert contrast(getattr(palette, line), palette.panel) >= 3.0


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_the_style_sheet_has_no_unfilled_place(palette):
    sheet = style_sheet(palette)
    assert "$" not in sheet
    assert palette.panel in sheet


def test_a_forced_theme_wins_and_tells(qtbot):
    theme = Theme("dark")
    with qtbot.waitSignal(theme.changed):
        theme.choose("light")
    assert theme.palette is LIGHT
    assert QGuiApplication.palette().window().color().name() == LIGHT.bg
    theme.choose("dark")
    assert theme.palette is DARK


def test_system_follows_the_scheme_of_the_desktop_live(qtbot):
    theme = Theme("system")
    hints = QGuiApplication.styleHints()
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert theme.palette is LIGHT
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.palette is DARK
    theme.choose("light")
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.palette is LIGHT


def test_an_unknown_theme_is_refused(qtbot):
    with pytest.raises(ValueError, match="theme: got 'sepia', expected one of system, light, dark"):
        Theme("sepia")
