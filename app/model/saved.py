"""What the files keep of a machine: measurements, bandwidth, kernels, betas; the log is told what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.model import axes
from app.model.bandwidth import bandwidth_file, load_bandwidth
from app.model.bench import bench_file, load_bench
from app.model.beta import beta_file, load_beta
from app.model.files import FileError
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

    def measurements(self, machine: str) -> list[Measurement]:
        """Return what was measured on a machine, of points that can still be named."""
        try:
            found, notes = load_measurements(self.file, machine)
        except FileError as error:
            found, notes = [], [str(error)]
        for note in notes:
            self._store.say("warning", note)
        return [measurement for measurement in found if axes.exists(measurement.point, self._store.catalogue)]

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
