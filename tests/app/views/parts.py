"""Parts that tests of the panels and the widgets share."""

from app.library.measurements import Measurement
from core.catalogue.load import load_catalogue

CATALOGUE = load_catalogue()


def measured(store, **outputs):
    body = {
        name: {"median": v, "q05": v * 0.95, "q95": v * 1.05, "n": 9, "provenance": "measured"}
        for name, v in outputs.items()
    }
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", store.machine))


def shown(qtbot, made, size=(900, 700)):
    qtbot.addWidget(made)
    made.resize(*size)
    made.show()
    qtbot.waitExposed(made)
    return made
