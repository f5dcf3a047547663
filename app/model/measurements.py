"""One measured operating point of one machine: the record that is shown, saved and calibrated on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.spec import Absent, Estimate, OperatingPoint, Output, Provenance


@dataclass(frozen=True, slots=True)
class Measurement:
    """A finished run. `body` holds outputs by name: ``{median, q05, q95, n, provenance}`` or ``{absent: reason}``."""

    point: OperatingPoint
    body: Mapping[str, Any]
    time_utc: str  # ISO 8601, of this machine's clock
    machine: str  # key of the machine, runtime version and model file it holds for (app.model.machine)

    def output(self, name: str) -> Output:
        """Return one output, or Absent with the reason the board gave."""
        record = self.body.get(name)
        if not isinstance(record, Mapping):
            return Absent("not part of this measurement")
        if "absent" in record:
            return Absent(str(record["absent"]))
        return Estimate(
            float(record["median"]), float(record["q05"]), float(record["q95"]), Provenance(record["provenance"])
        )
