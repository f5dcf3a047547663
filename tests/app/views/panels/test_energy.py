"""The energy view: words and charts against the simulation, controls against the store, work off the GUI thread."""

import threading
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtWidgets import QWidget

from app.library.endurance import Around, coolings, hold, workloads
from app.library.measurements import Measurement
from app.model.background import Background
from app.model.commands import undo_stack
from app.model.store import Store
from app.text import energy_data
from app.text.bar import Bar
from app.text.format import output_text
from app.views.panels.energy import Energy
from app.views.widgets.bars import _HOLLOW, Bars
from app.views.widgets.marks import COLORS
from app.views.widgets.theme import DARK, Theme
from core.catalogue.load import load_catalogue
from core.physics.dvfs import Knee
from core.spec import Absent, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
PI = OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_0", kv="fp16")
SHORT = Around(duration=300.0)
HOT = Around(ambient=35.0, battery=56 * 3600.0, duration=1800.0, cooling="bare")


@pytest.fixture(scope="module")
def hot():
    return hold(PI, CATALOGUE, None, HOT)


@pytest.fixture
def store(qapp):
    made = Store(CATALOGUE, PI)
    made.set("energy.duration", SHORT.duration)
    return made


@pytest.fixture
def view(qtbot, store):
    made = Energy(store, undo_stack(), Theme("dark"))
    qtbot.addWidget(made)
    made.resize(900, 700)
    made.show()
    qtbot.waitUntil(lambda: not made._work.busy and made.sentence.text() != "")
    return made


# ---- the answer


def test_heat_is_named_where_it_throttles_and_nothing_where_nothing_limits(hot):
    said = energy_data.sentence(hot.run, hot.results, hot.device)
    assert said.startswith("It throttles after")
    assert "battery lasts" in said
    assert energy_data.limit_sentence(hot).startswith("Heat limits it")
    cool = hold(PI, CATALOGUE, None, Around(ambient=0.0, duration=600.0, cooling="fan"))
    assert "for the whole run" in energy_data.sentence(cool.run, cool.results, cool.device)
    assert energy_data.limit_sentence(cool) == "Nothing limits it within this time."


def test_an_empty_battery_is_what_limits():
    small = hold(PI, CATALOGUE, None, Around(ambient=20.0, battery=2 * 3600.0, duration=7200.0, cooling="fan"))
    assert small.run.end in ("cut-off", "empty")
    assert energy_data.limit_sentence(small).startswith("The battery limits it")
    chart = energy_data.battery_chart(small)
    assert chart.rules[0].at == small.run.battery.duration_s
    assert "ended the run by" in energy_data.sentence(small.run, small.results, small.device)


def test_the_sentence_says_how_surely_it_throttles(hot):
    throttled = hot.results["throttled_after_s"]
    assert throttled.q05 < throttled.median < throttled.q95
    assert energy_data.duration_text(throttled.q05) in energy_data.limit_sentence(hot)


# ---- the charts


def test_charts_show_the_run_with_its_band(hot):
    chart = energy_data.temperature_chart(hot)
    (line,) = chart.series
    assert line.provenance is Provenance.PREDICTED
    assert line.y[-1] == pytest.approx(hot.run.temp_c[-50:].mean(), abs=0.1)
    assert np.nanmax(line.y) <= hot.run.temp_c.max() + 1e-9
    assert np.all((line.low <= line.y) & (line.y <= line.high))
    assert {rule.name for rule in chart.rules} == {"throttles at 80 °C", "throttles"}
    speed = energy_data.speed_chart(hot)
    assert speed.series[0].y[0] == pytest.approx(hot.device.levels.tokens_s[-1])
    assert speed.series[0].y[-1] < speed.series[0].y[0]


def test_a_run_that_has_ended_has_no_speed_and_no_temperature_any_more():
    melts = hold(PI, CATALOGUE, None, Around(ambient=60.0, duration=3600.0, cooling="bare"))
    ended = min(run.time_s[-1] for run in melts.runs)
    assert ended < 3600
    low = energy_data.speed_chart(melts).series[0].low
    assert low[-1] == 0 < low[0]


def test_without_a_battery_the_card_says_so():
    chart = energy_data.battery_chart(hold(PI, CATALOGUE, None, Around(duration=600.0)))
    assert "No battery" in chart.message


def test_the_heat_map_is_warmest_under_the_chip_and_below_the_die(hot):
    heat = hot.heat
    middle = tuple(n // 2 for n in heat.temp_c.shape)
    assert heat.temp_c.max() == pytest.approx(heat.temp_c[middle], abs=1.0)
    assert HOT.ambient < heat.temp_c.min() < heat.temp_c.max() < hot.run.temp_c[-1]
    assert heat.power_w == pytest.approx(hot.run.sustained_w)


def test_knees_lie_on_the_curve_and_those_at_the_edge_say_so(hot):
    chart = energy_data.dvfs_chart(hot)
    watts = chart.series[0].x
    assert all(np.isclose(watts, rule.at).any() for rule in chart.rules)
    assert "at the end of the table" in energy_data.knee_text(Knee(0, 1e9, 1e9, 1e9, True))
    assert energy_data.knee_text(Absent("no knee: straight")) == "no knee: straight"
    assert hot.knees["performance_per_watt"].q05_hz <= hot.knees["performance_per_watt"].clock_hz


# ---- the view


def test_the_view_says_what_the_simulation_says(view, store, qtbot):
    found = hold(store.point, CATALOGUE, None, SHORT)
    assert view.sentence.text() == energy_data.sentence(found.run, found.results, found.device)
    assert "idle" in view._bars.accessibleDescription()
    qtbot.waitUntil(lambda: view.cards["energy.charge"].chart.message.startswith("No battery"))
    image = view.heat.grab().toImage()
    assert len({image.pixelColor(x, image.height() // 3).name() for x in range(image.width())}) > 20


def test_before_the_first_simulation_it_says_what_is_known_and_what_to_do(qtbot, qapp):
    store = Store(CATALOGUE)
    made = Energy(store, undo_stack(), Theme("dark"))
    qtbot.addWidget(made)
    assert made.sentence.text().startswith(f"Power: {output_text(store.prediction.power_w, 'W')} while it decodes.")
    assert "predicted" in made.sentence.text()
    assert made._limit.text().startswith("Measure this point")
    assert {card.chart.message for card in made.cards.values()} == {"Being simulated."}
    assert made._power.text() == made._heat_words.text() == "Being simulated."
    assert made._rails_name.isHidden()


@pytest.mark.parametrize(("simulated", "origin"), [(False, Provenance.MEASURED), (True, Provenance.SIMULATED)])
def test_the_idle_power_comes_from_where_the_board_measured_it(view, store, monkeypatch, simulated, origin):
    known = SimpleNamespace(n_energy=3, idle_power_w=2.1)
    monkeypatch.setattr(type(store), "posterior", property(lambda self: known))
    monkeypatch.setattr(type(store), "not_measured_here", property(lambda self: ""))
    store.set_link(hello={"simulated": simulated})
    assert view._origin("idle") is origin
    assert view._origin("core") is Provenance.CALIBRATED


def test_bars_of_what_is_measured_or_calibrated_are_filled_and_others_hollow(qtbot, qapp):
    bars = Bars(Theme("dark"), "Bars", "bars")
    qtbot.addWidget(bars)
    bars.resize(300, 40)
    filled = {}
    for provenance in (*_HOLLOW, Provenance.MEASURED, Provenance.CALIBRATED):
        bars.show_bars([Bar("", 1.0, "", provenance)])
        image = bars.grab().toImage()
        colour = image.pixelColor(image.width() // 2, image.height() // 2).name()
        filled[provenance] = colour == getattr(DARK, COLORS[provenance])
    assert filled == {key: key in (Provenance.MEASURED, Provenance.CALIBRATED) for key in filled}


def test_terms_add_up_to_the_mean_power(view, store):
    found = hold(store.point, CATALOGUE, None, SHORT)
    assert sum(bar.value for bar in view._bars._bars) == pytest.approx(found.run.power_w.mean(), rel=1e-3)


def test_measured_power_stands_beside_the_terms_with_idle_and_prompt(qtbot, qapp):
    store = Store(CATALOGUE)
    store.set("energy.duration", SHORT.duration)
    store.set_machine("here", [], "")
    values = {"power_w": 12.0, "energy_j_per_token": 0.2, "idle_power_w": 3.0, "prefill_energy_j": 20.0}
    body = {
        name: {"median": value, "q05": value, "q95": value, "n": 1, "provenance": "measured"}
        for name, value in values.items()
    }
    rail = {"covers": "rail VDD_CPU_GPU_CV", "power_w": {**body["power_w"], "median": 8.0}}
    rail["energy_j_per_token"] = {**body["power_w"], "median": 0.16}
    rails = {"ina3221.vdd_cpu_gpu_cv.power_w": rail, "x": {"covers": "VDD_SOC", "power_w": {"absent": "off"}}}
    body = {**body, "rails": rails}
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", "here"))
    view = Energy(store, undo_stack(), Theme("dark"))
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: "Measured at this point" in view._power.text())
    assert "12.0 W measured, idle 3.00 W, 20.0 J a prompt." in view._power.text()
    (bar,) = view._rails._bars
    assert (bar.name, bar.value, bar.text) == ("rail VDD_CPU_GPU_CV", 8.0, "8.00 W · 160 mJ a token")
    assert view._rails.isVisible()


def test_settings_are_controls_with_undo(view, store, qtbot):
    for path in ("energy.ambient", "energy.battery", "energy.duration", "energy.cooling", "energy.profile"):
        control = view.findChild(QWidget, path)
        assert control is not None
        assert control.accessibleName()
    field = view.findChild(QWidget, "energy.battery")
    before = view.sentence.text()
    field.setText("56")
    field.setModified(True)
    field.editingFinished.emit()
    assert store.get("energy.battery") == 56 * 3600.0
    qtbot.waitUntil(lambda: "battery lasts" in view.sentence.text())
    view._stack.undo()
    assert store.get("energy.battery") is None
    assert field.text() == ""
    qtbot.waitUntil(lambda: view.sentence.text() == before)


@pytest.mark.parametrize(
    ("path", "typed", "says"),
    [
        ("energy.ambient", "200", "from -20 to 60 deg C"),
        ("energy.duration", "1000 h", "from 1 min to 72 h"),
        ("energy.battery", "much", "such as 56 Wh"),
        ("energy.limit_temp", "1e9", "from 30 to 125 deg C"),
        ("energy.power", "-5", "from 1 mW to 10 kW"),
        ("energy.power", "0", "from 1 mW to 10 kW"),
        ("energy.idle", "nan", "idle"),
        ("energy.power_limit", "5 V", "TDP"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(view, store, path, typed, says):
    stored = path.replace("energy.power_limit", "point.power_limit")
    field, before = view.findChild(QWidget, path), store.get(stored)
    field.setText(typed)
    field.setModified(True)
    field.editingFinished.emit()
    assert says in view._wrong.text()
    assert store.get(stored) == before


def enter(view, path, text):
    field = view.findChild(QWidget, path)
    field.setText(text)
    field.setModified(True)
    field.editingFinished.emit()
    return field


def test_tdp_junction_limit_battery_and_workload_are_solved_together(view, store, qtbot):
    store.set("energy.duration", 3600.0)
    enter(view, "energy.power", "30 W")
    enter(view, "energy.idle", "4 W")
    enter(view, "energy.battery", "56 Wh")
    qtbot.waitUntil(lambda: "battery lasts" in view.sentence.text())
    found = hold(store.point, CATALOGUE, None, around(store))
    assert found.run.power_w.max() > 20.0
    enter(view, "energy.power_limit", "15 W")
    enter(view, "energy.limit_temp", "85 degC")
    store.set("energy.profile", "video_enc")
    assert store.point.power_limit_w == 15.0
    together = hold(store.point, CATALOGUE, None, around(store))
    assert together.run.power_w.max() <= 15.0 + 1e-9
    assert together.run.temp_c.max() <= 86.0
    assert together.profile == "video_enc"
    assert together.results["hours_per_charge"].median > found.results["hours_per_charge"].median > 1.0
    qtbot.waitUntil(lambda: "power limit of 15" in view._notes.text())
    view._stack.undo()
    view._stack.undo()
    assert store.point.power_limit_w is None


def around(store):
    return Around(**{f.name: store.get(f"energy.{f.name}") for f in fields(Around)})


def test_an_idle_power_above_the_decoding_power_is_said_and_leaves_no_card_waiting(view, store, qtbot):
    enter(view, "energy.power", "3 W")
    enter(view, "energy.idle", "5 W")
    qtbot.waitUntil(lambda: "expected less than the decoding power" in view.sentence.text())
    assert view.sentence.text().startswith("Not simulated")
    words = [w.text() for w in view.findChildren(QWidget) if hasattr(w, "text") and callable(w.text)]
    assert not any("Being simulated" in each or "--" in each for each in words)


def test_a_workload_that_is_gone_is_said(view, store, qtbot, tmp_path):
    store.set("energy.profile", str(tmp_path / "none.toml"))
    qtbot.waitUntil(lambda: "none.toml" in view.sentence.text())
    assert view.sentence.text().startswith("Not simulated")


def test_a_board_with_a_prior_of_power_is_simulated(view, store, qtbot):
    store.set("energy.duration", 600.0)
    store.set("point", OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8"))
    qtbot.waitUntil(lambda: "tokens/s" in view.sentence.text() and "prior of its class" in view._notes.text())
    assert "--" not in view.sentence.text() + view._notes.text()


def test_choices_of_the_resources_have_names():
    assert set(coolings()) == {"bare", "heatsink", "fan"}
    assert "steady" in workloads()


# ---- work in the background


def test_only_the_newest_wish_is_answered_and_errors_are_handed_over(qtbot, qapp):
    work, got, gate = Background(qapp), [], threading.Event()
    work.run(lambda: gate.wait(10), got.append)
    for i in range(5):
        work.run(lambda i=i: i, got.append)
    gate.set()
    qtbot.waitUntil(lambda: not work.busy)
    assert got == [4]

    def fail():
        raise ValueError("one sentence")

    work.run(fail, got.append)
    qtbot.waitUntil(lambda: len(got) == 2)
    assert str(got[1]) == "one sentence"


def test_work_runs_off_the_gui_thread(qtbot, qapp):
    work, seen = Background(qapp), []
    work.run(threading.get_ident, seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen[0] != threading.get_ident()


def test_notes_and_terms_are_words(hot):
    assert energy_data.note_text("[prior] top clock of 2.4 GHz: no source gives it") == (
        "assumed: top clock of 2.4 GHz, no source gives it"
    )
    assert energy_data.note_text("power covers: the board") == "power covers: the board"
    names = {term: energy_data.term_text(term, hot.device) for term in hot.run.terms_w}
    assert names[energy_data.LEAKAGE] == f"leakage vs {hot.device.leakage_temp_c:.0f} °C"
