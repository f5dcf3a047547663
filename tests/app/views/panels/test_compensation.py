"""The card of compensation: empty, before and after, the live set, its two commands."""

from dataclasses import replace

import pytest

from app.library.measurements import Measurement, check_body
from app.model.store import Store
from app.text import compensation_text
from app.views.panels.compensation import NOTHING, CompensationCard
from app.views.panels.loop import LoopView
from app.views.widgets.theme import Theme
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
LIVE = {"n_channels": 34560, "epoch": 3, "crc": 0x1A}
LIVE |= {"context": {"chip": "A chip", "version": "1", "model": "m 1f", "weights": "int4_g128", "compensation": "both"}}


def value(median, q05, q95):
    return {"median": median, "q05": q05, "q95": q95, "n": 9, "provenance": "measured"}


def side(loss, decode_s):
    return {
        "top1_loss": value(loss, loss - 0.01, loss + 0.01),
        "top1_agreement": value(0.7, 0.6, 0.8),
        "mean_kl": value(0.4, 0.3, 0.5),
        "perplexity_ratio": value(1.6, 1.5, 1.7),
        "decode_s": decode_s,
    }


EFFECT = {
    "kind": "both",
    "without": side(0.052, value(2.5e-3, 2.4e-3, 2.6e-3)),
    "with": side(0.002, {"absent": "not timed"}),
    "change": {
        "top1_loss": value(-0.05, -0.063, -0.036),
        "decode_ratio": value(1.01, 0.985, 1.027),
        "perplexity_ratio": value(0.72, 0.69, 0.75),
    },
    "drift_sd": [0.3, 0.1],
    "installed": {
        "epoch": 3,
        "crc": 26,
        "n_channels": 34560,
        "n_message": 68,
        "payload_byte": 138389,
        "total_s": 0.006,
    },
}


def measurement(weights="int4_g128", kind="both"):
    body = {"compensation": EFFECT | {"kind": kind}, "conditions": {"quality_windows": 8}}
    check_body(body, "the result")
    point = OperatingPoint(weights=weights, compensation=kind)
    return Measurement(point, body, "2026-12-01T14:40:00+00:00", "m")


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE, OperatingPoint(weights="int4_g128"))


@pytest.fixture
def card(qtbot, store):
    made = CompensationCard(store)
    qtbot.addWidget(made)
    made.refresh()
    return made


def test_an_empty_card_says_what_to_do(card, store):
    assert card.summary.text() == NOTHING
    assert card.labels == []
    assert card.published.isHidden()
    assert not card.back.isEnabled()


def test_before_and_after_stand_beside_what_is_published(card, store):
    store.set_machine("m", [measurement()])
    card.refresh()
    said = "5.2 % without, 0.2 % with offsets and error feedback (both loops)"
    assert card.summary.text() == f"Loss of top-1 accuracy: {said}."
    assert "3.2 %" in card.published.text()
    rows = [[part.text() for part in parts] for parts in card.labels]
    assert rows[0] == ["", "without", "with", "change"]
    assert rows[1] == ["top-1 loss", "5.2 %", "0.2 %", "−5.0 points [−6.3 – −3.6]"]
    assert card.labels[1][1].toolTip().startswith("5.2 % [4")
    assert rows[4][3] == "x 0.720 [0.690 – 0.750]"
    assert rows[5][1:] == ["2.50 ms", "not timed", "x 1.010 [0.985 – 1.027]"]
    assert "8 windows of text" in card.at.text()
    assert "drift 0.300 to 0.100 standard deviations in 2 rounds" in card.how.text()


def test_the_newest_of_the_weights_on_the_screen_is_shown_else_the_newest(card, store):
    store.set_machine("m", [measurement("int8", "offsets"), measurement(kind="feedback"), measurement("int3")])
    assert compensation_text.effect_of(store.measurements, "int8").point.weights == "int8"
    assert compensation_text.effect_of(store.measurements, "int4").point.weights == "int3"
    assert compensation_text.effect_of([], "int4") is None
    card.refresh()
    assert "error feedback (inner loop)" in card.summary.text()


def test_the_live_set_is_named_and_can_be_rolled_back(card, store, qtbot):
    store.set_machine("m", [], "")
    store.set_link(state="attached", hello={"parameters": LIVE, "can": {"measure": True}, "models": [{}]})
    card.refresh()
    assert card.live.text() == (
        "Live: 34560 channels for int4_g128 weights of m 1f (compensation both), made on A chip, epoch 3, "
        "checksum 0x0000001a."
    )
    with qtbot.waitSignal(card.commanded) as asked:
        card.back.click()
    assert asked.args == ["rollback"]
    with qtbot.waitSignal(card.commanded) as asked:
        card.go.click()
    assert asked.args == ["compensate"]


@pytest.mark.parametrize("said", [{}, {"n_channels": None}, {"n_channels": "many", "epoch": [], "crc": {}}])
def test_what_a_board_says_of_no_set_or_wrongly_is_no_set(said):
    assert compensation_text.live_sentence(said) == "No parameter set is live on this board."


def test_the_reference_is_not_compensated(card, store):
    store.set_machine("m", [], "")
    store.set_link(state="attached", hello={"can": {"measure": True}, "models": [{}]})
    card.refresh()
    assert card.go.isEnabled()
    store.set("point", replace(store.point, weights="fp32"))
    card.refresh()
    assert not card.go.isEnabled()


def test_the_loop_view_hands_its_commands_on(qtbot, store):
    view = LoopView(store, None, Theme())
    qtbot.addWidget(view)
    with qtbot.waitSignal(view.commanded) as asked:
        view.compensation.commanded.emit("compensate")
    assert asked.args == ["compensate"]
