"""The measurement that the result of a run is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.campaign.plan import ACCURACY, Run
from app.library.measurements import OUTPUTS_OF, Measurement, answers, check_body, ran, ran_elsewhere
from core.calibrate.disturbance import degree
from core.spec import Catalogue

DISTURBED_DEGREE = 0.5


def measured(run: Run, body: Mapping[str, Any], catalogue: Catalogue, machine: str) -> Measurement:
    """Return the result of a run as a measurement, now, of the point that really ran.

    Outputs that were not asked for are left out; the options of the run join its conditions, and what the board ran
    instead of it joins the notes.

    Raises
    ------
    FileError
        An output is no value, or a field of the point is of another type.
    """
    found = answers(body, run.what)
    check_body(found, "the result")
    if run.options:
        found["conditions"] = {**found.get("conditions", {}), "options": dict(run.options)}
    if elsewhere := ran_elsewhere(run.point, found, catalogue):
        found["notes"] = [*found.get("notes", ()), *elsewhere]
    time_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Measurement(ran(run.point, found, catalogue), found, time_utc, machine)


def tells(measurement: Measurement, what: Iterable[str]) -> bool:
    """Whether a measurement has the outputs of parts of a run, be they absent with a reason."""
    return all(OUTPUTS_OF[part][0] in measurement.body for part in what if part in OUTPUTS_OF)


def undisturbed(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return measurements without the times of those that other programs disturbed for the most part."""
    return [
        replace(m, body=answers(m.body, ACCURACY)) if degree(m.body.get("conditions", {})) > DISTURBED_DEGREE else m
        for m in measurements
    ]
