"""Rows of the lab on models: joint compression (B02), adapters (B12), scenario score (B13)."""

from __future__ import annotations

import numpy as np

from app.text.format import number_text, quantity_text
from app.text.lab.item import Found, Input, Lab, Output, Values
from core.articles import compression

_BITS = np.arange(2.0, 17.0)


def _loss(v: Values, bits: float) -> dict[str, float]:
    """The terms of n equal weights, from those of one."""
    n = v["weights"]
    price = (v["price_weight"], v["price_rounding"], v["price_second"])
    one = compression.joint_loss(0.0, [v["log_alpha"]], v["curvature"], v["span"], bits, v["bandwidth_byte_s"], price)
    return {
        "open": n * one.n_open,
        "rounding_nat": n * one.rounding,
        "read_s": n * one.read_s,
        "total_nat": v["task_loss"] + n * one.total,
    }


def _b02(v: Values) -> Found:
    totals = [_loss(v, float(bits))["total_nat"] for bits in _BITS]
    best = int(np.argmin(totals))
    return {
        **_loss(v, v["format_bit"]),
        "open_frac": float(compression.expected_open_gates(v["log_alpha"])),
        "best_bit": float(_BITS[best]),
        "best_nat": totals[best],
    }


def _b02_words(v: Values, f: Found) -> str:
    total, best = float(f["total_nat"]), float(f["best_nat"])
    beside = "the least" if total <= best else f"the least is {best:.4g} nat at {f['best_bit']:.0f} bit"
    return (
        f"At {v['format_bit']:g} bit the joint loss is {total:.4g} nat, {beside}: rounding costs "
        f"{float(f['rounding_nat']):.3g} nat and reading takes {quantity_text(float(f['read_s']), 's')}."
    )


B02 = Lab(
    "B02",
    "Joint loss of pruning and quantisation",
    (
        Input("task-loss", "Loss of the task", 2.5, "1", 0, 1e6, (0, 10), "assumed"),
        Input("weights", "Weights", 1.5e9, "1", 1, 1e13, (1e8, 1e10), "assumed"),
        Input("log-alpha", "Gate location", 0.0, "1", -50, 50, (-5, 5), "assumed"),
        Input("curvature", "Curvature", 1e-6, "1", 0, 1e6, (1e-8, 1e-4), "assumed"),
        Input("span", "Range of the weights", 0.2, "1", 0, 1e6, (0.01, 2), "assumed"),
        Input("format", "Bits of a weight", 4, "bit", 1, 32, (2, 16)),
        Input("bandwidth", "Bandwidth", 51.2e9, "byte/s", 1e6, 1e15, (5e9, 500e9), "assumed"),
        Input("price-weight", "Price of a weight", 0.0, "1", 0, 1e6, (0, 1e-9), "assumed"),
        Input("price-rounding", "Price of rounding", 1.0, "1", 0, 1e6, (0, 10), "assumed"),
        Input("price-second", "Price of a second", 1.0, "1", 0, 1e6, (0, 10), "assumed"),
    ),
    (
        Output("open_frac", "Weights that stay", "frac"),
        Output("open", "Weights that stay, number"),
        Output("rounding_nat", "Rise of the loss by rounding [nat]"),
        Output("read_s", "Time to read the weights", "s"),
        Output("total_nat", "Joint loss [nat]"),
        Output("best_bit", "Bits of least joint loss", "bit"),
        Output("best_nat", "Least joint loss [nat]"),
    ),
    _b02,
    _b02_words,
    "format_bit",
    ("total_nat",),
)

_ADAM_BYTE = 16.0  # of a trained parameter: weight, gradient, two moments in 32 bit


def _b12(v: Values) -> Found:
    if v["rank"] > min(v["in_size"], v["out_size"]):
        raise ValueError(
            f"Rank: got {v['rank']:.0f} beside a matrix of {v['in_size']:.0f} x {v['out_size']:.0f}, expected at most "
            "the smaller size"
        )
    size = float(compression.adapter_params(v["in_size"], v["out_size"], v["rank"]))
    n_adapter = size * v["matrices"]
    base = float(compression.params_byte(v["base_params"], v["base_bit"]))
    stored = float(compression.params_byte(n_adapter, v["adapter_bit"]))
    return {
        "matrix_params": size,
        "adapter_params": n_adapter,
        "saved_frac": float(compression.adapter_reduction(v["in_size"], v["out_size"], v["rank"])),
        "scaling": v["scale"] / v["rank"],
        "base_byte": base,
        "adapter_byte": stored,
        "total_byte": base + stored,
        "training_byte": base + _ADAM_BYTE * n_adapter,
        "full_byte": _ADAM_BYTE * v["base_params"],
    }


def _b12_words(_v: Values, f: Found) -> str:
    total, full = (quantity_text(float(f[name]), "byte") for name in ("training_byte", "full_byte"))
    return (
        f"Edge-LoRA trains {number_text(float(f['adapter_params']), 0)} parameters, "
        f"{quantity_text(float(f['saved_frac']), 'frac')} fewer a matrix; "
        f"training holds {total} of weights and states, full training {full}; the base model stays."
    )


B12 = Lab(
    "B12",
    "Edge-LoRA: parameters and memory of low-rank adapters",
    (
        Input("in-size", "Input size", 1024, "1", 1, 1e6, (128, 8192), whole=True),
        Input("out-size", "Output size", 1024, "1", 1, 1e6, (128, 8192), whole=True),
        Input("rank", "Rank", 4, "1", 1, 1e6, (1, 128), whole=True),
        Input("scale", "Scale", 32, "1", 0, 1e6, (1, 128)),
        Input("matrices", "Adapted matrices", 96, "1", 1, 1e5, (1, 400), "assumed", whole=True),
        Input("base-params", "Base parameters", 304e6, "1", 1, 1e13, (1e8, 1e10), "assumed"),
        Input("base", "Bits of the base", 8, "bit", 1, 64, (2, 16), "assumed"),
        Input("adapter", "Bits of an adapter", 16, "bit", 1, 64, (4, 32), "assumed"),
    ),
    (
        Output("matrix_params", "Parameters of one adapter"),
        Output("adapter_params", "Parameters of all adapters"),
        Output("saved_frac", "Trainable parameters saved", "frac"),
        Output("scaling", "Scaling, scale / rank"),
        Output("base_byte", "Base model", "byte"),
        Output("adapter_byte", "Adapters stored", "byte"),
        Output("total_byte", "Both", "byte"),
        Output("training_byte", "Training adapters, without activations", "byte"),
        Output("full_byte", "Training everything, without activations", "byte"),
    ),
    _b12,
    _b12_words,
    "rank",
    ("training_byte", "full_byte"),
)
