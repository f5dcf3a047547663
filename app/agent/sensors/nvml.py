"""NVML, the library below nvidia-smi, through ctypes: the energy counter of a card, read when a sample is wanted.

Where the library answers, nvidia-smi is not started. The energy counter (Volta and later) gives the exact mean power
between two samples; the power that NVML reports is a mean over a second from Ampere on.
"""

from __future__ import annotations

import ctypes
import math
import time
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence, Tuple

from app.agent.channel import Channel, Sensor
from app.agent.sensors.rapl import EnergyCounter

LIBRARY = "libnvidia-ml.so.1"
FOLDERS = ("usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/wsl/lib")
INTERVAL_NS = 20_000_000
COST_FRAC = 0.02  # of a thread's time that reading one quantity may take
_MAX_CARDS = 64
_SM, _MEMORY = 1, 2  # nvmlClockType_t


class _Share(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Quantity:
    """One value of a card: its query and its factor to SI."""

    def __init__(
        self, key: str, unit: str, function: str, into: Any, scale: float = 1.0, member: str = "value", *words: int
    ) -> None:
        self.key, self.unit, self.function, self.words = key, unit, f"nvmlDevice{function}", words
        self._into, self._scale, self._member = into, scale, member

    def ask(self, library: Any, card: c_void_p) -> Tuple[int, float]:
        """Return NVML's status, 0 where all is well, and the value."""
        answer = self._into()
        status = getattr(library, self.function)(card, *map(c_uint, self.words), byref(answer))
        return status, getattr(answer, self._member) * self._scale if status == 0 else math.nan


ENERGY = _Quantity("power_w", "W", "GetTotalEnergyConsumption", c_ulonglong, 1e3)  # mJ, here in uJ
QUANTITIES = (
    _Quantity("smoothed.power_w", "W", "GetPowerUsage", c_uint, 1e-3),
    _Quantity("clock_hz", "Hz", "GetClockInfo", c_uint, 1e6, "value", _SM),
    _Quantity("memory.clock_hz", "Hz", "GetClockInfo", c_uint, 1e6, "value", _MEMORY),
    _Quantity("busy_frac", "frac", "GetUtilizationRates", _Share, 0.01, "gpu"),
    _Quantity("memory.busy_frac", "frac", "GetUtilizationRates", _Share, 0.01, "memory"),
    _Quantity("memory.used_byte", "byte", "GetMemoryInfo", _Memory, 1.0, "used"),
    _Quantity("memory.total_byte", "byte", "GetMemoryInfo", _Memory, 1.0, "total"),
    _Quantity("temp_c", "degC", "GetTemperature", c_uint, 1.0, "value", 0),
)


class _Value:
    """One quantity of one card."""

    def __init__(self, channel: Channel, ask: Callable[[], Tuple[int, float]], interval_ns: int) -> None:
        self.channels = (channel,)
        self.interval_ns = interval_ns
        self._ask = ask

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the value, NaN where the card has none now."""
        value = self._ask()[1]
        if self.channels[0].unit == "frac" and not 0 <= value <= 1:
            value = math.nan
        return (value,)


class _Energy:
    """The counter of a card as `EnergyCounter` reads it."""

    def __init__(self, ask: Callable[[], Tuple[int, float]]) -> None:
        self._ask = ask

    def read(self) -> Optional[bytes]:
        """Return microjoules in digits, None where the card has none now."""
        status, microjoule = self._ask()
        return None if status else b"%d" % microjoule


def find(root: Path) -> "tuple[list[Sensor], list[Channel]]":
    """Return the NVML channels of all cards; none without a card or the library."""
    library = _load(root)
    if library is None:
        return [], []
    sensors: List[Sensor] = []
    absent: List[Channel] = []
    for index, card in enumerate(_cards(library)):
        for quantity in (ENERGY, *QUANTITIES):
            _try(library, card, f"nvidia.gpu{index}.{quantity.key}", quantity, sensors, absent)
    return sensors, absent if sensors else []


def _try(
    library: Any, card: c_void_p, key: str, quantity: _Quantity, sensors: List[Sensor], absent: List[Channel]
) -> None:
    """Read one quantity once and file it where it belongs."""
    channel = Channel(key, quantity.unit, f"{LIBRARY} {quantity.function}", key.split(".")[1])

    def ask() -> Tuple[int, float]:
        return quantity.ask(library, card)

    began_ns = time.perf_counter_ns()
    try:
        status = ask()[0]
    except AttributeError:  # a library from before this function
        channel.absent = f"this driver's {LIBRARY} has no {quantity.function}"
        absent.append(channel)
        return
    if status:
        channel.absent = f"NVML says of this card: {_words(library, status)}"
        absent.append(channel)
    elif quantity is ENERGY:
        channel.note = "mean since the sample before, from the card's energy counter"
        sensors.append(EnergyCounter(channel, _Energy(ask), 0))
    else:
        cost_ns = time.perf_counter_ns() - began_ns
        sensors.append(_Value(channel, ask, max(INTERVAL_NS, int(cost_ns / COST_FRAC))))


def _load(root: Path) -> Any:
    """Return the library, ready for use; None where there is none or it does not find its driver."""
    places = [str(root / folder / LIBRARY) for folder in FOLDERS if (root / folder / LIBRARY).is_file()]
    if root == Path("/"):
        places.insert(0, LIBRARY)
    for place in places:
        try:
            library = ctypes.CDLL(place)
            return library if library.nvmlInit_v2() == 0 else None
        except (OSError, AttributeError):
            continue
    return None


def _cards(library: Any) -> List[c_void_p]:
    count = c_uint()
    if library.nvmlDeviceGetCount_v2(byref(count)):
        return []
    cards = [c_void_p() for _ in range(min(count.value, _MAX_CARDS))]
    return [card for i, card in enumerate(cards) if library.nvmlDeviceGetHandleByIndex_v2(c_uint(i), byref(card)) == 0]


def _words(library: Any, status: int) -> str:
    """Return the meaning of an NVML status."""
    library.nvmlErrorString.restype = c_char_p
    text = library.nvmlErrorString(c_uint(status)) or b"no reason"
    return str(text.decode("utf-8", "replace"))[:80]
