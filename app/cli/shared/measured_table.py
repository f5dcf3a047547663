"""Measured points as a table: the columns that `trilemma data validate` reads, and what else the runs said."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from app.library.measurements import Measurement
from core.physics import traffic
from core.spec import Catalogue, Estimate

OUTPUTS = {
    "decode_ms_per_tok": ("decode_s", 1e-3),
    "ttft_ms": ("ttft_s", 1e-3),
    "power_w": ("power_w", 1.0),
    "energy_j_per_tok": ("energy_j_per_token", 1.0),
    "perplexity_ratio": ("perplexity_ratio", 1.0),
    "mean_kl": ("mean_kl", 1.0),
    "top1_agreement": ("top1_agreement", 1.0),
}
"""Column -> output and the unit it is in; beside each stand its 5 % and 95 % quantiles."""


def write_table(measured: Sequence[Measurement], catalogue: Catalogue, to: TextIO) -> None:
    """Write one line for each measurement; a cell is empty where the output is absent."""
    table = csv.writer(to, lineterminator="\n")
    rows = [table_row(measurement, catalogue) for measurement in measured]
    table.writerow(rows[0] if rows else [])
    table.writerows(row.values() for row in rows)


def table_row(measurement: Measurement, catalogue: Catalogue) -> dict[str, Any]:
    """Return a measurement as a row, a cell for each column; `provenance` is that of its outputs."""
    point, at = measurement.point, catalogue.resolve(measurement.point)
    conditions: Mapping[str, Any] = measurement.body.get("conditions", {})
    row: dict[str, Any] = {
        "board_key": point.board,
        "board": measurement.machine,
        "compute": at.board.unit,
        "runtime": point.runtime,
        "model": at.model.name,
        "model_key": point.model,
        "params_b": _digits(at.model.total_params / 1e9),
        "params_streamed_b": _digits((at.model.body_params + at.model.head_params) / 1e9),
        "kv_bytes_per_token": _digits(traffic.kv_byte_per_token(at.model, catalogue.kv_formats["fp16"])),
        "quant": point.weights,
        "kv_quant": point.kv,
        "context_tokens": f"{float(point.context_tokens):g}",
        "prompt_tokens": f"{float(point.context_tokens):g}",
        "dram_bandwidth_gb_s": _digits(at.mode.bandwidth_byte_s / 1e9),
        "alpha": f"{float(point.alpha):g}",
        "policy": point.policy,
        "layout": point.layout,
        "power_mode": point.power_mode,
        "batch": 1,
        "threads": conditions.get("threads", ""),
        "power_rail": conditions.get("power_covers", ""),
        "quiet_share": _digits(conditions.get("quiet_share")),
        "time_utc": measurement.time_utc,
        "provenance": _provenance(measurement),
    }
    for column, (name, unit) in OUTPUTS.items():
        output = measurement.output(name)
        for suffix, field in (("", "median"), ("_q05", "q05"), ("_q95", "q95")):
            value = float(getattr(output, field)) / unit if isinstance(output, Estimate) else None
            row[column + suffix] = _digits(value)
    return row


def _provenance(measurement: Measurement) -> str:
    outputs = (measurement.output(name) for name, _ in OUTPUTS.values())
    return "+".join(sorted({output.provenance.value for output in outputs if isinstance(output, Estimate)}))


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
