"""A campaign driven by blocking calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.campaign.campaign import Campaign
from app.campaign.plan import Run
from app.campaign.recipe import measured
from app.client.blocking_session import AttachedBoard, LinkError
from app.library.files import FileError
from app.library.measurements import Measurement
from app.stopping import deferred
from core.spec import Catalogue


def carry_out(
    board: AttachedBoard,
    campaign: Campaign,
    catalogue: Catalogue,
    machine: str,
    keep: Callable[[Run, Measurement], None],
    show: Callable[[Run, float, str], None],
) -> None:
    """Measure what is left of a campaign, one run after the other.

    Ctrl-C cancels the run on the board; a measurement that `keep` has begun to store is stored before.

    Parameters
    ----------
    board : AttachedBoard
    campaign : Campaign
        Has the failures afterwards.
    catalogue : Catalogue
        Its board "this" is the attached one.
    machine : str
        Key of the attached machine.
    keep : callable
        Stores a measurement.
    show : callable
        Takes a run, how far it is and a phrase of what it does.

    Raises
    ------
    LinkError
        The link was lost, or a run ended for another reason than its point.
    FileError
        Raised by `keep`.
    """
    while campaign.begin_round():
        while (asked := campaign.next()) is not None:
            progress = partial(show, asked)
            try:
                body = board.measure(
                    asked.record, asked.what, progress, model_file=campaign.model_file, options=asked.options
                )
                measurement = measured(asked, body, catalogue, machine)
            except (LinkError, FileError) as error:
                if isinstance(error, LinkError) and error.kind != "failed":
                    raise
                campaign.failed(asked, str(error))
                continue
            with deferred():
                campaign.took(asked, measurement)
                keep(asked, measurement)
