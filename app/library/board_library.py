"""`BoardLibrary`: the records of boards on disk, and the catalogue and posterior that follow from them.

All commands and the dashboard use it, so they agree on the measurements that count (docs/adr/0004). A folder holds one
document a machine (`app.library.board_document`), the measurements of all machines and the imported table. A damaged
document is renamed and reported in one sentence, and everything else works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from app.library.axes import exists
from app.library.bandwidth import better, with_bandwidth
from app.library.board_document import (
    OLDER,
    Bandwidth,
    BenchRow,
    BoardDocument,
    Interval,
    decoded,
    document_name,
    encoded,
    older_documents,
)
from app.library.data_sheet import DataSheet, check_choice, data_sheet_of, described, with_memory
from app.library.files import (
    DamagedFile,
    FileError,
    alone,
    put_aside,
    read_whole,
    remove_leftovers,
    write_folder,
    write_whole,
)
from app.library.machine import hello_here, machine_key, this_machine
from app.library.measurements import Measurement, append_measurement, load_measurements, measurements_file
from app.library.other_boards import imported, imported_file, under_names
from app.library.registry import THIS, KnownBoard, known_boards, target_record, with_known
from core.catalogue.load import load_catalogue
from core.spec import Absent, Catalogue, OperatingPoint, Posterior

if TYPE_CHECKING:
    from core.calibrate.fit import Calibration

RUNTIME = "builtin"
"""The runtime whose kernels are benched."""


class BoardLibrary:
    """The records of boards in a folder.

    Reading never fails: unreadable parts are reported and left out. Writing raises FileError.

    Parameters
    ----------
    folder : Path
        Created by the first write. Documents of version 0.1 in it are migrated once and stay unchanged.
    report : callable
        Takes a sentence on an unreadable part; each is reported once.
    """

    def __init__(self, folder: Path, report: Callable[[str], object]) -> None:
        self._folder, self._report = folder, report
        self._boards = folder / "boards"
        self._reported: set[str] = set()
        remove_leftovers(folder)
        remove_leftovers(self._boards)

    # ---- what is known

    def machines(self) -> dict[str, BoardDocument]:
        """Return the document of each machine, by its key (`app.library.machine`)."""
        if not self._boards.is_dir():
            return self._taken_over()
        documents: dict[str, BoardDocument] = {}
        for path in sorted(self._boards.glob("*.json")):
            if not path.stem.endswith(".unreadable"):
                self._read(path, documents)
        return documents

    def boards(self) -> dict[str, KnownBoard]:
        """Return the boards that were attached before, by key."""
        return known_boards(self.machines().values())

    def data_sheet(self, hello: Mapping[str, Any]) -> DataSheet | Absent:
        """Return the data sheet of an attached machine, or Absent with the reason."""
        document = self.machines().get(machine_key(hello))
        return data_sheet_of(document.data_sheet if document else "", hello)

    def bandwidth(self, machine: str) -> dict[str, float] | None:
        """Return a machine's read bandwidth, ``{median, q05, q95}`` [byte/s] and ``quiet_share``, or None."""
        document = self.machines().get(machine)
        return msgspec.structs.asdict(document.bandwidth) if document and document.bandwidth else None

    def betas(self, machine: str) -> dict[str, float]:
        """Return the measured factor of each instruction set relative to the machine's own; empty if unmeasured."""
        document = self.machines().get(machine)
        return {name: factor.median for name, factor in document.betas.items()} if document else {}

    def data_sheet_catalogue(self, hello: Mapping[str, Any], plain: Catalogue | None = None) -> Catalogue:
        """Return the catalogue in which board "this" has the data sheet of an attached machine."""
        simulated = bool(hello.get("simulated"))
        return described(plain or load_catalogue(), THIS, self.data_sheet(hello), simulated=simulated)

    def catalogue(
        self, hello: Mapping[str, Any] | None = None, machine: str = "", plain: Catalogue | None = None
    ) -> Catalogue:
        """Return the catalogue whose board "this" is a machine, with the boards attached before.

        Parameters
        ----------
        hello
            Report of the machine; by default that of this computer.
        machine
            Key of the machine, if it differs from that of `hello`, as with another model file.
        plain
            Catalogue to extend; by default that of the resources.
        """
        from core.calibrate.bench_priors import with_bench_priors

        hello = hello_here() if hello is None else hello
        document = self.machines().get(machine or machine_key(hello)) or BoardDocument("")
        found = self.data_sheet_catalogue(hello, plain)
        this = with_memory(found.boards[THIS], hello)
        if document.bandwidth is not None:
            this = with_bandwidth(this, msgspec.structs.asdict(document.bandwidth))
        runtime = with_bench_priors(found.runtimes[RUNTIME], [msgspec.structs.asdict(row) for row in document.bench])
        found = replace(
            found,
            boards={**found.boards, THIS: this},
            bench_runtimes={**found.bench_runtimes, (THIS, RUNTIME): runtime},
        )
        return with_known(found, self.boards())

    def measurements(self, catalogue: Catalogue, machine: str = "") -> tuple[list[Measurement], list[Measurement]]:
        """Return all measurements of points in a catalogue, oldest first.

        Parameters
        ----------
        catalogue
            A result of `catalogue`.
        machine
            The machine of board "this"; this computer by default.

        Returns
        -------
        own : list of Measurement
            Made on that machine.
        elsewhere : list of Measurement
            Made on boards attached before, whose keys are in their points, and imported ones of any board.
        """
        boards, rows = self.boards(), self._rows(catalogue)
        own, elsewhere = under_names(self._saved(), rows, boards, machine or self._here, self._here)
        return [m for m in own if exists(m.point, catalogue)], [m for m in elsewhere if exists(m.point, catalogue)]

    def evidence(self, catalogue: Catalogue, machine: str = "", new: Sequence[Measurement] = ()) -> list[Measurement]:
        """Return all `measurements` in fitting order, in which later ones take precedence.

        `new` are unsaved measurements of the machine.
        """
        own, elsewhere = self.measurements(catalogue, machine)
        return [*elsewhere, *own, *new]

    def calibration(self, at: OperatingPoint, catalogue: Catalogue, machine: str = "") -> Calibration | None:
        """Return the model fitted to a point's board, runtime and power mode; None without measurements.

        `catalogue` and `machine` are as in `measurements`.
        """
        from app.library.calibration import calibration_of

        return calibration_of(self.evidence(catalogue, machine), catalogue, at)

    def posterior(self, at: OperatingPoint, catalogue: Catalogue, machine: str = "") -> Posterior | None:
        """Return the posterior of a point's board, runtime and power mode; None without measurements."""
        found = self.calibration(at, catalogue, machine)
        return None if found is None else found.posterior

    def calibrations(self, catalogue: Catalogue) -> list[dict[str, Any]]:
        """Return a record of each board, runtime and power mode that has measurements, as JSON values."""
        from app.library.calibration import calibrated_boards

        return calibrated_boards(self.evidence(catalogue), catalogue)

    # ---- what is learned

    def add(self, measurement: Measurement) -> None:
        """Append a measurement to those of its machine.

        Raises
        ------
        FileError
            The file cannot be written; earlier measurements are unchanged.
        """
        append_measurement(measurements_file(self._folder), measurement)

    def set_bandwidth(self, machine: str, record: Mapping[str, Any]) -> None:
        """Save the read bandwidth of a machine, ``{median, q05, q95}`` [byte/s], if it is better than the earlier one.

        Raises
        ------
        FileError
            The document cannot be written and is unchanged, as for every method here.
        """
        with self._alone():
            counts = better({"quiet_share": 1.0, **record}, self.bandwidth(machine))
            try:
                kept = Bandwidth(**{name: float(counts[name]) for name in Bandwidth.__struct_fields__})
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                raise FileError(f"the bandwidth: {error}") from error
            self._change(machine, bandwidth=kept)

    def set_bench(self, machine: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Save the bench rows with a number, in place of earlier rows of the same kernels."""
        new = [
            BenchRow(row["name"], row["dtype"], list(row["shape"]), float(row["read_share"]), bool(row.get("trap")))
            for row in rows
            if isinstance(row.get("read_share"), int | float)
        ]
        names = {row.name for row in new}
        with self._alone():
            document = self.machines().get(machine) or BoardDocument(machine)
            self._change(machine, bench=[*(row for row in document.bench if row.name not in names), *new])

    def set_betas(self, machine: str, factors: Mapping[str, Mapping[str, Any]]) -> None:
        """Save the factors of a machine by instruction set, in place of earlier ones."""
        kept = {
            name: Interval(**{field: float(factor[field]) for field in Interval.__struct_fields__})
            for name, factor in factors.items()
        }
        self._change(machine, betas=kept)

    def set_data_sheet(self, machine: str, key: str) -> None:
        """Save the choice of a machine's data sheet: a catalogue key, "this" for none, "" to recognise it.

        Raises
        ------
        FileError
            There is no such board, or the document cannot be written.
        """
        check_choice(key)
        self._change(machine, data_sheet=key)

    def remember_target(self, target: str, hello: Mapping[str, Any]) -> None:
        """Save the machine of a target; this machine and recordings are not saved."""
        if target == THIS or hello.get("recording"):
            return
        with self._alone():
            machine, documents = machine_key(hello), self.machines()
            document = documents.get(machine) or BoardDocument(machine)
            record = target_record(target, hello, self.data_sheet(hello), documents.values())
            self._change(machine, targets={**document.targets, target: record})
            for key, other in documents.items():
                if key != machine and target in other.targets:
                    self._change(key, targets={name: one for name, one in other.targets.items() if name != target})

    # ---- files

    @cached_property
    def _here(self) -> str:
        return this_machine()

    def _say(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._report(sentence)

    def _saved(self) -> list[Measurement]:
        try:
            found, notes = load_measurements(measurements_file(self._folder), None)
        except FileError as error:
            found, notes = [], [str(error)]
        for note in notes:
            self._say(note)
        return found

    def _rows(self, catalogue: Catalogue) -> list[Measurement]:
        path = imported_file(self._folder)
        try:
            return imported(path, catalogue, self.boards())[0]
        except DamagedFile as error:
            self._say(f"{error}; {put_aside(path)}")
        except FileError as error:
            self._say(str(error))
        return []

    def _alone(self) -> AbstractContextManager[None]:
        """Keep other writers of documents out, after the documents of version 0.1 were taken over."""
        if not self._boards.is_dir():
            self._taken_over()
            if not self._boards.is_dir() and any((self._folder / name).exists() for name in OLDER):
                words = "the documents of version 0.1 could not be taken over"
                raise FileError(f"{self._boards}: cannot be written: {words}")
        return alone(self._boards, self._say)

    def _read(self, path: Path, documents: dict[str, BoardDocument]) -> None:
        """Add the document of a file to `documents`; the valid parts of a damaged one are written again."""
        name = f"{self._boards.name}/{path.name}"
        try:
            document, problems = decoded(read_whole(path), name)
            documents[document.machine] = document
            if not problems:
                return
        except DamagedFile:
            pass
        except FileError as error:
            self._say(str(error))
            return
        try:
            with alone(self._boards, self._say):
                self._mend(path, name, documents)
        except FileError as error:  # as on a disk that can only be read
            self._say(str(error))

    def _mend(self, path: Path, name: str, documents: dict[str, BoardDocument]) -> None:
        """Put a damaged document aside and write its valid parts again, unless another process has done so."""
        try:
            document, problems = decoded(read_whole(path), name)
        except DamagedFile as error:
            self._say(f"{error}; {put_aside(path)}")
            return
        documents[document.machine] = document
        if problems:
            self._say(f"{'; '.join(problems)}; {put_aside(path)}")
            write_whole(path, encoded(document))

    def _taken_over(self) -> dict[str, BoardDocument]:
        """Return the content of documents of version 0.1, and write it as one document a machine.

        Nothing is written if one of them cannot be read now or the folder cannot be written; the next start tries
        again.
        """
        older = older_documents(self._folder)
        for sentence in older.unread:
            self._say(sentence)
        if older.unread or not (older.documents or older.damaged):
            return older.documents
        try:
            write_folder(self._boards, {document_name(key): encoded(one) for key, one in older.documents.items()})
        except FileError as error:
            if self._boards.is_dir():  # another process has
                return self.machines()
            self._say(str(error))
            return older.documents
        for path, sentences in older.damaged.items():
            self._say(f"{'; '.join(sentences)}; {put_aside(path)}")
        return older.documents

    def _change(self, machine: str, **parts: Any) -> None:
        """Write a machine's document with changed parts; members of other versions of Trilemma stay."""
        with self._alone():
            document, path = self.machines().get(machine), self._boards / document_name(machine)
            if document is None and path.exists():
                raise FileError(f"{path}: cannot be saved: the document there cannot be read")
            before = read_whole(path) if path.exists() else b"{}"
            write_whole(path, encoded(msgspec.structs.replace(document or BoardDocument(machine), **parts), before))
