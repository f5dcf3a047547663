"""NVIDIA tegrastats: one line of all that a Jetson measures, in the forms of JetPack 4 to 7.

The tool prints, with fields that differ by board and release: memory (``RAM 2/4MB (lfb 5x4MB)``), cores
(``CPU [12%@102,off]``), engines (``GR3D_FREQ 45%@[1020]``, ``NVENC 716``, ``PVA0_FREQ off``), temperatures
(``cpu@52.9C/53.1C``, now and highest) and rails (``VDD_IN 1038/1134``, ``6842mW/5980mW``, three numbers on JetPack 7:
now, mean since its start, highest). Only "now" is published: a mean since the start of the tool says nothing about a
window of time. The printed local time is no clock.
"""

from __future__ import annotations

import math
import re
from typing import Match

from app.agent.channel import word
from app.agent.sensors.reading import MAX_NOTES, Parsed, number

ARGV = ("tegrastats", "--interval", "100")

_BYTE = {"B": 1.0, "kB": 1024.0, "KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3}
_WATT = {"uW": 1e-6, "mW": 1e-3, "W": 1.0, "": 1e-3}
_SUBJECT = {"gr3d": "gpu", "gr3d2": "gpu2"}
_MIN_TEMP_C = -55.0  # -256 is what a block says that is powered off
_PMIC_TEMP_C = 100.0  # what its driver always says on Nano and TX boards

MAX_LINE_CHAR = 8192
"""Ten times the longest real line; what follows is kept as one note."""

_FORMS = (
    ("date", r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d"),
    (
        "memory",
        r"(?P<kind>[A-Z]{0,8}RAM|SWAP) (?P<used>\d+)/(?P<all>\d+)(?P<size>[kKMG]?B)"
        r"(?: ?\((?P<more>[^()]{0,60})\))?",
    ),
    ("cores", r"CPU \[(?P<cores>[^\[\]]{0,2000})\](?:@(?P<cores_mhz>\d+))?"),
    ("temp", r"(?P<zone>[A-Za-z][\w.-]{0,39})@(?P<now_c>-?\d+(?:\.\d+)?)C(?:/(?P<max_c>-?\d+(?:\.\d+)?)C)?"),
    ("mts", r"MTS fg (?P<fg>\d+)% bg (?P<bg>\d+)%"),
    (
        "rail",
        r"(?P<rail>[A-Za-z][\w.-]{0,39}) (?P<now>-?\d+(?:\.\d+)?)(?P<unit>[um]?W|)"
        r"/-?\d+(?:\.\d+)?(?P=unit)(?:/-?\d+(?:\.\d+)?(?P=unit))?",
    ),
    ("off", r"(?P<off_name>[A-Za-z][\w.-]{0,39}) off"),
    (
        "engine",
        r"(?P<engine>[A-Za-z][\w.-]{0,39}) (?:(?P<load>\d+)%)?(?:@(?P<mhz>\d+|\[\d+(?:,\d+){0,15}\]))?(?<=[%\]\d])",
    ),
    ("clock", r"(?P<clock>[A-Z][A-Z0-9_]{0,39}) (?P<clock_mhz>\d+)"),
    ("unknown", r"\S+"),
)
_TOKEN = re.compile("|".join(f"(?P<is_{name}>{form})(?!\\S)" for name, form in _FORMS), re.ASCII)
_BLANK = re.compile(r"\s*")
_CORE = re.compile(r"(?P<off>off)|(?P<load>\d+)%(?:@(?P<mhz>\d+))?", re.ASCII)
_MORE = re.compile(
    r"lfb (?P<n>\d+)x(?P<each>\d+)(?P<each_unit>[kKMG]?B)"
    r"|lfb (?P<one>\d+)(?P<one_unit>[kKMG]?B)"
    r"|cached (?P<cached>\d+)(?P<cached_unit>[kKMG]?B)",
    re.ASCII,
)


def parse(line: str) -> Parsed:
    """Return the fields of one line; what is not understood is kept among the notes."""
    parsed = Parsed()
    end, at = len(line), 0
    while at < end:
        at = _BLANK.match(line, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if parsed.full or at > (MAX_LINE_CHAR // 4 if len(parsed.notes) >= MAX_NOTES else MAX_LINE_CHAR):
            parsed.note(line[at:])
            break
        match = _TOKEN.match(line, at)
        if match is None:  # the end
            break
        at = match.end()
        take = _TAKE.get(str(match.lastgroup)[len("is_") :])
        if take is not None:
            take(match, parsed)
    return parsed


def _memory(match: Match[str], parsed: Parsed) -> None:
    raw = match.group()
    subject, unit = word(match["kind"]), _BYTE[match["size"]]
    parsed.add(f"{subject}.used_byte", number(match["used"]) * unit, "byte", raw)
    parsed.add(f"{subject}.total_byte", number(match["all"]) * unit, "byte", raw)
    if match["more"] is None:
        return
    found = _MORE.fullmatch(match["more"])
    if found is None:
        parsed.note(match["more"])
        return
    if found["n"] is not None:
        parsed.add(f"{subject}.n_largest_free_blocks", number(found["n"]), "1", raw)
    for name, key in (("each", "largest_free_block"), ("one", "largest_free_block"), ("cached", "cached")):
        if found[name] is not None:
            parsed.add(f"{subject}.{key}_byte", number(found[name]) * _BYTE[found[f"{name}_unit"]], "byte", raw)


def _cores(match: Match[str], parsed: Parsed) -> None:
    """An unplugged core has neither load nor clock: both are NaN, and its column stays.

    One core that is not understood leaves the number of all after it in doubt: the list becomes a note.
    """
    cores = match["cores"].split(",")
    found = [_CORE.fullmatch(core) for core in cores]
    if None in found:
        parsed.note(match.group())
        return
    for i, (core, one) in enumerate(zip(cores, found)):
        assert one is not None
        parsed.add(f"cpu{i}.busy_frac", math.nan if one["off"] else _percent(one["load"]), "frac", core)
        if one["mhz"] is not None or (one["off"] and "@" in match["cores"]):
            parsed.add(f"cpu{i}.clock_hz", math.nan if one["off"] else number(one["mhz"]) * 1e6, "Hz", core)
    if match["cores_mhz"] is not None:
        parsed.add("cpu.clock_hz", number(match["cores_mhz"]) * 1e6, "Hz", match.group())


def _temp(match: Match[str], parsed: Parsed) -> None:
    subject = word(match["zone"])
    for key, raw in (("temp_c", match["now_c"]), ("max_temp_c", match["max_c"])):
        if raw is not None:
            value = number(raw)
            known = value >= _MIN_TEMP_C and not (subject == "pmic" and value == _PMIC_TEMP_C)
            parsed.add(f"{subject}.{key}", value if known else math.nan, "degC", match.group())


def _mts(match: Match[str], parsed: Parsed) -> None:
    parsed.add("mts_fg.busy_frac", _percent(match["fg"]), "frac", match.group())
    parsed.add("mts_bg.busy_frac", _percent(match["bg"]), "frac", match.group())


def _rail(match: Match[str], parsed: Parsed) -> None:
    scale = _WATT[match["unit"]]
    parsed.add(f"{word(match['rail'])}.power_w", number(match["now"]) * scale, "W", match.group())


def _off(match: Match[str], parsed: Parsed) -> None:
    parsed.add(f"{_subject(match['off_name'])}.clock_hz", math.nan, "Hz", match.group())


def _engine(match: Match[str], parsed: Parsed) -> None:
    if match["load"] is None and match["mhz"] is None:
        parsed.note(match.group())
        return
    subject, raw = _subject(match["engine"]), match.group()
    if match["load"] is not None:
        load = _percent(match["load"])
        unknown = subject == "emc" and load == 0 and match["mhz"] is None  # what it prints when not run as root
        parsed.add(f"{subject}.busy_frac", math.nan if unknown else load, "frac", raw)
    if match["mhz"] is not None:
        clocks = match["mhz"].strip("[]").split(",")
        for i, clock in enumerate(clocks):
            name = subject if len(clocks) == 1 else f"{subject}_gpc{i}"
            parsed.add(f"{name}.clock_hz", number(clock) * 1e6, "Hz", raw)


def _clock(match: Match[str], parsed: Parsed) -> None:
    parsed.add(f"{_subject(match['clock'])}.clock_hz", number(match["clock_mhz"]) * 1e6, "Hz", match.group())


def _unknown(match: Match[str], parsed: Parsed) -> None:
    parsed.note(match.group())


def _subject(name: str) -> str:
    subject = word(name[: -len("_FREQ")] if name.endswith("_FREQ") else name)
    return _SUBJECT.get(subject, subject)


def _percent(raw: str) -> float:
    value = number(raw) / 100
    return value if value <= 1 else math.nan


_TAKE = {
    "memory": _memory,
    "cores": _cores,
    "temp": _temp,
    "mts": _mts,
    "rail": _rail,
    "off": _off,
    "engine": _engine,
    "clock": _clock,
    "unknown": _unknown,
}
