"""The parameters of the board's drift compensation: taken in pieces, verified, put live on trial, kept or rolled back.

States and steps::

    idle --set--> receiving --verify--> verified --commit--> trial --verify_live--> idle: the new set is live
                                                             trial --rollback-----> idle: the old set is live

A pause that is too long ends in idle with the old set, as a rollback does.

Two slots hold two sets; a commit writes the one that is not live. The file ``live`` names the live one and changes by
one rename, only when it has been verified live: a crash at any step leaves the old set live. Standard library only.

The measuring process reads the live set for points whose compensation has offsets (`app.agent.compensating`).

Source: SITS-Calib v1.2 (docs/articles.md, B11), with the check before the commit, where it can protect the set that
runs, and fragments, because 512 channels fill a message.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from app.agent.slots import Slots
from app.parameter_set import MAX_FRAGMENT_BYTE, MAX_SET_BYTE, ParametersError, ParameterSet, decode, described

TIMEOUT_S = 0.5
LIVE_TOLERANCE = 1e-5
MAX_VALUE = 1e38  # float32's
READ_BYTE = 16 * 1024  # of a live set in one answer
LOOKS = ("status", "read")
"""Steps that change nothing."""


class Parameters:
    """The state machine; one call a step, each answers with the state after it or raises `ParametersError`.

    Parameters
    ----------
    slots
        Where sets lie.
    timeout_s
        Longest pause in a set that arrives, and longest trial of one that is live.
    now_s
        The clock.
    """

    def __init__(self, slots: Slots, timeout_s: float = TIMEOUT_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._slots, self._timeout_s, self._now_s = slots, timeout_s, now_s
        self._lock = threading.RLock()
        self._state = "idle"
        self._data = b""
        self._total = 0
        self._deadline_s = math.inf
        self._slot, self._epoch, self._live = slots.live()
        self._trial: Optional[Tuple[int, int, bytes]] = None
        self._said = ""

    def step(self, name: str, message: Any) -> dict[str, Any]:
        """Do a step by name ("status", "read", "set", "verify", "commit", "verify_live", "rollback")."""
        steps = {
            "status": lambda: self.status(),
            "read": lambda: self.read(_count(message, "offset")),
            "set": lambda: self.set(_count(message, "offset"), _count(message, "total"), _fragment(message)),
            "verify": lambda: self.verify(_count(message, "crc")),
            "commit": lambda: self.commit(),
            "verify_live": lambda: self.verify_live(
                _count(message, "epoch"),
                _count(message, "first"),
                _numbers(message, "probe"),
                _numbers(message, "expected"),
            ),
            "rollback": lambda: self.rollback(),
        }
        if name not in steps:
            raise ParametersError(f"step: got {name!r:.40}, expected one of {', '.join(steps)}")
        return steps[name]()

    def answer(self, message: Mapping[str, Any], locked: str = "") -> Dict[str, Any]:
        """Do the step that a message asks for and return the answer; where it is `locked`, one may only look."""
        try:
            if locked and message["step"] not in LOOKS:
                raise ParametersError(locked)
            return {"op": "result", "id": message["id"], "body": self.step(message["step"], message)}
        except (ParametersError, OSError) as error:
            reason = str(error) if isinstance(error, ParametersError) else f"{error.filename}: {error.strerror}"
            return {"op": "failed", "id": message["id"], "kind": "failed", "reason": reason}

    def status(self) -> dict[str, Any]:
        """Return the state, the live set's epoch, checksum, number of channels and context, and how many bytes have
        arrived.
        """
        with self._lock:
            self._expire()
            self._refresh()
            live = self._trial[2] if self._trial else self._live
            channels, context = (None, None) if live is None else described(live)
            return {
                "state": self._state,
                "epoch": self._trial[1] if self._trial else self._epoch,
                "crc": None if live is None else zlib.crc32(live),
                "n_channels": channels,
                "context": context,
                "n_received_byte": len(self._data),
                "timeout_s": self._timeout_s,
                "said": self._said,
            }

    def read(self, offset: int) -> dict[str, Any]:
        """Return a piece of the live set, in hexadecimal, and how long the whole set is."""
        with self._lock:
            self._expire()
            self._refresh()
            if self._live is None:
                raise ParametersError("no set is live on this board")
            return {"data": self._live[offset : offset + READ_BYTE].hex(), "total": len(self._live)}

    def set(self, offset: int, total: int, fragment: bytes) -> dict[str, Any]:
        """Take a piece of a set; pieces come in order, and one that is sent again is taken again.

        Offset 0 begins a new set and forgets what has arrived.
        """
        with self._lock:
            self._expire()
            if self._state == "trial":
                raise ParametersError("a committed set is on trial: verify it live or roll it back first")
            if not (1 <= len(fragment) <= MAX_FRAGMENT_BYTE and total <= MAX_SET_BYTE):
                raise ParametersError(
                    f"a piece of {len(fragment)} bytes of a set of {total}: "
                    f"expected 1 to {MAX_FRAGMENT_BYTE} bytes of at most {MAX_SET_BYTE}"
                )
            if offset == 0:
                self._forget()
                self._refresh()
                self._data, self._total = b"", total
            elif self._state != "receiving" or total != self._total or offset > len(self._data):
                self._forget()
                raise ParametersError(f"a piece at byte {offset} does not follow what has arrived: begin at 0 again")
            if offset + len(fragment) > total:
                self._forget()
                raise ParametersError(f"a piece ends at byte {offset + len(fragment)} of a set of {total}")
            self._data = self._data[:offset] + fragment
            self._state, self._deadline_s = "receiving", self._now_s() + self._timeout_s
            return self.status()

    def verify(self, crc: int) -> dict[str, Any]:
        """Check that the set is whole, unharmed and in range; what is not is forgotten."""
        with self._lock:
            self._expire()
            self._expect("receiving", "verify")
            try:
                if len(self._data) != self._total:
                    raise ParametersError(f"{len(self._data)} of {self._total} bytes of the set have arrived")
                if zlib.crc32(self._data) != crc:
                    raise ParametersError(f"the checksum of the set is {zlib.crc32(self._data):#010x}, not {crc:#010x}")
                decode(self._data)
            except ParametersError:
                self._forget()
                raise
            self._state, self._deadline_s = "verified", self._now_s() + self._timeout_s
            return self.status()

    def commit(self) -> dict[str, Any]:
        """Put the verified set into the other slot and live, on trial until `verify_live`."""
        with self._lock:
            self._expire()
            self._expect("verified", "commit")
            slot = 1 - self._slot
            with self._slots.alone():
                if self._slots.live()[:2] != (self._slot, self._epoch):  # the other slot may be the live one by now
                    self._forget()
                    raise ParametersError("another agent on this board changed the live set meanwhile: begin again")
                used = [(self._slots.read(each) or (0, b""))[0] for each in (0, 1)]
                epoch = max(self._epoch, *used) + 1  # never one that was used before
                self._slots.write(slot, epoch, self._data)
            self._trial, self._data = (slot, epoch, self._data), b""
            self._state, self._deadline_s = "trial", self._now_s() + self._timeout_s
            return self.status()

    def verify_live(self, epoch: int, first: int, probe: Sequence[float], expected: Sequence[float]) -> dict[str, Any]:
        """Read the live set back, compensate a probe with it, and keep it if that gives what is expected.

        `probe` and `expected` hold a value for each channel from `first` on, as many as a message carries; the
        checksum of what was read back speaks for all of them.

        Raises
        ------
        ParametersError
            It does not: the old set is live again.
        """
        with self._lock:
            self._expire()
            self._expect("trial", "verify_live")
            assert self._trial is not None
            slot, trial_epoch, data = self._trial
            try:
                if epoch != trial_epoch:
                    raise ParametersError(f"the set on trial has epoch {trial_epoch}, not {epoch}")
                with self._slots.alone():
                    if self._slots.read(slot) != (epoch, data):
                        raise ParametersError("the set that was written does not read back as it was")
                    _compare(decode(data), first, probe, expected)
                    self._slots.point(slot, epoch, self._epoch if self._live is not None else 0)
            except (ParametersError, OSError) as error:
                self.rollback()
                raise ParametersError(f"{error}; the old set is live again") from None
            self._slot, self._epoch, self._live = slot, epoch, data
            self._trial = None
            self._forget()
            return self.status()

    def rollback(self) -> dict[str, Any]:
        """Return to what was live before: end a trial, or undo the last set that was kept.

        Where no older set is there, none is live then. A trial that has just been given up is not undone twice.

        Raises
        ------
        ParametersError
            No set is live.
        """
        with self._lock:
            self._expire()
            if self._state == "idle" and self._said != _gave_up("the trial", self._timeout_s):
                with self._slots.alone():
                    self._refresh()
                    self._undo()
            self._trial, self._said = None, ""
            self._forget()
            return self.status()

    def _undo(self) -> None:
        if self._live is None:
            raise ParametersError("no set is live on this board: there is nothing to roll back")
        other, before = self._slots.read(1 - self._slot), self._slots.before()
        if before and other is not None and other[0] == before:
            self._slots.point(1 - self._slot, before)
        else:
            self._slots.clear()
        self._refresh()

    def _expect(self, state: str, step: str) -> None:
        if self._state != state:
            because = f" ({self._said})" if self._said else ""
            raise ParametersError(f"{step} belongs to the state {state}, this one is {self._state}{because}")
        self._said = ""

    def _expire(self) -> None:
        """Go back to idle where a pause was too long; the old set is live then."""
        if self._now_s() > self._deadline_s:
            what = "the trial" if self._state == "trial" else "the set"
            self._trial = None
            self._forget()
            self._said = _gave_up(what, self._timeout_s)

    def _refresh(self) -> None:
        """Read the live set again: another agent on this board may have replaced it."""
        if self._state == "idle":
            self._slot, self._epoch, self._live = self._slots.live()

    def _forget(self) -> None:
        self._state, self._data, self._total, self._deadline_s = "idle", b"", 0, math.inf


def _gave_up(what: str, timeout_s: float) -> str:
    return f"{what} was given up: nothing came for {timeout_s:g} s"


def _compare(live: ParameterSet, first: int, probe: Sequence[float], expected: Sequence[float]) -> None:
    n_left = len(live.offsets) - first
    if not 1 <= len(probe) <= n_left or len(expected) != len(probe):
        raise ParametersError(f"the probe has {len(probe)} values from channel {first} on, expected 1 to {n_left}")
    for i, (found, wanted) in enumerate(zip(live.compensate(probe, first), expected), first):
        if not abs(found - wanted) <= LIVE_TOLERANCE * max(1.0, abs(wanted)):
            raise ParametersError(f"channel {i} of the live set gives {found:g} for the probe, expected {wanted:g}")


def _count(message: Any, name: str) -> int:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        got = "one out of range" if isinstance(value, int) else f"{value!r:.40}"
        raise ParametersError(f"{name}: got {got}, expected a whole number of at most 63 bits")
    return value


def _numbers(message: Any, name: str) -> List[float]:
    values = message.get(name)
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        raise ParametersError(f"{name}: got {values!r:.40}, expected a list of numbers")
    if not all(abs(value) < MAX_VALUE for value in values):
        raise ParametersError(f"{name}: got a number that is not below {MAX_VALUE:g}, expected a list of such")
    return [float(value) for value in values]


def _fragment(message: Any) -> bytes:
    try:
        return bytes.fromhex(message["data"])
    except (KeyError, TypeError, ValueError):
        raise ParametersError("data: expected the bytes of the piece in hexadecimal") from None
