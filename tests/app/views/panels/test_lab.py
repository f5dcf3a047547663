"""The lab view: fields, plot and sentence of each item; undo; one sentence for a bad input."""

import pytest

from app.text.lab.table import LABS
from app.views.panels.lab import LabView
from tests.app.views.parts import shown


@pytest.fixture
def view(qtbot, store, stack, theme):
    made = shown(qtbot, LabView(store, stack, theme), (1000, 800))
    qtbot.waitUntil(lambda: bool(made.card.chart.series))
    return made


def _type(field, text):
    field.setText(text)
    field.setModified(True)
    field.editingFinished.emit()


def test_a_typed_value_changes_results_and_plot_and_undo_brings_it_back(view, qtbot, store, stack):
    assert view.sentence.text().startswith("32 open misses reach 51.2 GB/s")
    _type(view.fields["lab.A03.latency"], "20 ns")
    assert store.get("lab.A03.latency") == pytest.approx(20e-9)
    qtbot.waitUntil(lambda: view.sentence.text().startswith("32 open misses reach 102 GB/s"))
    assert view.card.chart.rules[0].at == pytest.approx(20e-9)
    stack.undo()
    qtbot.waitUntil(lambda: view.sentence.text().startswith("32 open misses reach 51.2 GB/s"))


@pytest.mark.parametrize("key", ["A04", "B15"])
def test_another_item_shows_its_own_fields(view, qtbot, store, key):
    store.set("lab.item", key)
    qtbot.waitUntil(lambda: LABS[key].drawn and len(view.card.chart.series) == len(LABS[key].drawn))
    fields = {path for path, field in view.fields.items() if field.isVisible()}
    assert fields == {f"lab.{key}.{one.option}" for one in LABS[key].inputs}
    rows = [parts for parts in view.results if parts[0].isVisible()]
    assert [parts[0].text() for parts in rows] == [one.label for one in LABS[key].outputs]
    assert all(parts[1].text() != "–" for parts in rows)


def test_a_bad_input_is_one_sentence_and_changes_nothing(view, store):
    for text in ("", "40", "nan", "-4 ns", "1e9 s"):
        _type(view.fields["lab.A03.latency"], text)
        assert view._wrong.isVisible()
        assert view._wrong.text().startswith("Latency: got")
        assert store.get("lab.A03.latency") == LABS["A03"].defaults["latency_s"]


def test_values_that_contradict_each_other_have_no_result(view, qtbot, store):
    store.set("lab.item", "A04")
    store.set("lab.A04.middle-share", 0.5)
    qtbot.waitUntil(lambda: view.sentence.text().startswith("No result: Hit rate and middle share"))
    assert view.results[0][1].text() == "–"
    view.back.click()
    qtbot.waitUntil(lambda: view.sentence.text().startswith("With 0.82"))


def test_the_plot_goes_along_the_chosen_input(view, qtbot, store):
    store.set("lab.A03.along", "open-misses")
    qtbot.waitUntil(lambda: view.card.chart.x[0] == "open misses")


@pytest.mark.parametrize("width", [480, 560, 1000])
def test_the_choice_of_the_item_and_its_button_do_not_overlap(view, qtbot, width):
    view.resize(width, 800)
    qtbot.waitUntil(lambda: view.width() == width and view._choice.width() > 0)
    assert view._choice.geometry().right() < view.back.geometry().left()
    assert view.back.geometry().right() <= view.back.parentWidget().width()
