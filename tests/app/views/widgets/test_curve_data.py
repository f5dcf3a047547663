"""Data of a curve card without its drawing."""

from dataclasses import replace

import numpy as np

from app.client.events import Channel
from app.text.names import accuracy_note
from app.text.quantities import LATENCY
from app.views.widgets.curve_data import curve_data, held_range
from tests.app.views.parts import CATALOGUE


def test_power_that_no_sensor_reads_is_not_called_not_measured_yet(store):
    why = "no power sensor on this machine: it is a virtual one"
    store.set_link(state="attached", channels=(Channel("board.power_w", "W", "", None, absent=why),))
    assert store.measured("power_w").reason == why
    assert store.measured("energy_j_per_token").reason == why
    assert "sensor" not in store.measured("decode_s").reason
    both = (*store.link.channels, Channel("soc.power_w", "W", "hwmon", 0.1))
    store.set_link(channels=both)
    assert "sensor" not in store.measured("power_w").reason


def test_accuracy_says_what_it_is_relative_to(curves, store):
    assert "(4-bit Q4_1): formats at or above it round only activations" in accuracy_note(store.point, CATALOGUE)
    assert curves.cards[2]._note.text() == accuracy_note(store.point, CATALOGUE)
    store.set("point.runtime", "llamacpp_gpu")
    store.set("point.model", "gpt-oss-20b")
    assert "(4-bit MXFP4" in accuracy_note(store.point, CATALOGUE)


def test_the_vertical_range_holds_still_until_it_must_move():
    have = (0.0, 10.0)
    assert held_range(have, [np.array([1.0, 9.0])]) == have
    assert held_range(have, [np.array([1.0, 11.0]), None, np.nan])[1] > 11.0
    assert held_range(have, [np.array([2.0, 3.0])])[1] < 4.0
    assert 1.0 <= held_range(have, [np.array([0.97, 1.0])], least=0.0, most=1.0)[1] < 1.01
    assert held_range(have, [np.array([np.nan])]) == have


def test_the_words_of_a_plot_are_those_of_its_data(store):
    data = curve_data(store, LATENCY)
    assert data.reading(0.3, 0.01).startswith("0.304: ")
    assert "against KV prune rate α" in data.description()


def test_one_long_error_bar_does_not_flatten_the_curve(store):
    data = curve_data(store, LATENCY)
    at = np.array([float(data.x[3])])
    far = replace(data, dots=(at, np.array([0.01]), np.array([0.009]), np.array([12.0])))
    held = np.concatenate([np.ravel(v) for v in far.y_values if v is not None])
    assert held.max() <= 3 * max(float(data.q95.max()), 0.01)
    outlier = replace(data, dots=(at, np.array([12.0]), np.array([11.0]), np.array([13.0])))
    assert max(np.max(v) for v in outlier.y_values if v is not None) >= 12.0  # a dot is always in the picture
