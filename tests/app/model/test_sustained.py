from PySide6.QtCore import QObject

from app.library.endurance import Around, sustained_speed
from app.model.explained import explained
from app.model.store import Store
from app.model.sustained import SustainedSpeed, around
from core.catalogue.load import load_catalogue
from core.spec import Absent, Estimate, OperatingPoint

CATALOGUE = load_catalogue()
PI = OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_k_m", model="qwen2.5-1.5b")


def test_the_speed_is_simulated_while_it_has_a_limit_and_judged(qtbot):
    store, parent = Store(CATALOGUE, PI), QObject()
    follower = SustainedSpeed(store, parent)
    store.set("energy.duration", 60.0)
    assert isinstance(store.sustained, Absent)
    expected = sustained_speed(PI, CATALOGUE, None, around(store))
    assert isinstance(expected, Estimate)
    store.set("limits.sustained", 2 * float(expected.median))
    qtbot.waitUntil(lambda: isinstance(store.sustained, Estimate), timeout=60_000)
    assert store.sustained == expected
    assert [one.output for one in explained(store).missed] == ["sustained_tokens_s"]
    store.set("limits.sustained", 0.5 * float(expected.median))
    assert explained(store).missed == ()
    qtbot.waitUntil(lambda: not (follower._work.busy or follower._later.isActive()), timeout=60_000)


def test_a_board_that_gets_hot_sustains_less():
    top = sustained_speed(PI, CATALOGUE, None, Around(cooling="fan", ambient=10.0))
    hot = sustained_speed(PI, CATALOGUE, None, Around(cooling="bare", ambient=60.0))
    assert hot.median < top.median


def test_the_reason_is_said_where_nothing_can_be_simulated():
    found = sustained_speed(PI, CATALOGUE, None, Around(cooling="ice"))
    assert found.reason.startswith("sustained operation is not simulated: cooling: got 'ice'")
