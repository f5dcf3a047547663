"""Words and rows of compensation: the live parameter set, accuracy and decode time without and with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.library.measurements import Measurement
from app.text.format import DASH, counted, estimate_text, number_text
from core.catalogue.text_files import printable

KINDS = {
    "none": "no compensation",
    "offsets": "offsets (outer loop)",
    "feedback": "error feedback (inner loop)",
    "both": "offsets and error feedback (both loops)",
}
ROWS = {
    "top1_loss": ("top-1 loss", "frac"),
    "top1_agreement": ("top-1 agreement", "frac"),
    "mean_kl": ("KL divergence", "nat"),
    "perplexity_ratio": ("perplexity ratio", "1"),
    "decode_s": ("decode time", "s"),
}
"""Quantity -> its name and unit, in the order of tables."""
MOST = 80
"""Characters of a text of a board."""
HEADINGS = ("", "without", "with", "change")
PUBLISHED = "As published: 16 to 8 bits lose 3.2 % top-1 with one loop, 0.7 % with two (article B, B10)."
AGAINST = "All against the file in fp32; top-1 loss is the accuracy lost on the token that follows."


def live_sentence(status: Mapping[str, Any]) -> str:
    """Return what is live on a board, from its answer to a step with parameters; a board may send anything."""
    n, epoch, crc = (status.get(name) for name in ("n_channels", "epoch", "crc"))
    if not (isinstance(n, int) and isinstance(epoch, int) and isinstance(crc, int)):
        return "No parameter set is live on this board."
    of = status.get("context")
    made = ""
    if isinstance(of, Mapping):
        weights, kind, model, chip = (
            printable(str(of.get(name, "?")))[:MOST] for name in ("weights", "compensation", "model", "chip")
        )
        made = f" for {weights} weights of {model} (compensation {kind}), made on {chip}"
    return f"Live: {counted(n, 'channel')}{made}, epoch {epoch}, checksum {crc & 0xFFFFFFFF:#010x}."


def effect_of(measurements: Sequence[Measurement], weights: str) -> Measurement | None:
    """Return the newest measurement with an effect of compensation, of a weight format if there is one of it."""
    found = [m for m in measurements if "change" in m.body.get("compensation", {})]
    mine = [m for m in found if m.point.weights == weights]
    return next(iter((mine or found)[-1:]), None)


def measured_at(measurement: Measurement) -> str:
    """Return where an effect was measured, in one sentence."""
    point, conditions = measurement.point, measurement.body.get("conditions", {})
    windows = conditions.get("quality_windows")
    text = f" over {counted(windows, 'window')} of text" if isinstance(windows, int) else ""
    return (
        f"{point.weights} weights, {point.kv} KV, context {float(point.context_tokens):g}, measured{text} at "
        f"{measurement.time_utc[:16].replace('T', ' ')} UTC; intervals of 90 %."
    )


def rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the quantities of a measured effect: name, without, with, change."""
    change = found["change"]
    table = []
    for key, (name, unit) in ROWS.items():
        moved, of = change.get(key), unit
        if unit == "frac":
            of = "points"
        elif key in ("decode_s", "perplexity_ratio"):
            moved, of = change.get(key.replace("_s", "_ratio")), "ratio"
        table.append(
            (name, _text(found["without"].get(key), unit), _text(found["with"].get(key), unit), _text(moved, of))
        )
    return table


def _text(record: Mapping[str, Any] | None, unit: str) -> str:
    if record is None:
        return DASH
    if "median" not in record:
        return str(record.get("absent", DASH))
    values = [float(record[name]) for name in ("median", "q05", "q95")]
    if unit == "ratio":
        return "x {:.3f} [{:.3f} – {:.3f}]".format(*values)
    if unit == "points":
        middle, low, high = (number_text(100.0 * value, 1) for value in values)
        return f"{middle} points [{low} – {high}]"
    return str(estimate_text(values[0], values[1], values[2], unit))


def summary(found: Mapping[str, Any]) -> str:
    """Return the loss of top-1 accuracy without and with compensation in one sentence."""
    without, compensated = (100.0 * found[side]["top1_loss"]["median"] for side in ("without", "with"))
    return f"Loss of top-1 accuracy: {without:.1f} % without, {compensated:.1f} % with {KINDS[found['kind']]}."


def installed_sentence(found: Mapping[str, Any]) -> str:
    """Return how the parameter set was made and installed; "" where the compensation has none."""
    one, drifts = found.get("installed"), found.get("drift_sd") or []
    if not one:
        return ""
    rounds = f"drift {drifts[0]:.3f} to {min(drifts):.3f} standard deviations in {counted(len(drifts), 'round')}"
    return (
        f"Parameter set: {counted(one['n_channels'], 'channel')}, {rounds}; {one['payload_byte']} bytes in "
        f"{counted(one['n_message'], 'message')}, {1e3 * one['total_s']:.0f} ms, epoch {one['epoch']}."
    )
