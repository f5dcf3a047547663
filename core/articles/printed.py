"""Printed formulas and figures of the two articles by item, each figure with its unit.

`core.articles.item` puts the figures of an item's own function first and adds these.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.articles.as_printed import article_a as a
from core.articles.as_printed import article_b as b
from core.articles.item import Value

PRINTED: Mapping[str, Mapping[str, Value]] = {
    "A01": {"formula": "T [ms] = 12.8 (1 / BW [GB/s]) (1 - alpha) beta", "beta": a.BETA, "R2_at_least": 0.987},
    "A02": {"fragment": "keep the int((1 - threshold) S) positions of highest entropy of attention over keys"},
    "A03": {"row": "latency range [ns], bandwidth range [GB/s]"},
    "A04": {"formula": "BW = h BW_sram + (1 - h) BW_dram", "h": 0.82, "BW_GB_s": [768.0, 176.0]},
    "A05": {
        "formula": "r_max = mean head sparsity (1 - H / log L)",
        "rows(sparsity,H,L,r_max)": [list(row) for row in a.R_MAX_PRINTED],
    },
    "A06": {
        "formula": "T = T_gemm + 1.8 + T_softmax(M N) + T_reshape, T_gemm = max(N K M / (8 BW), N K M / (4 ALU))",
        "shape(N,K,M)": [128, 512, 128],
        "convert_cycles": a.CONVERT_CYCLES,
        "T_total_cycles": a.FUSION["separate"][1],
        "ALU_share": 0.92,
    },
    "A07": {"row": "instructions, cycles", "convert_cycles": a.CONVERT_CYCLES},
    "A08": {
        "formula": "W = sum of softmax((logits - log(-log U)) / tau) widths; T = a line / W + b burst",
        "widths_bit": list(a.AXI_WIDTHS),
        "tau": a.GUMBEL_TEMPERATURE,
        "dT/dline_ns_per_byte": -0.21,
        "dT/dchannel_ns": 1.34,
    },
    "A09": {
        "formula": "quartic polynomial + exponential decay, ridge on the coefficients",
        "ridge": a.FIT_RIDGE,
        "targets": ["RK3588 8 GB", "Jetson Orin 16 GB", "Versal AI Core"],
        "one_fit_ms": [14.2, 8.7, 11.5],
        "memory_MB": [3.1, 4.8, 2.6],
    },
    "A10": {
        "formula": "score = |k| exp(-0.5 i / 64) sigmoid(phase change), mean over the batch",
        "decay_scale": 64,
        "pos_sensitivity": 0.3,
    },
    "A11": {"formula": "bank = (address >> 12) & 7", "banks": {"32 KB block": 0, "16 KB block": 1}},
    "A12": {
        "rows(prune_%,perplexity,latency_ms)": [list(row) for row in a.PRUNE_TABLE],
        "model": "Qwen2-1.5B INT4",
        "recompute(layers,ms,perplexity)": list(a.RECOMPUTE),
        "recomputed_layers": [12, 18, 24],
        "trigger": "prune rate > 0.623",
        "perplexity_rise_at_62.3_%": 0.8,
    },
    "A13": {"row": "time [us], share of the memory bandwidth", "shape(heads,tokens)": [16, 2048], "part": "A100"},
    "A14": {"base_alignment_KiB": 64, "layer_KiB": 256, "address": "base + layer 262144 + offset"},
    "A15": {
        **{name: list(row) for name, row in a.PIPELINE.items()},
        "row": "start, length [cycles]",
        "formats": {"QKV": "FP16", "O": "INT4", "residual": "BF16"},
    },
    "A16": {
        "row": "first in first out, slack propagation [ns]",
        "gamma": [0.1, 0.9],
        "estimate_error": a.SCHEDULE_ERROR,
    },
    "A17": {"sidecar_mean_ms": a.SIDECAR_MEAN_MS, "ebpf_P99_ms": a.EBPF_P99_MS},
    "B01": {
        "limits": {"P99_ms": b.LIMIT_MS, "BLEU": 32, "ROUGE_L": 58},
        "P99_ms": {name: variant.latency_ms for name, variant in b.VARIANTS.items()},
        "resident_ms": b.RESIDENT_MS,
        "memory_MB": b.MEMORY_MB,
    },
    "B02": {
        "formula": "task + l1 |W M|_0 + l2 KL(Q(W) || W) + l3 H(W M, hardware)",
        "structured_block": [16, 16],
        "recommended": {"A100": "16 x 16 blocks, INT4 dense or FP16 sparse", "Ascend 910B": "row-wise 50 %, INT8"},
    },
    "B03": {
        **{f"{name}(steady_C,slope_C/s,period_ms)": list(row) for name, row in b.THERMAL.items()},
        "sampled_every_ms": b.THERMAL_SAMPLE_MS,
    },
    "B04": {
        "rows(clock_MHz,power_W,images/s)": [list(row) for row in b.DVFS],
        "best_images_per_joule_at_MHz": 800,
    },
    "B05": {"row": "power [W], frames/s, average precision", "pruned_share": 0.15},
    "B06": {"power_W": 15, "temperature_limit_C": 85, "battery_Wh": 56},
    "B07": {
        "stages": ["prompt load", "KV build", "first token", "streaming", "buffer write", "protocol", "interrupt"],
        "KV_build_ms": [12, 48],
    },
    "B08": {
        "row": "time to first token [ms], DRAM traffic [GB/s]",
        "layout": "[B, H, D / 128, S, 128]",
        "line_byte": 128,
    },
    "B09": {
        "IRQ_us_at_most": b.IRQ_US,
        "switch_us": b.SWITCH_US,
        "preempt_mean_us": list(b.PREEMPT_MEAN_US),
        "jitter_P99_ms": list(b.JITTER_P99_MS),
    },
    "B10": {
        "formula": "x + a drift - (1 - a) (x - round(x))",
        "a": b.COMPENSATION_GAIN,
        "time_ms": b.COMPENSATION_MS,
    },
    "B11": {
        "order": ["SET", "COMMIT", "VERIFY"],
        **{f"{name}(time_ms,payload_KiB)": list(row) for name, row in b.CALIBRATION.items()},
        "timeout_ms": b.CALIBRATION_TIMEOUT_MS,
        "message_byte": b.CALIBRATION_MESSAGE_BYTE,
    },
    "B12": {
        "memory_MB": b.LORA_MEMORY_MB,
        "rank": b.LORA_RANK,
        "alpha": b.LORA_ALPHA,
        "fewer_parameters": 0.992,
        "accuracy_%": list(b.LORA_ACCURACY),
    },
    "B13": {f"{name}(accuracy,ms,mJ,alpha_s)": list(row) for name, row in b.SCENARIOS.items()},
    "B14": {"synchronised_within_ns": b.SYNC_NS, "position_cm": 10},
    "B15": {"formula": "dscp = (timestamp_ns >> 40) & 63"},
    "B16": {
        "consensus_ms": b.CONSENSUS_MS,
        "end_to_end_ms(mean,sd)": {name: list(row) for name, row in b.END_TO_END_MS.items()},
        "interoperable": {"before": 0.61, "after": 0.983},
        "terminal_kinds": 17,
    },
}
