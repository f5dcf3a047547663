"""What saved and imported measurements of a board teach, for commands that predict without attaching it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.agent import board
from app.agent.state import BoardState
from app.cli.shared.output import UserError
from app.library.attention import nearest
from app.library.axes import exists
from app.library.bandwidth import bandwidth_file, measured_here
from app.library.bench import benched
from app.library.calibration import basis_of, known_before, measured_points
from app.library.data_sheet import choices_file, data_sheet_of, described, with_memory
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import Measurement, load_measurements, measurements_file
from app.library.other_boards import imported, imported_file, of_known
from app.library.prediction_curves import r_max
from app.library.registry import THIS, KnownBoard, known_boards, known_file, with_known
from core.calibrate.fit import calibrate
from core.catalogue.load import load_catalogue
from core.predict.changes import Change, changes, steps
from core.predict.scenario import predict
from core.spec import Catalogue, Estimate, OperatingPoint, Posterior


def this_machine() -> str:
    """Return the key under which measurements of this machine are saved, as its agent would be named."""
    return machine_key(_hello_here())


def _hello_here() -> dict[str, Any]:
    """Return what the agent of this machine would say of it, as far as its measurements and data sheet ask."""
    return {
        "board": board.describe(Path("/")),
        "state": {"power_mode": BoardState(Path("/")).power_mode()},
        "can": {"torch": board.torch_version()},
        "models": board.model_files(),
    }


def catalogue_here() -> Catalogue:
    """Return the catalogue with what was measured on this machine, and with the boards that were attached before.

    Raises
    ------
    UserError
        A file that keeps them cannot be read.
    """
    try:
        hello = _hello_here()
        here = catalogue_of(hello, machine_key(hello))
        return with_known(here, known_boards(known_file()), bandwidth_file())
    except FileError as error:
        raise UserError(str(error)) from error


def catalogue_of(hello: Mapping[str, Any], machine: str, plain: Catalogue | None = None) -> Catalogue:
    """Return the catalogue whose board "this" is a machine that said hello: its data sheet, and what was measured.

    `plain` is the catalogue before that, by default that of the resources.

    Raises
    ------
    FileError
        A file that keeps what was measured cannot be read.
    """
    catalogue = data_sheet_catalogue(hello, plain)
    this = with_memory(catalogue.boards[THIS], hello)
    catalogue = replace(catalogue, boards={**catalogue.boards, THIS: this})
    return benched(measured_here(catalogue, machine), machine)


def data_sheet_catalogue(hello: Mapping[str, Any], plain: Catalogue | None = None) -> Catalogue:
    """Return the catalogue whose board "this" is as the data sheet of a machine that said hello describes it.

    Raises
    ------
    FileError
        The file that keeps which data sheet it is cannot be read.
    """
    sheet = data_sheet_of(choices_file(), machine_key(hello), hello)
    return described(plain or load_catalogue(), THIS, sheet, simulated=bool(hello.get("simulated")))


def posterior_for(point: OperatingPoint, catalogue: Catalogue, machine: str = "") -> Posterior | None:
    """Return what measurements teach about the point's board, runtime and power mode; None where there are none.

    `machine` is the key of the machine that "this" is; this machine by default.

    Raises
    ------
    UserError
        A file of measurements cannot be read.
    """
    try:
        boards = known_boards(known_file())
        own = _own(point, boards, machine)
        others = []
        if not machine or point.board != THIS:
            others = [m for m in imported(imported_file(), catalogue, boards)[0] if m.point.board == point.board]
    except FileError as error:
        raise UserError(str(error)) from error
    points = [p for p in measured_points([*others, *own], catalogue) if _same(p.point, point, catalogue)]
    if not points:
        return None
    posterior = calibrate(points, catalogue, known=known_before(point, catalogue)).posterior
    if point.board == THIS and not others:
        return posterior
    here = [m for m in (*others, *own) if _same(m.point, point, catalogue)]
    return replace(posterior, basis=basis_of(here, catalogue, posterior.basis))


def changes_of(
    point: OperatingPoint, catalogue: Catalogue, known: Posterior, top1_limit: float | None = None
) -> list[Change]:
    """Return what would make a point faster (scalars only), see `core.predict.changes`, as the dashboard proposes it.

    Pruning goes as far as the accuracy limit allows, or else as the attention measured on the point's board does.

    Raises
    ------
    UserError
        A file of measurements cannot be read.
    """
    try:
        own = _own(point, known_boards(known_file()), "")
    except FileError as error:
        raise UserError(str(error)) from error
    mark = r_max(point, catalogue, known, top1_limit, nearest(own, point))
    taken = steps(point, catalogue, known.bandwidth_byte_s, mark.alpha)
    return changes(predict(point, catalogue, known), taken, lambda one: predict(one, catalogue, known))


def calibrations(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return what there is to calibrate with: a record for each board, runtime and power mode that has decode times.

    Raises
    ------
    UserError
        A file of measurements cannot be read.
    """
    try:
        boards = known_boards(known_file())
        saved = load_measurements(measurements_file(), None)[0]
        here = this_machine()
        own = [m for m in saved if m.machine == here and m.point.board == THIS]
        found = [*own, *of_known(saved, boards), *imported(imported_file(), catalogue, boards)[0]]
    except FileError as error:
        raise UserError(str(error)) from error
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for measurement in found:
        if exists(measurement.point, catalogue) and isinstance(measurement.output("decode_s"), Estimate):
            at = catalogue.resolve(measurement.point)
            groups.setdefault((at.board.key, at.runtime.key, at.mode.key), []).append(measurement)
    return [_described(catalogue.boards[key[0]].name, key, groups[key]) for key in sorted(groups)]


def _described(name: str, key: tuple[str, str, str], measurements: Sequence[Measurement]) -> dict[str, Any]:
    origin = {m.body["decode_s"]["provenance"] + ("" if m.machine else ", imported") for m in measurements}
    return {
        **dict(zip(("board", "runtime", "power_mode"), key, strict=True)),
        "name": name,
        "n_points": len({m.point for m in measurements}),
        "n_measurements": len(measurements),
        "models": sorted({m.point.model for m in measurements}),
        "last_utc": max(m.time_utc for m in measurements) or {"absent": "the imported table does not tell"},
        "provenance": sorted(origin),
    }


def _own(point: OperatingPoint, boards: dict[str, KnownBoard], machine: str) -> list[Measurement]:
    """Return what was measured on the point's board while it was attached."""
    if point.board == THIS:
        return load_measurements(measurements_file(), machine or this_machine())[0]
    known = boards.get(point.board)
    if known is None:
        return []
    return of_known(load_measurements(measurements_file(), known.machine)[0], {known.key: known})


def _same(one: OperatingPoint, other: OperatingPoint, catalogue: Catalogue) -> bool:
    a, b = catalogue.resolve(one), catalogue.resolve(other)
    return (a.board, a.runtime, a.mode) == (b.board, b.runtime, b.mode)
