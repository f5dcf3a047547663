"""The file by which an interrupted campaign goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.campaign.plan import Round, Run
from app.campaign.recipe import tells
from app.library.files import FileError, reason
from app.library.measurements import Measurement, append_measurement, load_measurements


@dataclass(frozen=True, slots=True)
class Journal:
    """A file of measurements, append-only, each at the point that was asked for: what is done is found by it."""

    path: Path

    def check(self) -> None:
        """Check that it can be written; nothing is left of the trial.

        Raises
        ------
        FileError
            It cannot.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not self.path.exists()
            with self.path.open("a", encoding="utf-8"):
                pass
            if is_new:
                self.path.unlink()
        except OSError as error:
            words = f"journal: got {self.path}, expected a file that can be written: {reason(error)}"
            raise FileError(words) from error

    def read(self, asked: Round, machine: str, say: Callable[[str], object] = lambda note: None) -> list[Measurement]:
        """Return the complete measurements of a round's points on a machine, made with its options.

        `say` takes a sentence on each damaged line, which is left out.

        Raises
        ------
        FileError
            There is a file and it cannot be read.
        """
        saved, notes = load_measurements(self.path, machine)
        for note in notes:
            say(note)
        points, options = set(asked.points), dict(asked.options or {})
        return [
            m
            for m in saved
            if m.point in points and tells(m, asked.what) and m.body.get("conditions", {}).get("options", {}) == options
        ]

    def add(self, run: Run, measurement: Measurement) -> Measurement:
        """Append a measurement and return it as it is there.

        Raises
        ------
        FileError
            It cannot be written.
        """
        at_asked = replace(measurement, point=run.point)
        append_measurement(self.path, at_asked)
        return at_asked
