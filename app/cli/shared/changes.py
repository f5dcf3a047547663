"""The changes that would make a point faster, as the dashboard proposes them."""

from __future__ import annotations

from app.library.attention import nearest
from app.library.board_library import BoardLibrary
from app.library.prediction_curves import r_max
from core.predict.changes import Change, changes, steps
from core.predict.scenario import predict
from core.spec import Catalogue, OperatingPoint, Posterior


def changes_of(
    point: OperatingPoint,
    catalogue: Catalogue,
    known: Posterior,
    library: BoardLibrary,
    top1_limit: float | None = None,
) -> list[Change]:
    """Return what would make a point faster (scalars only), see `core.predict.changes`.

    Pruning goes as far as the accuracy limit allows, or else as the attention measured on the point's board does.
    """
    mark = r_max(point, catalogue, known, top1_limit, nearest(library.evidence(catalogue), point))
    taken = steps(point, catalogue, known.bandwidth_byte_s, mark.alpha)
    return changes(predict(point, catalogue, known), taken, lambda one: predict(one, catalogue, known))
