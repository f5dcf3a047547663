"""Energy per byte of boards without a source of their own, by class of board."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fnmatch import fnmatchcase

from core.catalogue.schemas import PowerClass, PowerPriorsTable
from core.catalogue.toml_files import converted, resource

_FILE = "power_priors.toml"


def power_class(unit: str, *names: str) -> PowerClass:
    """Return the class of a board by its unit and by its names or keys: the first of ``power_priors.toml`` that fits.

    Examples
    --------
    >>> power_class("npu", "rk3588").words
    'chips with an NPU'
    >>> power_class("cpu", "HiFive Premier P550 (4-core RISC-V)").log_sd
    0.7
    """
    return next(one for one in _classes() if fits(one.boards, one.units, unit, names))


def fits(patterns: Sequence[str], units: Sequence[str], unit: str, names: Sequence[str]) -> bool:
    """Whether a board has one of the units and one of the patterns; none of them is any.

    Parameters
    ----------
    patterns, units : sequence of str
        Patterns of names in small letters, blanks for underscores; units that decode.
    unit, names : the unit of the board, and its names or keys
    """
    called = [name.lower().replace("_", " ") for name in names]
    return (not units or unit in units) and (
        not patterns or any(fnmatchcase(name, pattern) for name in called for pattern in patterns)
    )


@functools.cache
def _classes() -> tuple[PowerClass, ...]:
    found = converted(_FILE, resource(_FILE), PowerPriorsTable).classes
    for unit in ("cpu", "gpu", "npu"):
        if not any(fits(one.boards, one.units, unit, ()) for one in found):
            raise ValueError(f"{_FILE}: class: got none of any board with unit {unit!r}, expected one")
    return found
