"""Valid values of each path of the store."""

from __future__ import annotations

from typing import Any

from app.library import axes
from app.library.limits import LIMITS, check_limits, checked_limit
from app.model.state import PLAIN
from app.text.lab.table import LABS
from core.spec import BY_PATH, Catalogue, OperatingPoint

THEMES = ("system", "light", "dark")
_RANGES = {
    "energy.ambient": (-20.0, 60.0, "a temperature from -20 to 60 deg C"),
    "energy.battery": (36.0, 3.6e8, "an energy from 0.01 Wh to 100 kWh, or none"),
    "energy.limit_temp": (30.0, 125.0, "a temperature from 30 to 125 deg C, or none"),
    "energy.power": (1e-3, 1e4, "a power from 1 mW to 10 kW, or none"),
    "energy.idle": (0.0, 1e4, "a power from 0 W to 10 kW, or none"),
    "energy.duration": (60.0, 72 * 3600.0, "a time from 1 min to 72 h"),
}


def checked(path: str, value: Any, point: OperatingPoint, catalogue: Catalogue) -> Any:
    """Return a value as the store holds it at a path, the current point being `point`.

    Raises
    ------
    ValueError
        One sentence naming the path, the value and what was expected.
    """
    if path in BY_PATH:
        return axes.checked(path, value, point, catalogue)
    if path in LIMITS:
        return checked_limit(path, value)
    if path == "axis":
        axes.axis_of(value, point, catalogue)
    elif path == "limits":
        check_limits(value)
    elif path == "point" or (path == "pinned" and value is not None):
        if not isinstance(value, OperatingPoint):
            raise ValueError(f"{path} is {value!r}: expected an operating point")
        axes.check_point(value, catalogue)
    elif path in PLAIN:
        return _checked_plain(path, value)
    elif path != "pinned":
        raise ValueError(f"there is no path {path!r} in the store")
    return value


def _checked_plain(path: str, value: Any) -> Any:
    """Return a value as one of the `PLAIN` paths stores it.

    Raises
    ------
    ValueError
        One sentence naming the path, the value and what was expected.
    """
    default = PLAIN[path]
    if path.startswith("lab."):
        return _checked_lab(path, value)
    if path in _RANGES:
        low, high, words = _RANGES[path]
        if value is None and default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(f"{path} is {value!r}: expected {words}")
        return float(value)
    if path == "theme" and value not in THEMES:
        raise ValueError(f"theme is {value!r}: expected one of {', '.join(THEMES)}")
    if not isinstance(value, type(default)):
        raise ValueError(f"{path} is {value!r}: expected {'true or false' if default in (True, False) else 'a text'}")
    return value


def _checked_lab(path: str, value: Any) -> Any:
    """Return the value of an item of the lab, of the axis of its plot, or of one of its inputs."""
    _, key, *option = path.split(".")
    if not option:
        if value not in LABS:
            raise ValueError(f"{path} is {value!r}: expected one of {', '.join(LABS)}")
        return value
    if option == ["along"]:
        return LABS[key].input(value).option
    return LABS[key].input(option[0]).checked(value)
