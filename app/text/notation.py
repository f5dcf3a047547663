"""Numbers and units as people and their keyboards write them, in the plain notation that `app.text.format` reads.

Full-width characters, every kind of space and minus, unit names in words, and the products that make one quantity:
data rate times bus width, charge times voltage.
"""

from __future__ import annotations

import re

from core.units import BIT_PER_BYTE

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_LIKE = {
    **dict.fromkeys(map(ord, "‐‑‒–−﹣"), "-"),
    **dict.fromkeys(map(ord, "_'’"), " "),  # between thousands
    **dict.fromkeys(map(ord, "∕⁄"), "/"),
    **dict.fromkeys(map(ord, "⋅∙•‧"), "·"),
    **dict.fromkeys(map(ord, "✕✖"), "×"),
    **dict.fromkeys((0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF)),  # of no width
    ord("μ"): "µ",
    ord("℃"): "°C",
    ord("º"): "°",
    ord("٫"): ".",
}
_ALIKE = str.maketrans({**_FULL_WIDTH, **_LIKE})

_PREFIXES = {
    **{"kilo": "k", "mega": "M", "giga": "G", "tera": "T", "milli": "m", "micro": "µ", "nano": "n"},
    **{"kibi": "Ki", "mebi": "Mi", "gibi": "Gi", "tebi": "Ti"},
}
_NAMES = {
    **{"byte": "byte", "bit": "bit", "watt": "W", "joule": "J", "volt": "V", "ampere": "A", "amp": "A", "hertz": "Hz"},
    **{"second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "percent": "%", "pct": "%", "tok": "token"},
}
_PREFIX = re.compile(rf"\b({'|'.join(_PREFIXES)})[ -]?(?=[a-z])", re.I)
_NAME = re.compile(rf"(?<![a-z])((?:[kmgtnµ]|[kmgt]i)??)({'|'.join(_NAMES)})s?(?![a-z])", re.I)
_PER_SECOND = re.compile(r"[ ·]*s ?(?:⁻¹|\^?-1)$")

_TIMES = r" ?[x×*·@,;]? ?"
_BITS = r"(?:(?P<n>\d{1,3}) ?[x×*] ?)?(?P<bit>\d{1,5})[ -]?bits?(?: (?:wide|bus))?"
_RATE = (
    r"(?:(?P<kind>(?:LP|G)?DDR\d[A-Z]?|HBM\d?E?)[- ]?)?"
    r"(?P<rate>\d+(?:\.\d+)?)(?: ?(?P<prefix>[MG])(?:T/s|Tps|bit/s|b/s|bps)(?:/pin)?)?"
)
_BUS = re.compile(rf"{_RATE}(?:{_TIMES}{_BITS})?", re.I)
_BUS_FIRST = re.compile(rf"{_BITS}{_TIMES}{_RATE}", re.I)
_CHARGE = re.compile(
    r"(?P<charge>\d+(?:\.\d+)?) ?(?P<prefix>m?)A ?·? ?h(?: ?[x×*·@,] ?| at | )?(?:(?P<volt>\d+(?:\.\d+)?) ?V)?", re.I
)
_PER_S = {"m": 1e6, "g": 1e9}
_S_PER_H = 3600.0


def plain(text: str) -> str:
    """Return the text with one kind of each character: ``５１．２ＧＢ／ｓ`` is ``51.2GB/s``, each space is a blank.

    Examples
    --------
    >>> plain("−５．５　℃")
    '-5.5 °C'
    """
    return re.sub(r"\s+", " ", text.translate(_ALIKE)).strip()


def symbol(written: str) -> str:
    """Return a unit in symbols, without blanks: ``gigabytes per second`` is ``Gbyte/s``, ``W·h`` is ``Wh``.

    Examples
    --------
    >>> symbol("MB/sec"), symbol("watt-hours"), symbol("GB s⁻¹"), symbol("tokens per second")
    ('MB/s', 'Wh', 'GB/s', 'tokens/s')
    """
    unit = re.sub(r"(?i)(?<=[a-z]) per (?=[a-z])", "/", written)
    unit = _PREFIX.sub(lambda match: _PREFIXES[match[1].lower()], unit)
    unit = _NAME.sub(lambda match: match[1] + _NAMES[match[2].lower()], unit)
    unit = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "", unit)
    return re.sub(r"[ ·]", "", _PER_SECOND.sub("/s", unit))


def bus_byte_s(text: str) -> float | None:
    """Return the bandwidth of a memory bus that is written as data rate times width [byte/s]; None where it is not.

    A data rate is in transfers a second, or in bits a second and line, which is the same number.

    Raises
    ------
    ValueError
        A data rate without the width: what is missing.

    Examples
    --------
    >>> bus_byte_s("6400 MT/s x 128 bit"), bus_byte_s("LPDDR5X-8533 256-bit")
    (102400000000.0, 273056000000.0)
    """
    match = _BUS.fullmatch(text) or _BUS_FIRST.fullmatch(text)
    if match is None or not (match["kind"] or match["prefix"]):
        return None
    if match["bit"] is None:
        if not match["kind"] and not re.search(r"[MG]T(?:/|p)s$", text, re.I):  # a rate in bits
            return None
        raise ValueError(f"expected the width of the bus too, such as {text} x 128 bit")
    rate = float(match["rate"]) * _PER_S[(match["prefix"] or "m").lower()]
    return rate * int(match["n"] or 1) * int(match["bit"]) / BIT_PER_BYTE


def charge_j(text: str) -> float | None:
    """Return the energy of a charge that is written with its voltage [J]; None where the text is no charge.

    Raises
    ------
    ValueError
        A charge without voltage, which is no energy.

    Examples
    --------
    >>> round(charge_j("5000 mAh x 3.7 V"))
    66600
    """
    match = _CHARGE.fullmatch(text)
    if match is None:
        return None
    if match["volt"] is None:
        raise ValueError(f"expected an energy, such as 56 Wh, or the voltage too, such as {text} x 3.7 V")
    return float(match["charge"]) * (1e-3 if match["prefix"] else 1.0) * _S_PER_H * float(match["volt"])
