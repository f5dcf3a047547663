"""The parameter sets of this board as the measuring process uses them: it reads the live one, and installs new ones.

Sets go through the same steps as from a client (`app.agent.parameters`), in this process.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Dict, Optional

from app import VERSION
from app.agent.parameters import Parameters
from app.agent.slots import Slots
from app.parameter_set import ParametersError, ParameterSet, decode, install

if TYPE_CHECKING:
    from kernels.accuracy.compensation import OffsetSet


class BoardSets:
    """Sets in the slots of this board; what is refused raises ValueError with its sentence.

    Parameters
    ----------
    slots
        Where they lie.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def live(self) -> "Optional[OffsetSet]":
        """Return the live set, None where there is none."""
        from kernels.accuracy.compensation import OffsetSet

        _, epoch, data = self._slots.live()
        if data is None:
            return None
        found = decode(data)
        of = found.context
        return OffsetSet(
            found.offsets,
            found.gain,
            of["weights"],
            of["compensation"],
            of["model"],
            of["chip"],
            epoch,
            zlib.crc32(data),
        )

    def install(self, made: "OffsetSet") -> Dict[str, Any]:
        """Install a set and return its epoch, checksum, channels and the durations of the steps."""
        context = {
            "chip": made.chip,
            "version": VERSION,
            "model": made.model,
            "weights": made.weights,
            "compensation": made.compensation,
        }
        wanted = ParameterSet(context, made.gain, tuple(made.offsets))
        try:
            found = install(Parameters(self._slots).step, wanted)
        except ParametersError as error:
            raise ValueError(f"parameters: {error}") from None
        return {
            "epoch": found.epoch,
            "crc": zlib.crc32(wanted.encode()),
            "n_channels": len(wanted.offsets),
            "n_message": found.n_message,
            "payload_byte": found.payload_byte,
            "total_s": found.total_s,
        }

    def rollback(self) -> None:
        """Return to what was live before."""
        try:
            Parameters(self._slots).rollback()
        except ParametersError as error:
            raise ValueError(f"parameters: {error}") from None
