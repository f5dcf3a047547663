"""The attached board in the store: what the library knows of it, and what is measured of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.library.axes import exists
from app.library.bandwidth import better, disturbed, read_record, with_bandwidth
from app.library.board_library import RUNTIME, BoardLibrary
from app.library.data_sheet import DataSheet, sheet_sentence
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import Measurement
from app.library.registry import THIS
from app.model.store import Store
from core.spec import Absent, Catalogue

_BUSY = "Other programs ran while the memory bandwidth was measured"


class AttachedBoard:
    """Keeps store and library in step for the attached board: known facts go to the store, measurements to both.

    Parameters
    ----------
    store : Store
        Its log names values that cannot be kept.
    library : BoardLibrary

    Attributes
    ----------
    data_sheet : Catalogue
        The catalogue before anything was measured: its board "this" is as the data sheet says.
    sheet : DataSheet or Absent
    bandwidth_of : str
        The machine whose bandwidth the store knows; "" while it knows none.
    bandwidth_disturbed : bool
        Whether other programs ran while it was measured.
    """

    def __init__(self, store: Store, library: BoardLibrary) -> None:
        self._store, self.library = store, library
        self._plain = self.data_sheet = store.catalogue
        self.sheet: DataSheet | Absent = Absent("no board is attached")
        self.bandwidth_of, self.bandwidth_disturbed = "", False

    def meet(self, name: str, hello: Mapping[str, Any], not_here: str) -> bool:
        """Load the store for the machine that sent its hello; return True if it should be remembered.

        `name` is "" for the machine that the program runs on, `not_here` why nothing can be measured on it.
        """
        store, library, machine = self._store, self.library, machine_key(hello)
        self._describe(machine, name, hello)
        at = library.boards().get(store.point.board)
        if at is not None and at.machine == machine:
            store.set("point.board", THIS)
        if isinstance(self.sheet, DataSheet) or name:
            store.say("info", sheet_sentence(self.sheet, "the board's panel"))
        if store.calibration is not None:
            store.set_calibration(None)
        own, elsewhere = library.measurements(store.catalogue, machine)
        store.set_machine(machine, own, not_here, library.betas(machine), elsewhere)
        return bool(own) or isinstance(self.sheet, DataSheet)

    def _describe(self, machine: str, name: str, hello: Mapping[str, Any]) -> None:
        """Make the store's board "this" what the library knows of a machine, and offer those attached before."""
        store, library, this = self._store, self.library, self._plain.boards[THIS]
        plain = replace(self._plain, boards={**self._plain.boards, THIS: replace(this, name=name or this.name)})
        self.sheet = library.data_sheet(hello)
        self.data_sheet = library.data_sheet_catalogue(hello, plain)
        bandwidth = library.bandwidth(machine)
        self.bandwidth_of = "" if bandwidth is None else machine
        self.bandwidth_disturbed = bandwidth is not None and disturbed(bandwidth)
        show(library.catalogue(hello, plain=plain), store)

    def take_bandwidth(self, body: Mapping[str, Any]) -> None:
        """Take the measured bandwidth of the board."""
        record = read_record(body)
        if record is None:
            reason = body.get("read_byte_s", {}).get("absent", "no result")
            self._store.say("warning", f"The memory bandwidth could not be measured: {reason}.")
            return
        machine = self._store.machine
        counts = better(record, self.library.bandwidth(machine))
        self.bandwidth_of, self.bandwidth_disturbed = machine, disturbed(counts)
        if counts is not record:
            self._store.say("warning", f"{_BUSY}: the earlier, faster value is kept.")
        elif self.bandwidth_disturbed:
            self._store.say("warning", f"{_BUSY}: it is measured again after the calibration, or at the next start.")
        self._store.set_board(with_bandwidth(self._store.catalogue.boards[THIS], counts))
        self._kept(lambda: self.library.set_bandwidth(machine, record))

    def take_measurement(self, measurement: Measurement) -> bool:
        """Take a measurement of the board; return True if it was kept."""
        if exists(measurement.point, self._store.catalogue):
            self._store.add_measurement(measurement)
        return self._kept(lambda: self.library.add(measurement))

    def choose_sheet(self, machine: str, key: str) -> None:
        """Keep which data sheet the user wants for a machine; "" to find it again."""
        self._kept(lambda: self.library.set_data_sheet(machine, key))

    def remember(self, target: str, hello: Mapping[str, Any]) -> None:
        """Keep which machine a target is."""
        self._kept(lambda: self.library.remember_target(target, hello))

    def _kept(self, keep: Callable[[], None]) -> bool:
        try:
            keep()
        except FileError as error:
            self._store.say("error", str(error))
            return False
        return True


def show(catalogue: Catalogue, store: Store) -> None:
    """Give the store the boards of a catalogue that it has otherwise."""
    for key, board in catalogue.boards.items():
        known, runtime = store.catalogue, catalogue.bench_runtimes.get((key, RUNTIME)) if key == THIS else None
        benched = known.bench_runtimes.get((key, RUNTIME), known.runtimes[RUNTIME])
        if (board, runtime or benched) != (known.boards.get(key), benched):
            store.set_board(board, runtime, catalogue.board_posteriors)
