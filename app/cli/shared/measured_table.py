"""Measured points as a table: the columns that `trilemma data validate` reads, and further results of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.library.measurements import Measurement
from core.physics import traffic
from core.spec import FIELDS, Catalogue, Estimate, OperatingPoint

if TYPE_CHECKING:
    import pandas as pd

OUTPUTS = {
    "decode_ms_per_tok": ("decode_s", 1e-3),
    "ttft_ms": ("ttft_s", 1e-3),
    "power_w": ("power_w", 1.0),
    "energy_j_per_tok": ("energy_j_per_token", 1.0),
    "perplexity_ratio": ("perplexity_ratio", 1.0),
    "mean_kl": ("mean_kl", 1.0),
    "top1_agreement": ("top1_agreement", 1.0),
}
"""Column -> output and its unit; each has columns of its 5 % and 95 % quantiles."""


NEEDED = ("board_key", "compute", "runtime", "model", "quant")
"""Columns of a table without rows."""

NUMBER = "%.6g"
"""Number format of CSV files."""


def measured_frame(measured: Sequence[Measurement], catalogue: Catalogue) -> pd.DataFrame:
    """Return one row for each measurement; an absent output is an empty cell."""
    import pandas as pd

    rows = [table_row(measurement, catalogue) for measurement in measured]
    return pd.DataFrame(rows, columns=list(rows[0] if rows else NEEDED))


def table_row(measurement: Measurement, catalogue: Catalogue) -> dict[str, Any]:
    """Return a measurement as a row, a cell for each column; `provenance` is that of its outputs."""
    point, plain = measurement.point, OperatingPoint()
    at = catalogue.resolve(replace(point, weights=plain.weights, kv=plain.kv))  # formats may be words of a runtime
    conditions: Mapping[str, Any] = measurement.body.get("conditions", {})
    row: dict[str, Any] = {
        "board_key": point.board,
        "board": measurement.machine,
        "compute": at.board.unit,
        "runtime": point.runtime,
        "model": at.model.name,
        "model_key": point.model,
        "params_b": at.model.total_params / 1e9,
        "params_streamed_b": (at.model.body_params + at.model.head_params) / 1e9,
        "kv_bytes_per_token": float(traffic.kv_byte_per_token(at.model, catalogue.kv_formats["fp16"])),
        "quant": point.weights,
        "kv_quant": point.kv,
        "context_tokens": float(point.context_tokens),
        "prompt_tokens": float(point.context_tokens),
        "dram_bandwidth_gb_s": at.mode.bandwidth_byte_s / 1e9,
        "alpha": float(point.alpha),
        "policy": point.policy,
        "layout": point.layout,
        "power_mode": point.power_mode,
        "batch": 1,
        "threads": conditions.get("threads"),
        "power_rail": conditions.get("power_covers", ""),
        "quiet_share": conditions.get("quiet_share"),
        "time_utc": measurement.time_utc,
        "provenance": _provenance(measurement),
    }
    row |= {column: cell for column, cell in _point_cells(point).items() if column not in row}
    for column, (name, unit) in OUTPUTS.items():
        output = measurement.output(name)
        for suffix, field in (("", "median"), ("_q05", "q05"), ("_q95", "q95")):
            row[column + suffix] = float(getattr(output, field)) / unit if isinstance(output, Estimate) else None
    return row


def _point_cells(point: OperatingPoint) -> dict[str, str]:
    """Return every field of a point by its column."""
    values = {field.column or field.name: getattr(point, field.name) for field in FIELDS}
    return {
        column: "" if value is None else value if isinstance(value, str) else repr(float(value))
        for column, value in values.items()
    }


def _provenance(measurement: Measurement) -> str:
    outputs = (measurement.output(name) for name, _ in OUTPUTS.values())
    return "+".join(sorted({output.provenance.value for output in outputs if isinstance(output, Estimate)}))
