"""Article B: triangle, compression, stages, relayout, compensation, adapters (B01, B02, B05, B07, B08, B10, B12)."""

from __future__ import annotations

import math

import numpy as np

from core.articles import banks, compression, limits
from core.articles.a_speed import all_params, kv_byte, read_params
from core.articles.as_printed import article_b as printed
from core.articles.item import Item, Value
from core.catalogue.load import load_catalogue
from core.physics import compensation, pipeline


def b01() -> Item:
    """Death triangle."""
    llama = load_catalogue().models["llama-3-8b"]
    n_params, n_read = all_params(llama), read_params(llama) * 4.5 / 8
    tera_op = 2 * n_params / 1e12
    fp16, int4 = printed.VARIANTS["fp16"], printed.VARIANTS["int4_chunk"]
    stored = n_params * 4.5 / 8
    return Item(
        "B01",
        "Triangle of latency, memory and accuracy",
        "A token of an 8-billion model is 0.0161 tera-operations, not 28; its weights are 3 times the printed memory; "
        "off-loading cannot be faster than resident weights. The wall is bandwidth.",
        printed={"TOPs": printed.TOPS_S_PER_TOKEN},
        physical={
            "ops_per_token_TOP": tera_op,
            "t_compute_ms_at_10TOPS": tera_op / 10 * 1e3,
            "t_weights_ms(4.5bpw,102.4GB/s)": n_read / 102.4e9 * 1e3,
            "fp16_GB": n_params * 2 / 1e9,
            "int4_GB_4.0bpw": n_params / 2 / 1e9,
            "int4_GB_4.5bpw": stored / 1e9,
            "n_max_latency(T=200ms,102.4GB/s*.8)": float(
                limits.max_context_by_latency(0.2, 0.8 * 102.4e9, n_read, kv_byte(llama))
            ),
            "n_max_memory(8GB)": float(limits.max_context_by_memory(8e9, stored, kv_byte(llama))),
            "kv_bytes_per_token": kv_byte(llama),
            "Tmin_ms(n=0)": n_read / (0.8 * 102.4e9) * 1e3,
        },
        checks={
            "over_by": printed.TOPS_S_PER_TOKEN / tera_op,
            "fp16_table_MB_over_real": printed.MEMORY_MB["fp16"] * 1e6 / (n_params * 2),
            "int4_table_MB_over_real": printed.MEMORY_MB["int4"] * 1e6 / (n_params / 2),
            "third_code_variant_not_in_table_ms": printed.RESIDENT_MS,
            "offload_faster_than_resident_ms": printed.RESIDENT_MS - int4.latency_ms,
            "implied_GBs_fp16_312ms": n_params * 2 / fp16.latency_ms / 1e6,
            "implied_GBs_int4_187ms": n_params / 2 / int4.latency_ms / 1e6,
            **{
                f"feasible.{name}(T<=200,R>=58)": printed.feasible(variant)
                for name, variant in printed.VARIANTS.items()
            },
        },
    )


def b02() -> Item:
    """Joint compression loss."""
    p, q = [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]
    backwards = compression.kl_divergence(q, p)
    checks: dict[str, Value] = {}
    for bits in (3, 4, 8):
        step = 2.0 / 2**bits
        x = (np.arange(1_000_000) + 0.5) / 500_000 - 1.0  # evenly over the range
        error = step * np.round(x / step) - x
        ratio = float(np.mean(error**2) / compression.quantisation_mse(step))
        checks[f"mse/step2*12(b={bits})"] = ratio
    return Item(
        "B02",
        "Joint loss of pruning and quantisation",
        "A divergence between weight tensors is not defined, an L0 norm has no gradient, and the hardware term ignores "
        "the bits. Count the mask, use hard concrete gates and the second-order loss of a step squared over 12.",
        as_written={"L0(W*M)": printed.masked_l0([0.7, 0.0, -0.3, 0.2], [1, 1, 1, 0])},
        physical={
            "L0(M)": int(np.count_nonzero([1, 1, 1, 0])),
            "uniform_quant_mse(step)": float(compression.quantisation_mse(1.0)),
            "KL(p||q)": compression.kl_divergence(p, q),
            "KL(q||p)": "inf" if math.isinf(backwards) else backwards,
            "hard_concrete_expected_L0(log_alpha=0,beta=2/3,gamma=-.1,zeta=1.1)": float(
                compression.expected_open_gates(0.0)
            ),
            **{
                f"joint(10_weights,h=2,span=2,b={bits},8GB/s)": compression.joint_loss(
                    1.0, [0.0] * 10, 2.0, 2.0, bits, 8e9, (0.0, 1.0, 0.0)
                )._asdict()
                for bits in (4, 8)
            },
        },
        checks=checks,
    )


def b05() -> Item:
    """J5 activation pruning."""
    (p0, fps0, ap0), (p1, fps1, ap1) = printed.ACTIVATION
    threshold, kept = printed.activation_mask(range(1, 21))
    zeros, kept_relu = printed.activation_mask([0.0] * 40 + list(range(1, 61)))
    return Item(
        "B05",
        "Pruning of activations",
        "Skipping 15 % of the work gives at most 1.18 times the speed, the table says 1.61. After a ReLU with 15 % "
        "zeros the quantile is 0 and nothing is cut.",
        printed={"before": [p0, fps0, ap0], "after": [p1, fps1, ap1]},
        as_written={
            "threshold(1..20,q=.15)": threshold,
            "kept": kept,
            "threshold_relu40pct_zeros": zeros,
            "kept_relu": kept_relu,
        },
        physical={
            "max_speedup_from_15pct_skip": float(compression.skip_speedup_bound(0.15)),
            "bytes_ratio_bitmask_int8(keep=.85)": float(compression.bitmap_byte_ratio(0.85, 8)),
            "bytes_ratio_bitmask_fp16(keep=.85)": float(compression.bitmap_byte_ratio(0.85, 16)),
            "breakeven_keep_int8": compression.bitmap_break_even_keep(8),
        },
        checks={
            "J_per_frame": [p0 / fps0, p1 / fps1],
            "energy_ratio": p0 / fps0 / (p1 / fps1),
            "ms_per_frame": [1e3 / fps0, 1e3 / fps1],
            "fps_gain": fps1 / fps0,
            "dAP": ap1 - ap0,
            "quantile_limit": "RuntimeError above 2^24 elements",
        },
    )


def b07() -> Item:
    """Seven stages."""
    stages = pipeline.RequestStages(5e-3, 20e-3, 30e-3, 8e-3, 0.2e-3, 0.3e-3, 0.05e-3)
    fastest_s = printed.STREAMING_MS[0] * 1e-3
    return Item(
        "B07",
        "Seven stages of a request",
        "Building the cache and the first token are one forward pass and may not be added; 3 ms a token of a 7-billion "
        "model in 4 bit needs 1167 GB/s; a time-stamp counter counts cycles, not nanoseconds.",
        printed={"streaming_ms": list(printed.STREAMING_MS)},
        physical={
            "TTFT(stages 1-3 + delivery 5-7)": float(pipeline.first_token_s(stages)) * 1e3,
            "serial(n=10)": float(pipeline.serial_request_s(stages, 10)) * 1e3,
            "pipelined(n=10)": float(pipeline.pipelined_request_s(stages, 10)) * 1e3,
            "ticks_to_ns(2.4e6 ticks,2.4GHz)": 2.4e6 / 2.4e9 * 1e9,
        },
        checks={
            "double_count": "stages 2 and 3 are one forward pass: measure the sum, split by layer events",
            "GBs_needed_3ms_7B_int4": 7e9 * 4 / 8 / fastest_s / 1e9,
            "rdtsc_units": "cycles of the invariant TSC, not ns: ns = ticks*1e9/f_tsc",
        },
    )


def b08() -> Item:
    """KV relayout."""
    (t0, bw0), (t1, bw1) = printed.RELAYOUT["default"], printed.RELAYOUT["relayout"]
    moved = [t0 * 1e-3 * bw0 * 1e9, t1 * 1e-3 * bw1 * 1e9]
    n_read = read_params(load_catalogue().models["llama-2-7b"])
    plain = np.arange(2 * 3 * 5 * 128).reshape(2, 3, 5, 128)
    relaid = banks.blocked(plain, 64)
    physical: dict[str, Value] = {
        f"elements_per_128B_line({name})": banks.line_elements(bit)
        for name, bit in (("fp32", 32), ("fp16", 16), ("int8", 8), ("int4", 4))
    }
    return Item(
        "B08",
        "Relayout of the KV cache in blocks",
        "For a head dimension of 128 the loop copies the cache onto itself; for 64 and 96 it allocates no block and "
        "reads past each row. The first token in 11.3 ms needs 292 GB/s for 4-bit weights on a part with 67.",
        printed={name: list(row) for name, row in printed.RELAYOUT.items()},
        as_written={
            f"D={d}: integer D/128, blocks copied, elements read past the row": printed.relayout_loop(d)
            for d in (64, 96, 128, 256)
        },
        physical={
            **physical,
            "roundtrip_block64": bool(np.array_equal(banks.unblocked(relaid), plain)),
            "y[0,0,1,0,0](block64)": int(relaid[0, 0, 1, 0, 0]),
            "weights_floor_ms_7B(bpw=4.0,67.2GB/s)": _floor_ms(n_read, 4.0),
            "weights_floor_ms_7B(bpw=4.5,67.2GB/s)": _floor_ms(n_read, 4.5),
            "relayout_floor_bytes(B1,H8,S2048,D128,fp16)": banks.relayout_byte(1, 8, 2048, 128, 16),
        },
        checks={
            "bytes_of_128_floats": 128 * 4,
            "identity_when_D=128": bool(np.array_equal(banks.blocked(plain, 128).ravel(), plain.ravel())),
            "bytes_moved_default": moved[0],
            "bytes_moved_relayout": moved[1],
            "bytes_ratio": moved[0] / moved[1],
            "speedup": t0 / t1,
            "GBs_needed_for_11.3ms": n_read * 4.0 / 8 / (t1 * 1e-3) / 1e9,
        },
    )


def _floor_ms(n_read: float, bits: float) -> float:
    return n_read * bits / 8 / 67.2e9 * 1e3


def b10() -> Item:
    """Dual-loop compensation."""
    first, second, whole = [1.2, 2.2, 3.2], [1.3, 2.1, 3.2], [1.0, 2.0, 4.0]
    gain = printed.COMPENSATION_GAIN
    x = np.random.default_rng(0).uniform(-1, 1, 100_000)
    fed, plain = compensation.error_feedback(x, 0.1), 0.1 * np.round(x / 0.1)
    return Item(
        "B10",
        "Dual-loop compensation of drift",
        "The drift is added, so the loop amplifies it by 1.05 a step instead of damping it by 0.95. Two loops cannot "
        "take half the time of one of them. Subtract the drift, and carry the rounding error to the next value.",
        as_written={
            "integers_noise_is_zero": printed.compensated(whole, 2.0).tolist(),
            "drift_after_20_steps(d0=.2,outer only)": printed.drift_after(0.2, 20),
        },
        physical={
            "drift_after_20_steps(d0=.2,outer only)": float(compensation.drift_after(0.2, gain, 20)),
            "steps_to_halve(alpha=.05)": float(compensation.steps_to_halve(gain)),
            "stable_alpha_range": [0, 2],
            "error_feedback_worst_cum_error/step": float(np.max(np.abs(np.cumsum(fed - x)))) / 0.1,
        },
        checks={
            "asw([1.2,2.2,3.2],mu=2)": printed.compensated(first, 2.0).tolist(),
            "phy([1.2,2.2,3.2],mu=2)": compensation.compensated(first, 2.0, gain).tolist(),
            "asw([1.3,2.1,3.2],mu=2)": printed.compensated(second, 2.0).tolist(),
            "phy([1.3,2.1,3.2],mu=2)": compensation.compensated(second, 2.0, gain).tolist(),
            "banker_rounding": np.round([0.5, 1.5, 2.5]).tolist(),
            "plain_rounding_cum_error/step": float(np.max(np.abs(np.cumsum(plain - x)))) / 0.1,
            "table_latency_single_vs_dual_ms": list(printed.COMPENSATION_MS.values()),
        },
    )


def b12() -> Item:
    """Edge-LoRA."""
    size, rank, n_vision = printed.LORA_SIZE, printed.LORA_RANK, 304e6
    code, full = int(compression.adapter_params(size, size, rank)), size * size
    text = 2 * 128 * 4
    memory = printed.LORA_MEMORY_MB
    trained = 24 * 4 * code
    return Item(
        "B12",
        "Edge-LoRA adapters",
        "The code has 8192 parameters a matrix, the text 1024. 99.2 % fewer parameters are trained, not stored: 248 MB "
        "for a vision model of 304 million parameters needs weights of 4 to 6 bits, which is not said.",
        printed={"memory_MB": memory},
        as_written={
            "params_code": code,
            "params_text_two_128x4": text,
            "full": full,
            "reduction": float(compression.adapter_reduction(size, size, rank)),
            "reduction_text": 1 - text / full,
            "scaling": printed.LORA_ALPHA / rank,
            "delta_at_init": float(np.abs(np.zeros((size, rank)) @ np.ones((rank, size))).max()),
        },
        physical={"adapter_bytes_fp16_per_matrix": float(compression.params_byte(code, 16))},
        checks={
            "vision_fp16_MB": float(compression.params_byte(n_vision, 16)) / 1e6,
            "vision_int8_MB": float(compression.params_byte(n_vision, 8)) / 1e6,
            "vision_int4_MB": float(compression.params_byte(n_vision, 4)) / 1e6,
            "full_ft_adam_fp32_GB_vision": n_vision * compression.ADAM_BYTE_PER_PARAM / 1e9,
            "bytes_per_param_in_1842MB": memory["full"] * 1e6 / n_vision,
            "std_minus_edge_MB": memory["lora"] - memory["edge_lora"],
            "adapter_train_MB(24 layers x4 mats, 16B)": trained * compression.ADAM_BYTE_PER_PARAM / 1e6,
        },
    )


ITEMS = {"B01": b01, "B02": b02, "B05": b05, "B07": b07, "B08": b08, "B10": b10, "B12": b12}
