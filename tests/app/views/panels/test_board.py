"""The board's panel against a store: its state in words, warnings by word and colour, what is known of its sensors."""

from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QWidget,
)

from app.client.events import Channel
from app.library.data_sheet import THIS, DataSheet, described
from app.model.store import Store
from app.text.names import channel_name, channel_text
from app.text.state_text import NAMES, entry_text, state_rows, unknown_text
from app.views.panels.board import BoardPanel
from app.views.panels.calibration import _unmeasured
from app.views.widgets.common import Dock, ElidedLabel, label, set_tip
from app.views.widgets.theme import Theme
from core.catalogue.load import load_catalogue
from core.spec import Absent
from tests.app.views.silent_session import attach

STATE = {
    "power_mode": {"value": "nvpmodel 25W"},
    "governor": {
        "value": {"policy0": "schedutil", "policy4": "powersave", "policy6": "powersave"},
        "warning": "governor is powersave on policy4",
    },
    "cpu_clock": {"value": {"policy0": {"min_hz": 408e6, "max_hz": 1.8e9, "now_hz": 1.2e9}}},
    "gpu_clock": {
        "value": {"governor": "nvhost_podgov", "min_hz": 306000000, "max_hz": 918000000, "now_hz": 612000000}
    },
    "memory": {"value": {"available_byte": 12e9, "total_byte": 16e9, "swapped_byte": 2e9}},
    "others": {"value": {"cores": 1.25, "most": [{"name": "chrome", "cores": 1.2}]}, "warning": "other programs take"},
    "bus": {"absent": "no card on a PCIe link"},
    "npu_clock": {"absent": "no NPU whose clock the kernel shows"},
}
CHANNELS = (
    Channel("vdd_in.power_w", "W", "/sys/x", 0.01, covers="the whole board", error=0.06, total="input"),
    Channel("vdd_soc.power_w", "W", "/sys/y", None, part_of="vdd_in.power_w", note="seen"),
    Channel("emc.busy_frac", "frac", "/sys/z", None, "needs root: /sys/z is readable by root only"),
)


@pytest.fixture
def panel(qtbot, qapp):
    store = Store(load_catalogue())
    nothing = (np.empty(0), np.empty(0))
    history = SimpleNamespace(latest=lambda *_: None, series=lambda *_: nothing)
    conductor = SimpleNamespace(history=history, tape=SimpleNamespace(clock=None), sheet=Absent("none fits"), chosen=[])
    conductor.silent_s = 0.0
    conductor.choose_sheet = conductor.chosen.append
    made = BoardPanel(store, conductor, Theme("light"), QAction("Reconnect"))
    made.conductor = conductor
    made.store = store
    qtbot.addWidget(made)
    made.resize(330, 700)
    made.show()
    qtbot.waitExposed(made)
    return made


def texts(panel, role=None):
    QApplication.processEvents()
    return [
        found.text()
        for found in panel.findChildren(QLabel)
        if found.isVisibleTo(panel) and (role is None or found.property("role") == role)
    ]


def test_warnings_stand_out_by_word_and_by_colour(panel):
    panel.store.set_link(state="attached", hello={"state": STATE})
    assert texts(panel, "bad") == ["Warning: governor is powersave on policy4.", "Warning: other programs take."]
    assert "schedutil (policy0); powersave (policy4, policy6)" in texts(panel)
    assert "nvpmodel 25W" in texts(panel)
    assert "Not known: NPU clock, bus" in texts(panel)
    bad = [found for found in panel.findChildren(QLabel) if found.property("role") == "bad"]
    warnings = [found for found in bad if found.isVisibleTo(panel)]
    assert [found.accessibleName() for found in warnings] == ["Warning about Governor", "Warning about Other programs"]


def test_a_board_that_does_not_answer_is_not_called_attached(panel, qtbot):
    dock = Dock("dock.board", "Board", label(""))
    qtbot.addWidget(dock)
    panel.follow(dock)
    panel.store.set_link(state="attached", text="Attached.", hello={"board": {"name": "x"}})
    panel._refresh_values()
    assert (panel._facts["State"].text(), dock.aside.text()) == ("Attached.", "● attached")
    panel.conductor.silent_s = 4.2
    panel._refresh_values()
    assert panel._facts["State"].text() == "It has not answered for 4 s."
    assert (dock.aside.text(), dock.aside.property("role")) == ("○ does not answer", "bad")
    panel.conductor.silent_s = 0.1
    panel._refresh_values()
    assert (dock.aside.text(), dock.aside.property("role")) == ("● attached", "ok")
    panel.conductor.silent_s = 11.0
    panel.store.set_link(state="lost", text="the agent has been silent for 10 s")
    panel._refresh_values()
    assert dock.aside.text() == "○ lost"


def test_sensors_have_a_heading_only_where_there_are_some(panel):
    assert "Sensors" not in texts(panel)
    panel.store.set_link(state="attached", hello={"board": {"name": "x"}}, channels=CHANNELS)
    assert "Sensors" in texts(panel)
    panel.store.set_link(state="detached", hello={}, channels=())
    assert "Sensors" not in texts(panel)


def test_a_simulated_board_is_named_once(panel):
    board = {"name": "Rockchip RK3588 (simulated)", "cpu": "simulated npu of Rockchip RK3588, seed 0", "key": "rk3588"}
    panel.store.set_link(state="attached", hello={"board": board, "simulated": True})
    assert panel._facts["Board"].text() == "Rockchip RK3588 (simulated)"


def test_a_new_state_replaces_the_old_one_and_the_same_one_costs_nothing(panel):
    panel.store.set_link(state="attached", hello={"state": STATE})
    texts(panel)
    shown = panel.findChildren(QLabel)
    panel.store.set_link(n_lost=1)
    assert panel.findChildren(QLabel) == shown
    calm = {**STATE, "governor": {"value": {"policy0": "performance"}}, "others": {"value": {"cores": 0.0, "most": []}}}
    before = list(panel._state_rows)
    panel.store.set_link(hello={"state": calm})
    assert panel._state_rows == before  # the same labels: it is told each second and must not flicker
    assert texts(panel, "bad") == []
    assert "performance" in texts(panel)


def test_an_agent_that_tells_no_state_has_no_section(panel):
    panel.store.set_link(state="attached", hello={"board": {"name": "x"}})
    assert "State of the board" not in texts(panel)
    panel.store.set_link(hello={"board": {"name": "x"}, "state": STATE})
    assert "State of the board" in texts(panel)


def test_a_sensors_tool_tip_tells_all_that_is_known(panel):
    panel.store.set_link(state="attached", channels=CHANNELS)
    tips = {found.text(): found.toolTip() for found in panel.findChildren(QLabel) if found.toolTip()}
    assert tips["Vdd in power"].split("\n") == [
        *("vdd_in.power_w", "/sys/x", "the whole board", "a new value every 10.0 ms", "in steps of 60.0 mW"),
    ]
    assert "counted in vdd_in.power_w already\nseen" in tips["Vdd SoC power"]
    assert any("needs root" in tip for tip in tips.values())


def test_rows_with_a_warning_come_first_and_what_is_new_to_us_last():
    rows = state_rows({**STATE, "fan_speed": {"value": 3}})
    assert [row.name for row in rows][:2] == ["Governor", "Other programs"]
    assert rows[-1] == ("Fan speed", "3", "")


def test_entries_in_words():
    assert entry_text("cpu_clock", STATE["cpu_clock"]) == "1.20 GHz · 408 MHz to 1.80 GHz"
    assert entry_text("gpu_clock", STATE["gpu_clock"]) == "612 MHz · 306 MHz to 918 MHz · nvhost_podgov"
    assert entry_text("memory", STATE["memory"]) == "12.0 GB free of 16.0 GB, 2.00 GB swapped out"
    assert entry_text("others", STATE["others"]) == "1.2 cores: chrome 1.2"
    assert entry_text("bus", STATE["bus"]) == "absent: no card on a PCIe link"
    assert unknown_text({"memory": STATE["memory"]}) == ("", "")
    assert unknown_text(STATE)[1].count("\n") == 1


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("value", [{}, {"cores": "x"}, {"policy0": 3}, [], None, 3, {"now_hz": None}])
def test_the_state_of_another_version_is_shown_and_not_an_end(key, value):
    assert isinstance(entry_text(key, {"value": value}), str)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("tegrastats.gpu.busy_frac", "GPU busy"),
        ("ina3221.vdd_in.voltage_v", "Vdd in voltage"),
        ("dram.busy_frac", "DRAM busy"),
        ("rknpu.core0.busy_frac", "Rknpu core 0 busy"),
        ("throttle.under_voltage", "throttle.under_voltage"),
    ],
)
def test_names_of_sensors(key, name):
    assert channel_name(key) == name


def test_what_is_not_known_of_a_channel_has_no_line():
    assert channel_text(Channel("a.temp_c", "degC", "/sys/a", None)) == "a.temp_c\n/sys/a"


def test_what_a_board_says_is_shown_as_it_is_in_tool_tips_too(qapp):
    cell = label("")
    set_tip(cell, "<img src='/etc/passwd'>\nnext")
    assert cell.toolTip() == "&lt;img src=&#x27;/etc/passwd&#x27;&gt;<br>next"
    set_tip(cell, "a < b\nnext")
    assert cell.toolTip() == "a < b\nnext"
    line = ElidedLabel()
    line.set_tip("<b>bold</b>")
    assert line.toolTip() == "&lt;b&gt;bold&lt;/b&gt;"


def test_the_data_sheet_is_named_with_how_it_was_found_and_another_can_be_chosen(panel):
    assert panel.sheet.currentText() == "none found"
    assert not panel.sheet.isEnabled()
    panel.conductor.sheet = DataSheet("rk3588", "by its device tree, rockchip,rk3588")
    panel.store.set_link(state="attached", hello={"board": {"name": "x"}})
    assert panel.sheet.isEnabled()
    assert panel.sheet.currentText() == "Rockchip RK3588 (found)"
    assert "Found by its device tree, rockchip,rk3588." in texts(panel)
    panel.sheet.setCurrentIndex(panel.sheet.findData("raspberry_pi_5"))
    panel.sheet.activated.emit(panel.sheet.currentIndex())
    assert panel.conductor.chosen == ["raspberry_pi_5"]
    panel.conductor.sheet = Absent("none of the catalogue fits it")
    panel.store.set_link(state="attached")
    assert "None of the catalogue fits it: generic priors are used." in texts(panel)


def test_a_board_without_a_measurement_says_that_its_data_sheet_is_what_is_known(qtbot, qapp):
    catalogue = described(load_catalogue(), THIS, DataSheet("raspberry_pi_5", "by its name, Raspberry Pi 5"))
    assert _unmeasured(Store(catalogue)).startswith("Nothing is measured yet: predictions rest on the data sheet of Ra")
    assert _unmeasured(Store(load_catalogue())).endswith("the runtime's priors alone.")


def test_the_board_panel_says_what_is_there_and_why_what_is_not(window):
    attach(window._store)
    texts = [child.text() for child in window.docks["board"].findChildren(QWidget) if hasattr(child, "text")]
    assert "Package power" in texts
    assert "Package temperature: no such sensor" in texts
    tips = [child.toolTip() for child in window.docks["board"].findChildren(QWidget)]
    assert "package.power_w\n/sys/class/powercap\na new value every 100 ms" in tips
    assert window.docks["board"].aside.text() == "● attached"


def test_a_detached_panel_shows_the_bandwidth_of_the_points_board(panel):
    assert panel._facts["Bandwidth"].text().endswith(" assumed")
    board = panel.store.catalogue.boards["rk3588"]
    panel.store.set("point.board", "rk3588")
    assert panel._facts["Bandwidth"].text().startswith("34.1 GB/s")
    assert "assumed" not in panel._facts["Bandwidth"].text()
    attach(panel.store)
    assert panel._facts["Bandwidth"].text().endswith(" assumed")
    assert next(iter(board.power_modes.values())).bandwidth_byte_s == pytest.approx(34.1e9, rel=0.01)
