"""npu-smi info: the table of Ascend NPUs, two lines a chip.

The first line holds id and name, health, power, temperature and huge pages; the second one chip and device, bus, AICore
load and memory, one pair a kind. Ids skip (0, 32), a card may have two chips, memory comes without blank
(``19435/ 21527``), power is ``NA`` on the 310P and ``0.0`` on a chip whose health is ``Alarm``: no power, not 0 W.
"""

from __future__ import annotations

import math
import re

from app.agent.sensors.reading import Parsed, number, row_pairs

ARGV = ("npu-smi", "info")

REFUSALS = (
    (
        r"(?i)dcmi mod\w+ initializ\w+ failed.*|permission denied.*",
        "npu-smi may not ask the driver ({0}): type sudo usermod -aG HwHiAiUser USER on the board, then log in again; "
        "a container needs its devices /dev/davinci*",
    ),
)
_NUMBER = r"-?\d+(?:\.\d+)?|NA|N/A|-"
_FIRST = re.compile(
    rf"(?P<npu>\d{{1,6}}) +(?P<name>\S+) *\| *(?P<health>[A-Za-z]+) *\| *(?P<power>{_NUMBER}) +(?P<temp>{_NUMBER})"
    r"(?: +(?P<pages>\d+) */ *(?P<all>\d+))?",
    re.ASCII,
)
_SECOND = re.compile(
    rf"(?P<chip>\d{{1,6}})(?: +(?P<device>\d+))? *\| *(?P<bus>\S+) *\| *(?P<load>{_NUMBER})"
    r"(?P<pairs>(?: +\d+ */ *\d+){1,4})",
    re.ASCII,
)
_PAIR = re.compile(r"(\d+) */ *(\d+)", re.ASCII)
_HEADING = re.compile(r"npu-smi [\d.]|NPU  +\w|Chip  +[|\w]|No running processes")
_PROCESSES = re.compile(r"^.*\bProcess id\b", re.M)
_MIB = 1024.0**2
_NOT_GIVEN = ("NA", "N/A", "-")
_MEMORIES = ("memory", "hbm")


def parse(text: str) -> Parsed:
    """Return the fields of the whole table, ``npu0_0.power_w`` being that of chip 0 of NPU 0."""
    parsed = Parsed()
    for first, second in row_pairs(_PROCESSES.split(text, maxsplit=1)[0], parsed, _FIRST, _SECOND, _HEADING):
        _chip(first, second, parsed)
    return parsed


def _chip(first: "re.Match[str]", second: "re.Match[str]", parsed: Parsed) -> None:
    npu = f"npu{first['npu']}_{second['chip']}"
    power = number(first["power"])
    if power == 0 and first["health"] != "OK":
        power = math.nan
    if first["health"] != "OK":
        parsed.note(f"{first['npu']} {first['name']} {first['health']}")
    for key, value, unit, raw in (
        (f"{npu}.power_w", power, "W", first["power"]),
        (f"{npu}.temp_c", number(first["temp"]), "degC", first["temp"]),
    ):
        if raw in _NOT_GIVEN:
            parsed.miss(key, unit, raw)
        else:
            parsed.add(key, value, unit, raw)
    if first["pages"] is not None:
        parsed.add(f"{npu}.n_huge_pages", number(first["pages"]), "1", first["pages"])
    load = number(second["load"]) / 100
    parsed.add(f"{npu}.busy_frac", load if 0 <= load <= 1 else math.nan, "frac", second["load"])
    for kind, (used, total) in zip(_MEMORIES, _PAIR.findall(second["pairs"])):
        for key, raw in ((f"{npu}.{kind}.used_byte", used), (f"{npu}.{kind}.total_byte", total)):
            if number(total) > 0:
                parsed.add(key, number(raw) * _MIB, "byte", raw)
            else:  # 0 / 0: it has no such memory
                parsed.miss(key, "byte", raw)
