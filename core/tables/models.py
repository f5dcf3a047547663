"""The models of a table: those of the catalogue, and shapes for the others from the figures of their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.catalogue.names.models import KnownNames, ModelName, model_name
from core.catalogue.shape_regression import ModelFacts, TypicalShapes
from core.spec import ModelShape
from core.tables.rows import PublishedRow

OTHER_SIZE = 2.0  # factor between parameters of a row and of the known model of its name, beyond which they differ
ONE_SIZE = 1.5  # largest ratio of the parameters of one model: names are rounded, and some include image encoders
BILLION = 1e9
ESTIMATED = "estimate"  # start of a `weight_basis` of parameters times nominal bits, without scales


def models_of(rows: Sequence[PublishedRow], known: Mapping[str, ModelShape]) -> list[ModelShape | str]:
    """Return the model of each row, or the missing figures as text.

    A row's key takes precedence over its name. An unknown model is described by the figures of all rows with its key or
    name. Names of one key with different parameters are different models.

    Parameters
    ----------
    rows : sequence of PublishedRow
    known : mapping
        Models of the catalogue by key.
    """
    names = KnownNames(known)
    read = [model_name(row.text["model"]) for row in rows]
    keys = [_known_key(row, names, known) for row in rows]
    unknown = dict[str, list[int]]()
    for i, row in enumerate(rows):
        if not keys[i]:
            unknown.setdefault(row.text["model_key"] or read[i].key, []).append(i)
    found: list[ModelShape | str] = [known.get(key, "") for key in keys]
    typical = TypicalShapes.of(known.values()) if unknown else None
    for key, mine in unknown.items():
        for one, of_one in _by_model(key, mine, [rows[i] for i in mine], [read[i] for i in mine]).items():
            facts = model_facts([rows[i] for i in of_one])
            made: ModelShape | str = ""
            if isinstance(facts, str):
                made = facts
            elif typical is not None:
                free = f"{one}_other" if one in known else one
                made = typical.shape(free, rows[of_one[0]].text["model"], facts)
            for i in of_one:
                found[i] = made
    return found


def _known_key(row: PublishedRow, names: KnownNames, known: Mapping[str, ModelShape]) -> str:
    """Return the key of the row's model in the catalogue; "" where it has none."""
    key = row.text["model_key"]
    if key in known:
        return key
    key = (key and names.key(key)) or names.key(row.text["model"])
    stated = row.number.get("params_b")
    if key and stated and not 1.0 / OTHER_SIZE < stated / known[key].total_params < OTHER_SIZE:
        return ""
    return key


def _by_model(
    key: str, number: Sequence[int], rows: Sequence[PublishedRow], names: Sequence[ModelName]
) -> dict[str, list[int]]:
    """Return the row numbers of one key by model."""
    stated = [row.number["params_b"] for row in rows if "params_b" in row.number]
    if not stated or max(stated) < ONE_SIZE * min(stated):
        return {key: list(number)}
    found = dict[str, list[int]]()
    for i, name in zip(number, names, strict=True):
        found.setdefault(name.key, []).append(i)
    return found


def model_facts(rows: Sequence[PublishedRow]) -> ModelFacts | str:
    """Return the figures of a model from its rows (medians) or else from its name; or the missing figures as text."""
    names = [model_name(row.text["model"]) for row in rows]
    sizes = {size for name in names for size in name.sizes}
    named, active = (
        [float(size.strip("ab")) * BILLION for size in sizes if re.fullmatch(of, size)]
        for of in (r"[\d.]+b", r"a[\d.]+b")
    )
    if len(named) > 1 and not active and all("moe" in name.words for name in names):
        active = [min(named)]  # OLMoE-1B-7B
    read = _median([row.number.get("params_streamed_b") for row in rows]) or _median(active)
    total = _median([row.number.get("params_b") for row in rows]) or (max(named) if named else None)
    if read is None and total is None:
        return "its parameters (params_b)"
    if read is None and any(row.text["moe_or_sparse"].lower() == "true" for row in rows):
        return "the parameters that a token reads (params_streamed_b)"
    kv_byte = _median([row.number.get("kv_bytes_per_token") for row in rows])
    return ModelFacts(total, read, kv_byte, weighed=any(map(_weighed, rows)))


def _median(values: Iterable[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return float(np.median(given)) if given else None


def _weighed(row: PublishedRow) -> bool:
    """Return True if a row has the bytes of its weights, and not only an estimate."""
    return not row.text.get("weight_basis", "").startswith(ESTIMATED) and bool(
        {"weight_stream_bytes", "weight_bytes"} & row.number.keys()
    )
