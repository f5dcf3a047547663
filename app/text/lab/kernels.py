"""Rows of the lab on kernels: cycles of a tile (A06), fusion (A07), width of a bus and of a line (A08)."""

from __future__ import annotations

import numpy as np

from app.text.format import quantity_text
from app.text.lab.item import Found, Input, Lab, Output, Values
from core.articles import fusion, relax
from core.articles.as_printed import article_a
from core.spec import Provenance

_SIZES = (16.0, 4096.0)
_TILE = (
    Input("n", "N", 128, "1", 1, 1e6, _SIZES, whole=True),
    Input("k", "K", 512, "1", 1, 1e6, _SIZES, whole=True),
    Input("m", "M", 128, "1", 1, 1e6, _SIZES, whole=True),
    Input("input", "Bits of an input", 4, "bit", 1, 64, (2, 32), whole=True),
    Input("output", "Bits of an output", 16, "bit", 1, 64, (4, 32), "assumed", whole=True),
    Input("moved", "Moved", 64, "byte/cycle", 1e-3, 1e6, (8, 1024), "assumed"),
    Input("macs", "Multiply-adds", 4096, "1/cycle", 1e-3, 1e9, (128, 65536), "assumed"),
    Input("lanes", "Lanes", 128, "1/cycle", 1e-3, 1e9, (16, 4096), "assumed"),
    Input("convert", "Conversion", article_a.CONVERT_CYCLES, "cycle", 0, 1e6, (0, 20)),
)


def _stages(v: Values) -> dict[str, float]:
    """Cycles of the three stages alone, as the tile of A06 and the chain of A07 have them."""
    n_out, rate = v["n"] * v["m"], v["moved_byte_cycle"]
    moved = fusion.gemm_byte(v["n"], v["k"], v["m"], v["input_bit"], v["output_bit"])
    return {
        "gemm": float(fusion.roofline_cycles(moved, n_out * v["k"], rate, v["macs_per_cycle"])),
        "softmax": float(fusion.softmax_cycles(n_out, rate, v["lanes_per_cycle"])),
        "reshape": float(fusion.reshape_cycles(n_out, rate, is_view=False)),
    }


def _a06(v: Values) -> Found:
    stages = _stages(v)
    reshape = stages["reshape"] * v["copied"]
    macs = v["n"] * v["k"] * v["m"]
    moved = float(fusion.gemm_byte(v["n"], v["k"], v["m"], v["input_bit"], v["output_bit"]))
    total = stages["gemm"] + v["convert_cycle"] + stages["softmax"] + reshape
    rate, alu = max(1, round(v["moved_byte_cycle"])), max(1, round(v["macs_per_cycle"]))
    return {
        "gemm_cycle": stages["gemm"],
        "softmax_cycle": stages["softmax"],
        "reshape_cycle": reshape,
        "total_cycle": total,
        "alu_frac": macs / v["macs_per_cycle"] / total,
        "bound": "memory" if moved / v["moved_byte_cycle"] > macs / v["macs_per_cycle"] else "arithmetic",
        "published_cycle": float(article_a.gemm_cycles(int(v["n"]), int(v["k"]), int(v["m"]), rate, alu)),
    }


def _a06_words(v: Values, f: Found) -> str:
    total = quantity_text(float(f["total_cycle"]), "cycle", 4)
    return (
        f"The tile takes {total}; its product is bound by {f['bound']} and "
        f"uses {quantity_text(float(f['alu_frac']), 'frac', 2)} of the multiply-adds in that time."
    )


A06 = Lab(
    "A06",
    "Cycles of GEMM, softmax and reshape",
    (*_TILE, Input("copied", "Reshape copied", 1.0, "1", 0, 1, (0, 1), "assumed")),
    (
        Output("gemm_cycle", "GEMM", "cycle"),
        Output("softmax_cycle", "Softmax", "cycle"),
        Output("reshape_cycle", "Reshape", "cycle"),
        Output("total_cycle", "Total", "cycle"),
        Output("alu_frac", "Share of the multiply-adds used", "frac"),
        Output("bound", "The product is bound by"),
        Output("published_cycle", "GEMM", "cycle", Provenance.AS_PUBLISHED),
    ),
    _a06,
    _a06_words,
    "moved_byte_cycle",
    ("gemm_cycle", "total_cycle", "published_cycle"),
)


def _a07(v: Values) -> Found:
    handed, own = float(fusion.SOFTMAX_BYTE * v["n"] * v["m"]), int(v["stage_registers"])
    cycles = _stages(v)
    for name in ("gemm", "softmax"):
        cycles[name] += v["convert_cycle"]
    stages = [fusion.Stage(name, time, handed, own) for name, time in cycles.items()]
    plans = fusion.fusion_plans(stages, v["moved_byte_cycle"], int(v["registers"]), v["register_byte"])
    by_groups = {plan.groups: plan.cycles for plan in plans}
    apart = by_groups[("gemm",), ("softmax",), ("reshape",)]
    return {
        "apart_cycle": apart,
        "pair_cycle": by_groups[("gemm", "softmax"), ("reshape",)],
        "all_cycle": by_groups[("gemm", "softmax", "reshape"),],
        "best_cycle": plans[0].cycles,
        "best": " | ".join(" + ".join(group) for group in plans[0].groups),
        "speedup": apart / plans[0].cycles,
    }


def _a07_words(_v: Values, f: Found) -> str:
    n = quantity_text(float(f["best_cycle"]), "cycle", 4)
    return f"The fastest plan is {f['best']}: {n}, {float(f['speedup']):.2f} times as fast as three kernels."


A07 = Lab(
    "A07",
    "Fusion of kernels: every plan of a tile",
    (
        *_TILE,
        Input("registers", "Registers", 1280, "1", 0, 1e7, (0, 2048), "assumed", whole=True),
        Input("stage-registers", "Registers of a stage", 640, "1", 0, 1e7, (0, 2048), "assumed", whole=True),
        Input("register", "Register", 64, "byte", 1, 65536, (4, 256), "assumed", whole=True),
    ),
    (
        Output("apart_cycle", "Three kernels", "cycle"),
        Output("pair_cycle", "GEMM and softmax fused", "cycle"),
        Output("all_cycle", "All fused", "cycle"),
        Output("best_cycle", "Best plan", "cycle"),
        Output("best", "Kernels of the best plan"),
        Output("speedup", "Speed-up of the best plan"),
    ),
    _a07,
    _a07_words,
    "registers",
    ("apart_cycle", "pair_cycle", "all_cycle"),
)

LINES_BYTE = (32, 64, 128, 256)
"""Sizes of an L2 line that are chosen from [byte]."""


def _a08(v: Values) -> Found:
    widths = np.array(article_a.AXI_WIDTHS)
    lines = np.array(LINES_BYTE, dtype=float)
    line, width = np.meshgrid(lines, widths, indexing="ij")
    fetched = np.ceil(v["run_byte"] / line)
    costs = v["bursts"], v["per_beat_s"], v["per_burst_s"]
    times = fetched * relax.access_time(8 * line, width, *costs)
    best = int(np.argmin(times))
    found = relax.descend(times.ravel(), v["temperature"], int(v["steps"]))
    one = float(relax.access_time(8 * v["line_byte"], v["width_bit"], *costs))
    mean_width = float(relax.relaxed_mean(widths, np.zeros(widths.size), v["temperature"]))
    return {
        "access_s": one,
        "run_s": float(np.ceil(v["run_byte"] / v["line_byte"])) * one,
        "best_line_byte": float(line.flat[best]),
        "best_width_bit": float(width.flat[best]),
        "best_s": float(times.flat[best]),
        "found_line_byte": float(line.flat[found]),
        "found_width_bit": float(width.flat[found]),
        "found_s": float(times.flat[found]),
        "relaxed_width_bit": mean_width,
        "published_s": article_a.access_ns(
            v["per_beat_s"], v["per_burst_s"], v["line_byte"], v["width_bit"], v["bursts"]
        ),
    }


def _a08_words(v: Values, f: Found) -> str:
    choice = f"a line of {f['best_line_byte']:.0f} B and a bus of {f['best_width_bit']:.0f} bit"
    same = (f["found_line_byte"], f["found_width_bit"]) == (f["best_line_byte"], f["best_width_bit"])
    descent = (
        "Descent over relaxed times finds the same."
        if same
        else f"Descent over relaxed times stops at {f['found_line_byte']:.0f} B and {f['found_width_bit']:.0f} bit, "
        f"{float(f['found_s']) / float(f['best_s']):.2f} times as slow."
    )
    run, best = quantity_text(v["run_byte"], "byte"), quantity_text(float(f["best_s"]), "s")
    return f"A run of {run} is read fastest by {choice}: {best}. {descent}"


A08 = Lab(
    "A08",
    "Choice of L2 line and AXI width by Gumbel-softmax",
    (
        Input("run", "Contiguous run", 256, "byte", 1, 2**30, (32, 4096), "assumed", whole=True),
        Input("line", "L2 line", 64, "byte", 8, 4096, (32, 256), whole=True),
        Input("width", "AXI width", 128, "bit", 8, 4096, (32, 256), whole=True),
        Input("bursts", "Bursts of an access", 8, "1", 0, 1e6, (1, 32), whole=True),
        Input("per-beat", "Time of a beat", 10e-9, "s", 0, 1, (1e-9, 50e-9)),
        Input("per-burst", "Time of a burst", 1e-9, "s", 0, 1, (0, 20e-9)),
        Input("temperature", "Temperature", article_a.GUMBEL_TEMPERATURE, "1", 1e-3, 100, (0.05, 5)),
        Input("steps", "Steps of the descent", 200, "1", 1, 5000, (1, 1000), "assumed", whole=True),
    ),
    (
        Output("access_s", "One access", "s"),
        Output("run_s", "Run with this line and width", "s"),
        Output("best_s", "Run with the best", "s"),
        Output("best_line_byte", "Best line, by enumeration", "byte"),
        Output("best_width_bit", "Best width, by enumeration", "bit"),
        Output("found_line_byte", "Line found by descent", "byte"),
        Output("found_width_bit", "Width found by descent", "bit"),
        Output("found_s", "Run with what descent finds", "s"),
        Output("relaxed_width_bit", "Relaxed width at even logits", "bit", Provenance.AS_PUBLISHED),
        Output("published_s", "One access, bytes over bits", "s", Provenance.AS_PUBLISHED),
    ),
    _a08,
    _a08_words,
    "run_byte",
    ("run_s", "best_s", "found_s"),
)
