"""A runtime from its file: the priors of its cost parameters, what it is called, and what it can do."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import GenericAlias
from typing import Any, cast

from msgspec import defstruct
from msgspec.structs import asdict

from core.catalogue.refusal import refusal
from core.catalogue.schemas import ReselectionTable, RuntimeTable, by_policy, prior_table
from core.catalogue.toml_files import converted, sources_of
from core.spec import FIELDS, PARAMETERS, RUNTIME_CLASSES, UNITS, Prior, ReselectionCost, Runtime
from core.spec.runtime import ABILITIES

_KNOBS = tuple(field.name for field in FIELDS if field.knob)
UNKNOWN_SOURCE = "[prior] of a runtime that nothing is known of"
_LOW_RATIO, _HIGH_RATIO = 0.05, 20.0  # of a parameter to a format


def _runtime_schema() -> type[RuntimeTable]:
    """Return the schema of a file: a table for each cost parameter, and one for each format that it has a ratio to."""
    ratio = prior_table(_LOW_RATIO, _HIGH_RATIO)
    reselection = defstruct(
        "Reselection", [("layer_s", by_policy(1.0)), ("score", by_policy(1e4))], bases=(ReselectionTable,)
    )
    fields: list[Any] = [(p.name, prior_table(p.low, p.high) | None, None) for p in PARAMETERS]
    fields += [(f"format_{p.name}", GenericAlias(dict, (str, ratio)), {}) for p in PARAMETERS if p.ratio is not None]
    fields.append(("reselection", reselection | None, None))
    return cast(type[RuntimeTable], defstruct("RuntimeFile", fields, bases=(RuntimeTable,), kw_only=True))


_SCHEMA = _runtime_schema()


def read_runtime(key: str, where: str, table: Mapping[str, Any]) -> Runtime:
    """Read a runtime from its table.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong in it.
    """
    made: Any = converted(where, table, _SCHEMA)  # its tables of cost parameters have no static types
    for name, known in (("unit", UNITS), ("classes", RUNTIME_CLASSES), ("knobs", _KNOBS), ("abilities", ABILITIES)):
        given = getattr(made, name)
        for value in [given] if isinstance(given, str) else given:
            if value not in known:
                raise refusal(f"{where}: {name}", value, f"one of {', '.join(known)}")
    for text in made.called:
        try:
            re.compile(text)
        except re.error as error:
            raise refusal(f"{where}: called", text, f"a regular expression ({error})") from None
    own = {parameter.name: getattr(made, parameter.name) for parameter in PARAMETERS}
    ratios = {
        f"{of}.{name}": ratio for of in own for name, ratio in getattr(made, f"format_{of}", dict[str, Any]()).items()
    }
    sources = {name: one.source if one else UNKNOWN_SOURCE for name, one in own.items()}
    sources |= {f"format_{name}": one.source for name, one in ratios.items()}
    if made.reselection:
        sources["reselection"] = made.reselection.source
    values = {name: getattr(made, name) for name in RuntimeTable.__struct_fields__ if name != "sources"}
    for of in ("model_factor", "prompt_factor"):
        values[of] = {name: Prior(*pair) for name, pair in values[of].items()}
    return Runtime(
        key=key,
        priors={parameter.name: _prior(own[parameter.name]) or parameter.prior for parameter in PARAMETERS},
        ratios={name: Prior(one.median, one.log_sd) for name, one in ratios.items()},
        reselection=_reselection_cost(made.reselection) if made.reselection else None,
        sources=sources | sources_of(where, table, made),
        **values,
    )


def _prior(table: Any) -> Prior | None:
    return Prior(table.median, table.log_sd) if table else None


def _reselection_cost(table: Any) -> ReselectionCost:
    return ReselectionCost(asdict(table.layer_s), table.copy, table.read, asdict(table.score), table.log_sd)


def check_formats(runtime: Runtime, weights: Collection[str], kv: Collection[str]) -> None:
    """Raise `ValueError` unless the formats that a runtime names are keys of the catalogue."""
    for name, keys, known in (
        ("smaller_weights", runtime.smaller_weights, weights),
        ("smaller_kv", runtime.smaller_kv, kv),
        ("usual_kv", (runtime.usual_kv,), kv),
    ):
        for key in keys:
            if key not in known:
                raise ValueError(f"runtimes/{runtime.key}.toml: {name}: got {key!r}, expected one of formats.toml")
