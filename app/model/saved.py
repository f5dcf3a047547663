"""What the files keep of a machine: measurements, bandwidth, kernels, betas; the log is told what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.model import axes
from app.model.bandwidth import bandwidth_file, load_bandwidth
from app.model.bench import bench_file, load_bench
from app.model.beta import beta_file, load_beta
from app.model.elsewhere import imported, imported_file, of_known
from app.model.files import FileError
from app.model.known import THIS, KnownBoard, known_boards, known_file, remember, with_known
from app.model.measurements import Measurement, load_measurements
from app.model.store import Store


class Saved:
    """Reads the files of one folder.

    Parameters
    ----------
    store : Store
        Its log is told what cannot be read.
    measurements_file : Path
        The others are beside it.
    """

    def __init__(self, store: Store, measurements_file: Path) -> None:
        self._store, self.file = store, measurements_file
        self.bandwidth_file = measurements_file.with_name(bandwidth_file().name)

    def measurements(self, machine: str, *, this: bool) -> tuple[list[Measurement], list[Measurement]]:
        """Return what was measured on a machine, and elsewhere, of points that can still be named.

        Elsewhere is on boards attached before, and by others in imported rows; rows of the machine have the board
        "this" in their points. `this` is whether it is the one that the program runs on.
        """
        boards = self.known()
        try:
            saved, notes = load_measurements(self.file, None)
        except FileError as error:
            saved, notes = [], [str(error)]
        for note in notes:
            self._store.say("warning", note)
        away = {board.key: board for board in boards.values() if board.machine != machine}
        here = {key for key in boards if key not in away} | ({THIS} if this else set())
        others = of_known(saved, away)
        for measurement in self._imported(boards):
            board = measurement.point.board
            if board in here:
                others.append(replace(measurement, point=replace(measurement.point, board=THIS)))
            elif board != THIS:
                others.append(measurement)
        own = [measurement for measurement in saved if measurement.machine == machine]
        return self._existing(own), self._existing(others)

    def known(self) -> dict[str, KnownBoard]:
        """Return the boards that were attached before."""
        try:
            return known_boards(self.file.with_name(known_file().name))
        except FileError as error:
            self._store.say("warning", str(error))
            return {}

    def offer_known(self, machine: str) -> None:
        """Give the store the boards that were attached before; the one that is attached now is the point's "this"."""
        store, known = self._store, self.known()
        try:
            away = {key: board for key, board in known.items() if board.machine != machine}
            offered = with_known(store.catalogue, away, self.bandwidth_file)
        except FileError as error:
            store.say("warning", str(error))
            return
        for key, board in offered.boards.items():
            if store.catalogue.boards.get(key) != board:
                store.set_board(board)
        at = known.get(store.point.board)
        if at is not None and at.machine == machine:
            store.set("point.board", THIS)

    def remember(self, target: str, hello: Mapping[str, Any]) -> None:
        """Keep which machine a target is."""
        try:
            remember(self.file.with_name(known_file().name), target, hello)
        except FileError as error:
            self._store.say("warning", str(error))

    def _imported(self, boards: Mapping[str, KnownBoard]) -> list[Measurement]:
        try:
            return imported(self.file.with_name(imported_file().name), self._store.catalogue, boards)[0]
        except FileError as error:
            self._store.say("warning", str(error))
            return []

    def _existing(self, measurements: list[Measurement]) -> list[Measurement]:
        return [measurement for measurement in measurements if axes.exists(measurement.point, self._store.catalogue)]

    def beta(self, machine: str) -> dict[str, float]:
        """Return what each instruction set was worth on a machine."""
        try:
            return load_beta(self.file.with_name(beta_file().name), machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return {}

    def bench(self, machine: str) -> list[dict[str, Any]]:
        """Return what the kernels of a machine reached; nothing where they were not benched."""
        try:
            return load_bench(self.file.with_name(bench_file().name), machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return []

    def bandwidth(self, machine: str) -> dict[str, float] | None:
        """Return the read bandwidth of a machine; None where it was not measured."""
        try:
            return load_bandwidth(self.bandwidth_file, machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return None
