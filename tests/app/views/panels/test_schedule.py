"""The schedule and scenario views: the same answers as core gives, their files, their refusals, their pictures."""

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtGui import QFontMetrics, QImage
from PySide6.QtWidgets import QFileDialog, QWidget

from app.library.timelines import EXAMPLES, Chain, Graph, Request, Tasks, request_of, timing_of_file
from app.model.commands import undo_stack
from app.model.store import Store
from app.model.verdicts import MINE, Figures, judged, judged_by_limits, known_scenarios
from app.text.schedule_data import Bar, Timeline, content_of
from app.views.panels.scenarios import Scenarios
from app.views.panels.schedule import ScheduleView
from app.views.panels.triangle import Triangle
from app.views.widgets.theme import DARK, Theme
from app.views.widgets.timeline import TimelineView, fitted, round_ticks
from core.catalogue.load import load_catalogue
from core.physics.objectives import judge
from core.spec import Absent, Estimate, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
LATE = """
name = "late"
n_workers = 1
deadline_s = 0.001
[[operation]]
name = "a"
length_s = 0.002
[[operation]]
name = "b"
length_s = 0.001
after = ["a"]
"""
OVERLOADED = """
name = "too much"
[[task]]
name = "x"
cost_s = 0.6
period_s = 1.0
[[task]]
name = "y"
cost_s = 0.6
period_s = 1.0
"""
OWN = """
name = "my robot"
min_accuracy_frac = 0.9
max_latency_s = 0.05
max_energy_j = 1.0
energy_weight = 1.0
"""


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


@pytest.fixture
def schedule(qtbot, store):
    made = ScheduleView(store, undo_stack(), Theme("dark"))
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    qtbot.waitUntil(lambda: made.sentence.text() != "")
    return made


@pytest.fixture
def scenarios(qtbot, store):
    made = Scenarios(store, undo_stack(), Theme("dark"))
    qtbot.addWidget(made)
    made.resize(800, 700)
    made.show()
    return made


# ---- timelines


def test_examples_are_of_three_kinds():
    kinds = [type(timing_of_file(name)) for name in EXAMPLES]
    assert kinds == [Graph, Chain, Tasks]


def test_a_graph_has_one_bar_an_operation_and_its_slack_ends_at_the_deadline():
    found = timing_of_file("schedule")
    shown = content_of(found)
    assert [bar.label for bar in shown.timeline.bars] == [span.name for span in found.made.spans]
    assert max(bar.slack_end for bar in shown.timeline.bars) == pytest.approx(found.plan.deadline_s)
    assert shown.timeline.marks == ((found.plan.deadline_s, "deadline", "bad"),)
    assert "before its deadline" in shown.sentence
    assert shown.holds is True
    for row in range(found.plan.n_workers):  # one operation at a time
        bars = sorted((b.start, b.end) for b in shown.timeline.bars if b.row == row)
        assert all(first[1] <= second[0] + 1e-12 for first, second in pairwise(bars))


def test_a_missed_deadline_is_said(tmp_path):
    path = tmp_path / "late.toml"
    path.write_text(LATE)
    shown = content_of(timing_of_file(str(path)))
    assert shown.holds is False
    assert "200 % after its deadline" in shown.sentence
    assert all(bar.role == "bad" for bar in shown.timeline.bars)


def test_the_published_chain_is_there_strict_and_as_printed():
    found = timing_of_file("pipeline")
    shown = content_of(found)
    strict = [(b.start, b.end) for b in shown.timeline.bars if not b.hollow and b.label == "1"]
    printed = [(b.start, b.end) for b in shown.timeline.bars if b.hollow]
    assert strict == [(0, 8), (8, 20), (20, 23)]
    assert printed == [(0, 8), (6, 18), (18, 21)]
    assert all(b.role == "published" for b in shown.timeline.bars if b.hollow)
    assert "131 cycles" in shown.sentence
    assert "129" in shown.facts[0]


def test_a_worst_response_is_made_of_waiting_interference_and_own_time():
    found = timing_of_file("realtime")
    shown = content_of(found)
    for i, (task, worst) in enumerate(zip(found.given.tasks, found.worst, strict=True)):
        bars = [b for b in shown.timeline.bars if b.row == i and b.end > b.start]
        assert bars[0].start == 0
        assert bars[-1].end == pytest.approx(worst.worst_ns / 1e9)
        assert bars[-1].end - bars[-1].start == pytest.approx(task.cost_ns / 1e9)
        assert found.simulated_ns[i] == worst.worst_ns
    assert "every deadline holds" in shown.sentence


def test_an_overloaded_processor_has_no_bound(tmp_path):
    path = tmp_path / "much.toml"
    path.write_text(OVERLOADED)
    shown = content_of(timing_of_file(str(path)))
    assert shown.holds is False
    assert "y is late" in shown.sentence
    assert shown.table[2][1] == "no bound: overloaded"


def test_the_request_of_a_point_adds_up_and_names_its_worst_wait(store):
    found = request_of(store.point, CATALOGUE, store.prediction, 0.05)
    shown = content_of(found)
    first, token = found.first_token_s.median, found.token_s.median
    assert shown.timeline.bars[0].end == pytest.approx(first)
    assert shown.inside.bars[-1].end == pytest.approx(token, rel=2e-3)
    assert shown.inside.marks[0][0] == 0.05
    assert shown.holds is (found.token_s.q95 <= 0.05)
    assert "P99" in shown.facts[1]
    none = content_of(Request(None, None, {}, 30, 1024, None))
    assert none.timeline.message


@pytest.mark.parametrize("end", [0.37, 1.0, 23.0, 131.0, 9.9e5])
def test_ticks_are_round_and_few(end):
    ticks = round_ticks(end, 8)
    assert 2 <= len(ticks) <= 10
    assert ticks[-1] <= end * (1 + 1e-9)
    step = ticks[1]
    assert step / 10 ** np.floor(np.log10(step) + 1e-9) == pytest.approx(
        round(step / 10 ** np.floor(np.log10(step) + 1e-9))
    )


def test_the_view_follows_the_choice_and_undo(schedule, store, qtbot):
    assert schedule.sentence.text().startswith("A token takes")
    control = schedule.findChild(QWidget, "schedule.file")
    control.setCurrentIndex(control.findData("pipeline"))
    control.activated.emit(control.currentIndex())
    qtbot.waitUntil(lambda: "131 cycles" in schedule.sentence.text())
    assert schedule.table.rowCount() == 3
    assert "QKV" in schedule.timeline.accessibleDescription()
    schedule._stack.undo()
    qtbot.waitUntil(lambda: schedule.sentence.text().startswith("A token takes"))


def test_the_model_of_the_point_is_scheduled_beside_first_in_first_out(schedule, store, qtbot):
    store.set("schedule.file", "model.layer")
    qtbot.waitUntil(lambda: schedule.sentence.text().startswith("One layer of SmolLM2-135M"))
    assert "First in, first out: " in schedule._facts.text()
    store.set("limits.latency", 10.0)
    store.set("schedule.file", "model.token")
    qtbot.waitUntil(lambda: "before its deadline of 10.0 s" in schedule.sentence.text())


def test_a_file_that_is_no_schedule_is_one_sentence(schedule, store, qtbot, tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("[[operation]]\nname = 3\n")
    store.set("schedule.file", str(path))
    qtbot.waitUntil(lambda: "broken.toml" in schedule.sentence.text())
    assert schedule.sentence.text().startswith("It cannot be shown")
    store.set("schedule.file", str(tmp_path / "gone.toml"))
    qtbot.waitUntil(lambda: "gone.toml: cannot be read" in schedule.sentence.text())


def test_a_file_is_chosen_by_a_dialog(schedule, store, qtbot, tmp_path, monkeypatch):
    path = tmp_path / "late.toml"
    path.write_text(LATE)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    schedule._chosen("file")
    assert store.get("schedule.file") == str(path)
    qtbot.waitUntil(lambda: "after its deadline" in schedule.sentence.text())
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    schedule._chosen("file")  # given up
    assert store.get("schedule.file") == str(path)


def colors_of(widget, size=(400, 200)):
    widget.resize(*size)
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


def test_the_timeline_draws_its_deadline_and_as_printed_in_their_colours(qtbot):
    for name, color in (("schedule", DARK.bad), ("pipeline", DARK.published)):
        made = TimelineView(Theme("dark"), "t", "Timeline")
        qtbot.addWidget(made)
        made.show_timeline(content_of(timing_of_file(name)).timeline)
        assert color in colors_of(made, (500, made.height()))


@pytest.mark.parametrize(("next_start", "is_written"), [(8.0, True), (1.5, False)])
def test_a_label_that_does_not_fit_its_bar_is_written_behind_it_where_there_is_room(qtbot, next_start, is_written):
    made = TimelineView(Theme("dark"), "t", "Timeline")
    qtbot.addWidget(made)
    bars = (Bar(0, 0.0, 1.0, "827 µs or more", "accent"), Bar(0, next_start, 10.0, "", "accent"))
    made.show_timeline(Timeline(("a",), bars, "s"))
    made.resize(500, made.height())
    image, (left, per_unit) = made.grab().toImage(), made._scale
    behind = range(int(left + 1.05 * per_unit), int(left + 1.45 * per_unit))
    inks = {image.pixelColor(x, y).lightness() for x in behind for y in range(8, 22)}
    assert (max(inks) - min(inks) > 60) == is_written


@pytest.mark.parametrize(("before_end", "is_written"), [(2.0, True), (8.5, False)])
def test_the_label_of_a_short_bar_at_the_end_is_written_in_front_of_it_where_there_is_room(
    qtbot, before_end, is_written
):
    made = TimelineView(Theme("dark"), "t", "Timeline")
    qtbot.addWidget(made)
    bars = (Bar(0, 0.0, before_end, "", "accent"), Bar(0, 9.8, 10.0, "827 µs or more", "accent"))
    made.show_timeline(Timeline(("a",), bars, "s"))
    made.resize(500, made.height())
    image, (left, per_unit) = made.grab().toImage(), made._scale
    before = range(int(left + 8.7 * per_unit), int(left + 9.7 * per_unit))
    inks = {image.pixelColor(x, y).lightness() for x in before for y in range(8, 22)}
    assert (max(inks) - min(inks) > 60) == is_written


def test_a_label_is_cut_only_where_it_does_not_fit(qapp):
    metrics = QFontMetrics(qapp.font())
    width = metrics.horizontalAdvance("1.26 ms")
    assert {fitted(metrics, "1.26 ms", width + extra) for extra in (6.0, 6.4, 6.9, 40.0)} == {"1.26 ms"}
    assert fitted(metrics, "1.26 ms", width + 5.0).endswith("…")


# ---- scenarios


def figures(a=0.95, t=0.1, e=0.06, p=3.0):
    def value(x):
        return Estimate(x, 0.9 * x, min(1.1 * x, 1.0 if x == a else 2 * x), Provenance.PREDICTED)

    return Figures(value(a), value(t), value(e), value(p), Absent("no prompt"), Absent("not simulated"))


def test_a_scenario_judges_as_core_does():
    scenario = known_scenarios()["industrial"]
    one = judged(scenario, figures())
    verdict = judge(scenario, 0.95, 0.1, 0.06)
    assert one.score == pytest.approx(0.2556774209)
    assert [m.left for m in one.margins] == pytest.approx(
        [float(verdict.accuracy_margin), float(verdict.latency_margin), float(verdict.energy_margin)]
    )
    assert one.feasible
    assert one.margins[1].worse < one.margins[1].left
    assert one.margins[0].worse < one.margins[0].left


def test_the_users_limits_judge_too_and_say_what_is_beyond(store):
    assert judged_by_limits(store.limits, figures()).feasible is None
    store.set("limits.latency", 0.05)
    store.set("limits.accuracy", 0.9)
    one = judged_by_limits(store.limits, figures())
    assert one.feasible is False
    assert one.sentence == "Does not meet my limits: beyond the limit in latency by 100 %."
    assert [m.left for m in one.margins][1] == pytest.approx(-1.0)
    assert one.margins[2].left is None


def test_requests_and_sustained_speed_are_judged_by_the_users_limits(scenarios, store):
    store.set("limits.request", 1e-3)
    store.set("limits.sustained", 10.0)
    store.sustained = Estimate(5.0, 4.0, 6.0, Provenance.PREDICTED)
    store.changed.emit("sustained")
    scenarios.refresh()
    margins = judged_by_limits(store.limits, scenarios._figures(None)).margins
    assert [margin.name for margin in margins[3:]] == ["request P99", "sustained speed"]
    assert margins[3].left < -1.0
    assert margins[4].left == -1.0
    assert "sustained speed by 100 %" in scenarios.sentence.text()
    assert scenarios._context.text() == "Largest context: none, not even one token of context keeps the limits."
    store.set("limits.request", None)
    scenarios.refresh()
    assert scenarios._context.text().startswith("Largest context that keeps latency, request P99 and memory: 8")


def test_a_value_that_is_absent_is_not_judged():
    one = judged(known_scenarios()["v2x"], Figures(*([Absent("no source")] * 6)))
    assert one.feasible is None
    assert "no source" in one.sentence


def test_the_scenario_view_shows_verdict_margins_and_all_scenarios(scenarios, store):
    assert "No limit is set" in scenarios.sentence.text()
    assert scenarios.table.rowCount() == 4
    scenarios._clicked(1, 0)  # the first published one
    assert store.get("scenario") == "industrial"
    assert "industrial inspection" in scenarios.sentence.text()
    assert "latency" in scenarios.triangle.accessibleDescription()
    scenarios._stack.undo()
    assert store.get("scenario") == MINE


def test_a_scenario_of_ones_own_and_one_that_is_broken(scenarios, store, qtbot, tmp_path):
    good, bad = tmp_path / "robot.toml", tmp_path / "bad.toml"
    good.write_text(OWN)
    bad.write_text("name = 1\n")
    store.set("scenario", str(good))
    qtbot.waitUntil(lambda: "my robot" in scenarios.sentence.text())
    assert scenarios.table.rowCount() == 5
    store.set("scenario", str(bad))
    qtbot.waitUntil(lambda: "bad.toml" in scenarios.sentence.text())


def test_the_pinned_point_is_a_ghost_in_the_triangle(scenarios, store, qtbot):
    store.set("scenario", "industrial")
    store.set("pinned", OperatingPoint(context_tokens=4096.0))
    scenarios.refresh()
    assert scenarios.triangle._pinned[0] > scenarios.triangle._used[0]


def test_the_triangle_is_red_only_where_a_limit_is_broken(qtbot):
    for used, filled in (((0.5, 0.5, 0.5), False), ((0.5, 1.3, 0.5), True)):
        made = Triangle(Theme("dark"), "t")
        qtbot.addWidget(made)
        made.show_use(("latency", "accuracy", "energy"), used)
        assert (DARK.accent not in colors_of(made, (300, 260))) is filled
