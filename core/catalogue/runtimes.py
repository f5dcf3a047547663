"""A runtime from its file: the priors of its cost parameters, what it is called, and what it can do."""

from __future__ import annotations

import re
from collections.abc import Collection

from core.catalogue.toml_table import Table
from core.spec import PARAMETERS, POLICIES, RUNTIME_CLASSES, UNITS, Parameter, Prior, ReselectionCost, Runtime

_KNOBS = ("weights", "kv", "policy", "layout", "context_tokens", "alpha", "reselect_tokens", "beta")


def read_runtime(key: str, table: Table) -> Runtime:
    """Read a runtime from its table.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong in it.
    """
    knobs = table.take("knobs", list, "a list of operating-point fields")
    for knob in knobs:
        if knob not in _KNOBS:
            table.fail("knobs", knob, f"one of {', '.join(_KNOBS)}")
    sources: dict[str, str] = {}
    priors = {p.name: _prior_of(p, table, sources) for p in PARAMETERS}
    ratios = {
        f"{p.name}.{name}": _prior(f"format_{p.name}.{name}", one, 0.05, 20.0, sources)
        for p in PARAMETERS
        if p.ratio is not None
        for name, one in table.table(f"format_{p.name}", {}).tables()
    }
    table.numbers += [name for name in ("static_graph", "usual_kv") if name in table.left]  # they have sources, too
    made = Runtime(
        key=key,
        name=table.text("name"),
        unit=_one_of(table, "unit", table.text("unit"), UNITS),
        priors=priors,
        ratios=ratios,
        short_name=table.text("short_name", default=""),
        called=tuple(_pattern(table, one) for one in table.stated_texts("called")),
        others_build_on_it=table.flag("others_build_on_it", default=False),
        classes=tuple(_one_of(table, "classes", one, RUNTIME_CLASSES) for one in table.stated_texts("classes")),
        format_log_sd=table.number("format_log_sd", 0.0, 3.0, default=0.15),
        model_log_sd=table.number("model_log_sd", 0.0, 3.0, default=0.12),
        model_factor=_factors(table, "model_factor"),
        prompt_log_sd=table.number("prompt_log_sd", 0.0, 3.0, default=0.0),
        prompt_factor=_factors(table, "prompt_factor"),
        size_log_sd=table.number("size_log_sd", 0.0, 3.0, default=0.0),
        repeat_log_sd=table.number("repeat_log_sd", 0.001, 3.0, default=0.03),
        prompt_chunk_tokens=table.number("prompt_chunk_tokens", 0.0, 1e6, default=0.0),
        static_graph=table.flag("static_graph", default=False),
        graph_tokens=table.number("graph_tokens", 0.0, 1e7, default=0.0),
        prompt_half_width=table.number("prompt_half_width", 0.0, 1e5, default=0.0),
        reselection=_reselection_cost(table.table("reselection"), sources) if "reselection" in table.left else None,
        knobs=tuple(knobs),
        runs_on=table.texts("runs_on"),
        takes=table.texts("takes"),
        smaller_weights=table.stated_texts("smaller_weights"),
        smaller_kv=table.stated_texts("smaller_kv"),
        usual_kv=table.text("usual_kv", default="bf16"),
        sources=sources,
    )
    sources.update(table.close())
    return made


def _one_of(table: Table, key: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        table.fail(key, value, f"one of {', '.join(known)}")
    return value


def _pattern(table: Table, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        table.fail("called", text, f"a regular expression ({error})")
    return text


def _reselection_cost(table: Table, sources: dict[str, str]) -> ReselectionCost:
    """Read what choosing anew costs; one source covers all of it."""
    layer_s, copy, read, score = (table.table(name) for name in ("layer_s", "copy", "read", "score"))
    made = ReselectionCost(
        layer_s={policy: layer_s.number(policy, 0.0, 1.0) for policy in POLICIES},
        copy={key: copy.number(key, 0.0, 1e4) for key in list(copy.left)},
        read={key: read.number(key, 0.0, 1e4) for key in list(read.left)},
        score={policy: score.number(policy, 0.0, 1e4) for policy in POLICIES},
        log_sd=table.number("log_sd", 0.0, 3.0),
    )
    sources["reselection"] = table.text("source")
    for one in (layer_s, copy, read, score, table):
        one.numbers.clear()
        one.close()
    return made


def _factors(table: Table, name: str) -> dict[str, Prior]:
    """Read factors of models, ``key = [median, log_sd]``, keys of the catalogue or of a published table."""
    factors = table.table(name, {})
    if factors.left:
        table.numbers.append(name)
    found = {}
    for key in list(factors.left):
        pair = factors.take(key, list, "a median and the standard deviation of its logarithm")
        if len(pair) != 2 or not all(isinstance(x, (int, float)) and 0.0 < x < 20.0 for x in pair):
            factors.fail(key, pair, "a median and the standard deviation of its logarithm, both above 0 and under 20")
        found[key] = Prior(float(pair[0]), float(pair[1]))
    return found


def _prior_of(parameter: Parameter, table: Table, sources: dict[str, str]) -> Prior:
    """Read the prior of a parameter; the file of a runtime that was not learned yet need not have one."""
    if parameter.name not in table.left:
        sources[parameter.name] = "[prior] of a runtime that nothing is known of"
        return parameter.prior
    return _prior(parameter.name, table.table(parameter.name), parameter.low, parameter.high, sources)


def _prior(name: str, table: Table, low: float, high: float, sources: dict[str, str]) -> Prior:
    made = Prior(table.number("median", low, high), table.number("log_sd", 0.0, 3.0))
    sources[name] = table.text("source")
    table.numbers.clear()  # one `source` covers the prior
    table.close()
    return made


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
