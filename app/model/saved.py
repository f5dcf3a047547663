"""What the files keep of a machine: measurements, bandwidth, kernels, betas. The log is told what fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.library import axes
from app.library.bandwidth import (
    bandwidth_file,
    better,
    disturbed,
    learned,
    load_bandwidth,
    read_record,
    save_bandwidth,
)
from app.library.bench import RUNTIME, bench_file, load_bench
from app.library.beta import beta_file, load_beta
from app.library.data_sheet import (
    DataSheet,
    choices_file,
    choose,
    data_sheet_of,
    described,
    sheet_sentence,
    with_memory,
)
from app.library.files import FileError
from app.library.measurements import Measurement, append_measurement, load_measurements
from app.library.other_boards import imported, imported_file, of_known
from app.library.registry import THIS, KnownBoard, known_boards, known_file, remember, with_known
from app.model.store import Store
from core.calibrate.bench_priors import taught
from core.spec import Absent

_BUSY = "Other programs ran while the memory bandwidth was measured"


class Saved:
    """The files of one folder, and what they teach the store.

    Parameters
    ----------
    store : Store
        Its log is told what cannot be read or written.
    measurements_file : Path
        The others are beside it.

    Attributes
    ----------
    data_sheet : Catalogue
        The store's before anything was measured: its board "this" is as the attached one's data sheet says.
    sheet : DataSheet or Absent
        Of the board that is attached.
    bandwidth_of : str
        The machine whose bandwidth the store knows; "" while it knows none.
    bandwidth_disturbed : bool
        Whether other programs ran while it was measured.
    """

    def __init__(self, store: Store, measurements_file: Path) -> None:
        self._store, self._file = store, measurements_file
        self._bandwidth_file = measurements_file.with_name(bandwidth_file().name)
        self._any_machine = self.data_sheet = store.catalogue
        self.sheet: DataSheet | Absent = Absent("no board is attached")
        self.bandwidth_of, self.bandwidth_disturbed = "", False

    def teach(self, machine: str, name: str, hello: Mapping[str, Any]) -> None:
        """Make of the data sheet what was measured of a machine; what another board has taught is not of this one."""
        self.sheet = self.sheet_of(machine, hello)
        any_machine = self._any_machine
        this = any_machine.boards[THIS]
        named = replace(any_machine, boards={**any_machine.boards, THIS: replace(this, name=name or this.name)})
        self.data_sheet = described(named, THIS, self.sheet, simulated=bool(hello.get("simulated")))
        this, runtime = self.data_sheet.boards[THIS], self.data_sheet.runtimes[RUNTIME]
        this = with_memory(this, hello)
        self.bandwidth_of, self.bandwidth_disturbed = "", False
        if (bandwidth := self._bandwidth(machine)) is not None:
            this, self.bandwidth_of = learned(this, bandwidth), machine
            self.bandwidth_disturbed = disturbed(bandwidth)
        runtime = taught(runtime, self._bench(machine))
        known = self._store.catalogue
        if (this, runtime) != (known.boards[THIS], known.benched.get((THIS, RUNTIME), known.runtimes[RUNTIME])):
            self._store.set_board(this, runtime, self.data_sheet.published)

    def meet(self, machine: str, name: str, hello: Mapping[str, Any], not_here: str) -> bool:
        """Make everything in the store that of the machine that said hello; tell whether it is worth remembering.

        `name` is "" for the machine that the program runs on, `not_here` why nothing can be measured on it.
        """
        store = self._store
        self.teach(machine, name, hello)
        self.offer_known(machine)
        if isinstance(self.sheet, DataSheet) or name:
            store.say("info", sheet_sentence(self.sheet, "the board's panel"))
        if store.calibration is not None:
            store.set_calibration(None)
        own, elsewhere = self.measurements(machine, this=not name)
        store.set_machine(machine, own, not_here, self.beta(machine), elsewhere)
        return bool(own) or isinstance(self.sheet, DataSheet)

    def choose_sheet(self, machine: str, key: str) -> None:
        """Keep which data sheet the user wants for a machine; "" to find it again."""
        try:
            choose(self._file.with_name(choices_file().name), machine, key)
        except FileError as error:
            self._store.say("error", str(error))

    def sheet_of(self, machine: str, hello: Mapping[str, Any]) -> DataSheet | Absent:
        """Return the data sheet of the machine that said hello, or why there is none."""
        try:
            return data_sheet_of(self._file.with_name(choices_file().name), machine, hello)
        except FileError as error:
            self._store.say("warning", str(error))
            return Absent(str(error))

    def take_bandwidth(self, body: Mapping[str, Any]) -> None:
        """Teach the store the bandwidth that was measured of its machine, and keep it."""
        record = read_record(body)
        if record is None:
            reason = body.get("read_byte_s", {}).get("absent", "no result")
            self._store.say("warning", f"The memory bandwidth was not measured: {reason}.")
            return
        machine = self._store.machine
        counts = better(record, self._bandwidth(machine))
        self.bandwidth_of, self.bandwidth_disturbed = machine, disturbed(counts)
        if counts is not record:
            self._store.say("warning", f"{_BUSY}: the faster one before it counts.")
        elif self.bandwidth_disturbed:
            self._store.say("warning", f"{_BUSY}: it is measured again after the calibration, or at the next start.")
        self._store.set_board(learned(self._store.catalogue.boards[THIS], counts))
        try:
            save_bandwidth(self._bandwidth_file, machine, record)
        except FileError as error:
            self._store.say("error", str(error))

    def take_measurement(self, measurement: Measurement) -> bool:
        """Give the store a measurement of its machine, and keep it; tell whether it is kept."""
        self._store.add_measurement(measurement)
        try:
            append_measurement(self._file, measurement)
        except FileError as error:
            self._store.say("error", str(error))
            return False
        return True

    def measurements(self, machine: str, *, this: bool) -> tuple[list[Measurement], list[Measurement]]:
        """Return what was measured on a machine, and elsewhere, of points that can still be named.

        Elsewhere is on boards attached before, and by others in imported rows; rows of the machine have the board
        "this" in their points. `this` is whether it is the one that the program runs on.
        """
        boards = self.known()
        try:
            saved, notes = load_measurements(self._file, None)
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
            return known_boards(self._file.with_name(known_file().name))
        except FileError as error:
            self._store.say("warning", str(error))
            return {}

    def offer_known(self, machine: str) -> None:
        """Give the store the boards that were attached before; the one that is attached now is the point's "this"."""
        store, known = self._store, self.known()
        try:
            away = {key: board for key, board in known.items() if board.machine != machine}
            offered = with_known(store.catalogue, away, self._bandwidth_file)
        except FileError as error:
            store.say("warning", str(error))
            return
        for key, board in offered.boards.items():
            if store.catalogue.boards.get(key) != board:
                store.set_board(board, published=offered.published)
        at = known.get(store.point.board)
        if at is not None and at.machine == machine:
            store.set("point.board", THIS)

    def remember(self, target: str, hello: Mapping[str, Any]) -> None:
        """Keep which machine a target is."""
        try:
            remember(self._file.with_name(known_file().name), target, hello)
        except FileError as error:
            self._store.say("warning", str(error))

    def _imported(self, boards: Mapping[str, KnownBoard]) -> list[Measurement]:
        try:
            return imported(self._file.with_name(imported_file().name), self._store.catalogue, boards)[0]
        except FileError as error:
            self._store.say("warning", str(error))
            return []

    def _existing(self, measurements: list[Measurement]) -> list[Measurement]:
        return [measurement for measurement in measurements if axes.exists(measurement.point, self._store.catalogue)]

    def beta(self, machine: str) -> dict[str, float]:
        """Return what each instruction set was worth on a machine."""
        try:
            return load_beta(self._file.with_name(beta_file().name), machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return {}

    def _bench(self, machine: str) -> list[dict[str, Any]]:
        """Return what the kernels of a machine reached; nothing where they were not benched."""
        try:
            return load_bench(self._file.with_name(bench_file().name), machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return []

    def _bandwidth(self, machine: str) -> dict[str, float] | None:
        """Return the read bandwidth of a machine; None where it was not measured."""
        try:
            return load_bandwidth(self._bandwidth_file, machine)
        except FileError as error:
            self._store.say("warning", str(error))
            return None
