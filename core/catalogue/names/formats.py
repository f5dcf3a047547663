"""Which weight format a name means, however its authors or a runtime write it, and how many bits it tells.

A name is read as words of a few kinds: types of MLC and of GGUF files, ways of quantising, bits of weights and
activations, bits alone. What says more counts before what says less, so "INT4 (q4f16)" is q4f16. What is said of the
cache, of activations or of the head is passed over. Where the catalogue has no format of that name, its bits remain.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import NamedTuple

from core.spec import WeightFormat

UNPACKED_BELOW_BIT = 6.7  # formats of fewer bits pay for unpacking
SCALE_BIT = 16.0  # of the scale of a group of weights
USUAL_GROUP = 32  # [prior] weights with a common scale where a name tells none: half a bit a weight
WHOLE_ROW_BIT = 8.0  # formats of so many bits and more have a scale a row or channel, which is next to nothing
AGREE = 1.5  # times as many bits are another format
MOST_SCALE_BIT = 1.5  # of a weight; IQ1_M has 1.75 bits in all, files of Q2_K have 3.4
QUANTISED_BIT = 4.0  # of AWQ and GPTQ where a name tells none, in groups of
CALIBRATED_GROUP = 128
OWN_GROUP = 32  # of the catalogue's int4

_FORMAT = r"(?:\d+-?bit|[a-z]*\d[a-z0-9_.]*)"
_NOT_WEIGHTS = (
    re.compile(rf"(?<![a-z])kv(?:[ _-]?cache)?[ _:=-]*{_FORMAT}|kv\d+"),
    re.compile(
        rf"(?<![a-z0-9_]){_FORMAT}[ _-]*(?:kv|act(?:ivation)?s?|embed\w*|(?:lm[ _-]?)?head|accum\w*|comput\w*)(?![a-z])"
    ),
    re.compile(rf",? some {_FORMAT}"),  # as in "mostly Q4_1, some F16"
)
_BARE = re.compile(r"^([1-8]|16|32)(?:\.0)?$")  # a number alone
_GROUP = re.compile(
    r"(?<![a-z])(?:block|g)(?:s|roups?|roup[ _-]?size|roupwise)?(?:[ _-]?size)?(?: of)?[ _:=-]*(\d{2,4})(?!\d)"
)
_PLAIN_BITS = re.compile(r"(?:mlx[ _-]*)?(\d+)[ _-]*bits?(?:[ _-]*\(?mlx\)?)?")  # MLX stores its formats so
_REMARK = re.compile(r"\((?:guessed|mlx)\)|^ *(?:all|mostly) |[ -]*\d+(?:\.\d+)? *bpw\b.*|,? some .*")
"""What llama.cpp adds to the name of a format."""
_WORD = re.compile(
    r"(?P<mlc>(?<![a-z0-9])q(?P<mlc_bit>\d)[bf](?:16|32)(?![0-9]))"
    r"|(?P<ik>(?<![a-z0-9])iq(?P<ik_bit>\d)[_-](?:k(?:ss|s|t|l)?|bn)(?:_r\d+)?(?![a-z0-9]))"
    r"|(?P<gguf>(?<![a-z0-9])[it]?q(?P<gguf_bit>\d)"
    r"(?:[ _-]*(?:k|nl|xxs|xs|xl|s mix|s(?:mall)?|m(?:edium)?|l(?:arge)?|[01](?!\.)))*(?![a-z0-9]))"
    r"|(?P<way>awq|gptq)"
    r"|(?P<float>(?<![a-z0-9])(?:mx|nv)?(?:b?f|fp|nf|b?float)(?P<float_bit>32|16|8|6|4)(?![0-9]))"
    r"|(?P<both>(?<![a-z0-9])(?:w(?P<both_bit>\d+)a(?:fp|int)?\d+|a\d+w(?P<behind_bit>\d+)|\dda(?P<dynamic_bit>\d)w))"
    r"|(?P<int>(?<![a-z])(?:u?int|[ius])(?P<int_bit>\d)(?![0-9]))"
    r"|(?P<bits>(?<![a-z0-9.])(?:(?P<bits_bit>\d+(?:\.\d+)?)(?:(?=/\d+[ _-]?bit)|[ _-]?bits?(?![a-z]))"
    r"|w(?P<w_bit>\d+(?:\.\d+)?)(?![a-z0-9.])"
    r"|(?<![a-z0-9])b(?P<bitnet_bit>1\.58)(?![0-9])|bnb[ _-]?(?P<bnb_bit>[48])(?![0-9])"
    r"|(?<![a-z0-9])q(?P<own_bit>\d)[a-z]+(?![a-z0-9])))"
    r"|(?P<whole>(?<![0-9.])(?P<whole_bit>\d+(?:\.\d+)?)[ _-]?bpw)"
)
_SURE = ("mlc", "ik", "gguf", "way", "float", "both", "int", "bits", "whole")
"""Kinds of words, the most telling first."""


class FormatName(NamedTuple):
    """What a name tells of a format."""

    key: str = ""  # of the catalogue; "" where it has none of that name
    bits: float | None = None  # of a weight, without scales
    bits_per_weight: float | None = None  # with scales; at the usual size of groups where the name tells none
    contradiction: str = ""  # the words that cannot both be; "" where all agree


class _Word(NamedTuple):
    kind: str
    text: str
    bits: float


def with_scales(bits: float, group: int = 0) -> float:
    """Return the bits of a weight with the scale of its group, one of the usual size where `group` is 0."""
    if bits >= WHOLE_ROW_BIT and not group:
        return bits
    return bits + SCALE_BIT / (group or USUAL_GROUP)


def format_name(
    name: str, known: Collection[str], stated_bits: float | None = None, *, of_weights: bool = True
) -> FormatName:
    """Read a name.

    Parameters
    ----------
    name : str
        Such as "Q4_K - Medium", "llama 8B IQ4_XS - 4.25 bpw", "INT4-AWQ g128", "w8a8", "4-bit", "model-Q4_K_M.gguf".
    known : collection of str
        The catalogue's keys.
    stated_bits : float, optional
        Bits of a weight that are stated elsewhere; they decide between words that contradict each other.
    of_weights : bool
        Whether what is said of caches, activations and heads is of something else.
    """
    text = unicodedata.normalize("NFKC", name).strip().lower()
    text = re.sub(r"(?<![a-z])half(?![a-z])", "fp16", _BARE.sub(r"\1-bit", text))
    exact = text if text in known else ""
    for of_others in _NOT_WEIGHTS if of_weights else ():
        text = of_others.sub(" ", text)
    words = list(_words(text))
    if stated_bits is not None:
        words = [word for word in words if same_bits(word.bits, stated_bits)] or words
    if not words:
        return FormatName(exact)
    odd = next((word for word in words if not _of_one(word, words[0])), None)
    if odd is not None:
        return FormatName(contradiction=f"{words[0].text} and {odd.text}")
    best = min(_SURE.index(word.kind) for word in words)
    word = [word for word in words if _SURE.index(word.kind) == best][-1]
    found = _GROUP.search(text)
    group = int(found.group(1)) if found else 0
    key = exact or next((key for key in _keys(word, group) if key in known), "")
    whole = next((one.bits for one in words if one.kind == "whole"), None)
    return FormatName(key, word.bits, whole or with_scales(word.bits, group))


def format_key(name: str, known: Collection[str], *, of_weights: bool = True) -> str:
    """Return the key of the format that a runtime names: the catalogue's, else one made of its own words.

    >>> format_key("IQ4_XS - 4.25 bpw", ("iq4_xs",)), format_key("IQ4_KSS - 4.0 bpw", ("iq4_xs",))
    ('iq4_xs', 'iq4_kss')
    """
    return format_name(name, known, of_weights=of_weights).key or described_key(_REMARK.sub("", name.lower()))


def described_key(name: str) -> str:
    """Return the key of a format that the catalogue does not know; "4-bit", "4 bits" and "MLX-4bit" are one."""
    plain = _PLAIN_BITS.fullmatch(name.lower())
    if plain:
        return f"{plain[1]}bit"
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"


def described(name: str, bits: float, bits_per_weight: float) -> WeightFormat:
    """Return a format of which only the bits are known, without scales and in all; the head is like the rest."""
    key, unpacked = described_key(name), bits < UNPACKED_BELOW_BIT
    return WeightFormat(key, name, bits_per_weight, bits_per_weight, unpacked, source="bits as its name tells them")


def same_bits(one: float, other: float) -> bool:
    """Tell whether two numbers of bits may be of one format, one of them with scales."""
    return max(one, other) < AGREE * min(one, other)


def _of_one(one: _Word, other: _Word) -> bool:
    """Tell whether two words may be of one format; of few bits, scales are a large part."""
    scaled = "whole" in (one.kind, other.kind) and abs(one.bits - other.bits) < MOST_SCALE_BIT
    return scaled or same_bits(one.bits, other.bits)


def _words(text: str) -> Iterator[_Word]:
    found = [_read(match) for match in _WORD.finditer(text)]
    others = [word.bits for word in found if word.kind != "way"]
    for word in found:
        yield (
            word._replace(bits=others[0] if others and others[0] <= WHOLE_ROW_BIT else QUANTISED_BIT)
            if (word.kind == "way")
            else word
        )


def _read(match: re.Match[str]) -> _Word:
    kind = next(name for name in _SURE if match[name] is not None)
    bits = next((float(value) for name, value in match.groupdict().items() if name.endswith("_bit") and value), 0.0)
    if kind == "mlc" and not bits:  # q0f16: not quantised
        return _Word("float", match[0][2:], float(match[0][3:]))
    return _Word(kind, match[0], bits)


def _keys(word: _Word, group: int) -> Iterator[str]:
    """Yield what the catalogue may call a word's format, the most exact first."""
    bits = f"{word.bits:g}"
    if word.kind == "mlc":
        yield f"q{bits}f16"
    elif word.kind == "ik":
        yield re.sub(r"_r\d+$", "", word.text.replace("-", "_"))
    elif word.kind == "gguf":
        parts = re.findall(r"[it]?q\d|k|nl|xxs|xs|xl|[sml](?=small|medium|large)?|[01]", _short(word.text))
        yield "_".join(parts)
        yield "_".join(parts[:2])
        yield "_".join([*parts[:2], "m"])  # llama.cpp takes Q4_K for Q4_K_M; larger heads have no entry of their own
        yield f"{parts[0]}_0" if float(bits) == WHOLE_ROW_BIT else ""
    elif word.kind == "way":
        yield f"w{bits}a16_g{group or CALIBRATED_GROUP}"
    elif word.kind == "float":
        yield re.sub("^f(?=[0-9])", "fp", re.sub("float", "f", word.text))
    elif word.kind == "both":
        yield f"fp{bits}" if float(bits) > WHOLE_ROW_BIT else f"{word.text}_g{group}" if group else word.text
    elif word.kind == "int":
        yield f"int{bits}_g{group}" if group not in (0, OWN_GROUP) else f"int{bits}"


def _short(text: str) -> str:
    """Return a name of GGUF with letters for sizes; llama.cpp calls IQ3_M "IQ3_S mix"."""
    return re.sub(r"(?<=[sml])(?:mall|edium|arge)", "", text.replace("s mix", "m"))
