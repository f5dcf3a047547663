"""What parsers return, as plain values."""

import math

from tests.places import DATA

SENSORS = DATA / "sensors"
MIB = 1024.0**2


def values(parsed):
    return {key: reading.value for key, reading in parsed.values.items()}


def unknown(parsed, *keys):
    return all(math.isnan(parsed.values[key].value) for key in keys)
