"""Marks of provenance without colour: dashes and symbols."""

from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QImage, QPainter

from app.text.quantities import WORDS
from app.views.panels.legend import ENTRIES
from app.views.widgets.marks import DASHES, draw_symbol
from core.spec import Provenance


def test_a_prediction_is_dashed_and_a_calibration_solid():
    patterns = [DASHES[p] for p in (Provenance.CALIBRATED, Provenance.PREDICTED, Provenance.AS_PUBLISHED)]
    assert len(set(patterns)) == 3
    assert set(WORDS) == set(Provenance)
    assert {kind for kind, _ in ENTRIES} >= {p.value for p in Provenance}


SYMBOLIC = (Provenance.MEASURED, Provenance.PUBLISHED, Provenance.SIMULATED)


def test_each_provenance_draws_its_own_symbol(qapp):
    def drawn(which):
        image = QImage(20, 20, QImage.Format.Format_RGB32)
        image.fill(QColor("white"))
        painter = QPainter(image)
        draw_symbol(painter, QPointF(10, 10), which, QColor("black"), QColor("white"))
        painter.end()
        return bytes(image.constBits())

    assert len({drawn(p) for p in SYMBOLIC}) == 3
