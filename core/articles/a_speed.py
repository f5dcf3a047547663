"""Article A: latency, pruning and the prune/recompute boundary (A01, A02, A05, A10, A12)."""

from __future__ import annotations

import math

import numpy as np

from core.articles import curve_fit, importance
from core.articles.as_printed import article_a as printed
from core.articles.item import Item, Value
from core.catalogue.load import load_catalogue
from core.physics import latency, pruning, traffic
from core.spec import Absent, KvFormat, ModelShape

FP16 = KvFormat("fp16", "16-bit float", 16.0)


def extra_params(model: ModelShape, qkv_bias: bool) -> float:
    """Return the norm weights and biases of a decoder, which the catalogue leaves out."""
    norms = model.hidden_size * (2 * model.n_layers + 1)
    bias = model.n_layers * model.head_dim * (model.n_heads + 2 * model.n_kv_heads)
    return float(norms + (bias if qkv_bias else 0))


def read_params(model: ModelShape, qkv_bias: bool = False) -> float:
    """Return the parameters that a token reads, norms and biases included."""
    return model.body_params + model.head_params + extra_params(model, qkv_bias)


def all_params(model: ModelShape, qkv_bias: bool = False) -> float:
    """Return all parameters, norms and biases included."""
    return model.total_params + extra_params(model, qkv_bias)


def kv_byte(model: ModelShape) -> float:
    """Return the bytes of one cached token in 16 bit."""
    return traffic.kv_byte_per_token(model, FP16)


def amdahl(phi: float, beta: float) -> float:
    """Return the speed-up when a share phi of the time goes beta times as fast."""
    return 1.0 / ((1.0 - phi) + phi / beta)


def a01() -> Item:
    """Golden formula."""
    models = load_catalogue().models
    qwen, llama3, llama2 = models["qwen2-1.5b"], models["llama-3-8b"], models["llama-2-7b"]
    t = printed.golden_latency_ms
    qwen_byte, llama_byte = read_params(qwen, qkv_bias=True) * 4.5 / 8, read_params(llama3) * 4.5 / 8
    physical: dict[str, Value] = {
        "qwen2_1.5b_params": all_params(qwen, qkv_bias=True),
        "llama3_8b_params": all_params(llama3),
        "llama2_7b_params": all_params(llama2),
    }
    for name, model, n_byte in (("qwen2_1.5b", qwen, qwen_byte), ("llama3_8b", llama3, llama_byte)):
        physical[f"{name}.weight_MB_read_per_token_4.5bpw"] = n_byte / 1e6
        physical[f"{name}.weight_bytes_over_12.8MB"] = n_byte / 12.8e6
        physical[f"{name}.kv_bytes_per_token_fp16"] = kv_byte(model)
    for n in (512, 2048, 32768):
        f_kv = latency_share(qwen_byte, n * kv_byte(qwen))
        physical[f"qwen2_1.5b.f_kv(n={n})"] = f_kv
        physical[f"qwen2_1.5b.T(a=0.6)/T(0)(n={n})"] = 1.0 - 0.6 * f_kv
    for name, alpha in (("0", 0.0), ("0.6", 0.6)):
        seconds = _decode_s(qwen_byte, 2048 * kv_byte(qwen) * (1 - alpha), 51.2e9, eta=0.75)
        physical[f"qwen2_1.5b.TPOT_ms(51.2GB/s,eta.75,n=2048,a={name},t0=0)"] = seconds * 1e3
    for phi, beta in ((0.3, 2.11), (0.3, 1.83), (1.0, 1.42), (0.0, 2.11)):
        physical[f"beta_amdahl(phi={phi},beta={beta})"] = amdahl(phi, beta)
    return Item(
        "A01",
        "Golden formula of decode latency",
        f"{printed.GOLDEN_CHECK} Use latency from bytes over bandwidth.",
        as_written={
            "T_ms(bw=51.2,a=0,b=1)": float(t(51.2, 0, 1)),
            "T_ms(bw=102.4,a=0.5,b=1)": float(t(102.4, 0.5, 1)),
            "T_ms(bw=204.8,a=0.3,b=1.83)": float(t(204.8, 0.3, 1.83)),
            "T_ms(bw=176,a=0.623,b=2.11)": float(t(176, 0.623, 2.11)),
            "beta_as_written_speedup(1.83)": float(t(1, 0, 1) / t(1, 0, 1.83)),
        },
        physical=physical,
        checks={
            "asw_div.T_ms(bw=204.8,a=0.3,b=1.83)": float(t(204.8, 0.3, 1 / 1.83)),
            "unit_of_12.8_is_MB": float(t(1, 0, 1)),
            "ddr_64bit_1600MTs_GBs": 8 * 1600 / 1000,
        },
    )


def latency_share(weight_byte: float, kv_read_byte: float) -> float:
    """Return the share of the KV cache in a memory-bound decode time."""
    return kv_read_byte / (weight_byte + kv_read_byte)


def _decode_s(weight_byte: float, kv_read_byte: float, bandwidth_byte_s: float, eta: float) -> float:
    costs = latency.DecodeCosts(
        weight_byte=weight_byte,
        kv_byte=kv_read_byte,
        n_unpacked=0.0,
        flop=0.0,
        n_layers=0,
        bandwidth_byte_s=bandwidth_byte_s,
        compute_op_s=math.inf,
    )
    return float(latency.decode_parts(costs, latency.LatencyParameters(eta=eta)).total)


def a02() -> Item:
    """Entropy pruning."""
    attention = np.full((1, 2, 11, 11), 1 / 11)
    keys = np.zeros((1, 2, 11, 8))
    shape = list(printed.entropy_prune(attention, keys, 11, 0.0).shape)
    keep = np.zeros(11, bool)
    keep[:5] = True
    rng = np.random.default_rng(0)
    error = pruning.output_error(rng.dirichlet(np.ones(11)), rng.normal(size=(11, 8)), keep)
    wrong = [n for n in range(1, 1001) if printed.entropy_keep_count(n, 0.9) != n // 10]
    asked = ((10, 0.3), (10, 0.9), (2048, 0.623), (1, 0.99), (7, 0.0), (2048, 0.6))
    return Item(
        "A02",
        "Pruning by the entropy of attention",
        "The entropy runs over keys and so scores queries, of which a decode step has one: the selection raises. "
        "Keys are indexed, not gathered, and truncation keeps 0 of 10 at a rate of 0.9. Score keys by received mass.",
        as_written={
            "k(S=10,thr=0.3)": printed.entropy_keep_count(10, 0.3),
            "k(S=10,thr=0.9)": printed.entropy_keep_count(10, 0.9),
            "index_result_shape": shape,
            "decode_step": _error_of_decode_step(),
        },
        physical={
            "keep_exact(S=10,alpha=9/10)": float(pruning.keep_count(10, 0.9)),
            **{f"keep(S={n},alpha={alpha})": float(pruning.keep_count(n, alpha)) for n, alpha in asked},
            "gather_result_shape": list(np.take_along_axis(keys, np.zeros((1, 2, 11, 1), int), axis=2).shape),
            "identity_residual": float(np.max(np.abs(error.error - error.identity))),
        },
        checks={"first_S_where_int_is_wrong(thr=0.9)": wrong[0], "n_wrong_S_upto_1000(thr=0.9)": len(wrong)},
    )


def _error_of_decode_step() -> str:
    try:
        printed.entropy_prune(np.full((1, 2, 1, 11), 1 / 11), np.zeros((1, 2, 11, 8)), 11, 0.3)
    except RuntimeError as error:
        return type(error).__name__
    return "no error"


def a05() -> Item:
    """r_max."""
    rows = {f"row{i + 1}": row for i, row in enumerate(printed.R_MAX_PRINTED)}
    bases = {"ln": math.e, "log2": 2.0, "log10": 10.0}
    written: dict[str, Value] = {
        f"{name}.{base}": float(printed.r_max(alpha, entropy, n, b))
        for name, (alpha, entropy, n, _) in rows.items()
        for base, b in bases.items()
    }
    needed = {name: entropy / (1.0 - r / alpha) for name, (alpha, entropy, _, r) in rows.items()}
    log_n = math.log(2048)
    causal = pruning.causal_column_mass(2048)
    h_causal = pruning.entropy(causal)
    entropy = printed.uniform_position_entropy(32, 2048)
    dense = printed.causal_head_sparsity(2048)
    supports = ((0.0, "0"), (2.0, "2"), (4.5, "4.5"), (log_n, "7.625"))
    safe = ((2.0, 0.1), (2.0, 0.5), (0.5, 0.1), (0.5, 0.25))
    return Item(
        "A05",
        "Largest safe prune rate r_max",
        f"{printed.R_MAX_CHECK} Use the mass budget; the entropy bound where only the entropy is known, which says "
        "nothing once H / eps > ln L.",
        printed={name: r for name, (*_, r) in rows.items()},
        as_written={
            **written,
            "limit_H=0": float(printed.r_max(0.6, 0.0, 2048)),
            "limit_H=lnL": float(printed.r_max(0.6, log_n, 2048)),
        },
        physical={
            "alpha_causal_normalised_dense": 1.0 - (1.0 - dense) * 2 * 2048 / (2048 + 1),
            "sum_p_uniform_causal": float(causal.sum()),
            "H_uniform_causal(L=2048)": h_causal,
            "H_uniform_causal_asymptote": log_n - (1.0 - float(np.euler_gamma)),
            "rmax_uniform_causal(alpha=.6)": float(printed.r_max(0.6, h_causal, 2048)),
            **{f"r_eff=1-exp(H)/L(H={t})": float(pruning.r_max_effective_support(h, 2048)) for h, t in supports},
            **{f"safe_r(H={h},eps={e})": float(pruning.r_max_entropy_bound(h, 2048, e)) for h, e in safe},
        },
        checks={
            **{f"logL_needed_for_{name}": value for name, value in needed.items()},
            "ratio_of_needed_logs": needed["row1"] / needed["row2"],
            "alpha_of_dense_causal(L=2048)": dense,
            "sum_p_as_defined(H=32)": 2048 * (32 / 2048),
            "H_as_defined_uniform(H=32,L=2048)": entropy,
            "rmax_as_defined_uniform(H=32)": float(printed.r_max(0.6, entropy, 2048)),
        },
    )


EXAMPLE_QUERY = (
    0.6613521715704522,
    0.2669240982925188,
    0.061677258237348306,
    0.6213173286854216,
    -0.45190596470388295,
    -0.16613023453557194,
    -1.5227684840130555,
    0.38168390241818895,
)
EXAMPLE_KEY = (
    -1.0276085758313882,
    -0.5630527986537884,
    -0.8922905087810341,
    -0.05825017908369636,
    -0.19550957739962468,
    -0.9656359311683427,
    0.42241532118215536,
    0.26731699794736563,
)
"""Of A10: sixteen standard normal numbers."""


def a10() -> Item:
    """Token importance."""
    index = np.arange(8.0)
    written: dict[str, Value] = {
        f"score(norm=1,dphi=0,i={i})": float(printed.token_score(1.0, 0.0, i)) for i in (0, 64, 128, 2047)
    }
    oldest = np.sort(np.argsort(-np.asarray(printed.token_score(np.ones(8), 0.0, index)), kind="stable")[:3])
    newest = importance.kept_tokens(importance.age_decay(8, 128.0), 3, n_sinks=0, n_recent=0)
    return Item(
        "A10",
        "Importance of cached tokens",
        "The decay runs from index 0, so the oldest tokens score highest; a mean over the batch mixes requests; large "
        "key norms count as important although small norms attract attention. Use the age, and the norm the other way.",
        as_written={
            **written,
            "topk_keeps(S=8,k=3,equal norms)": oldest.tolist(),
            "batch_mix": printed.batched_token_score(np.array([[1.0, 1.0], [1.0, 2.0]])).ravel().tolist(),
            "sigmoid(0.3)": float(printed.sigmoid(0.3)),
        },
        physical={
            "age_decay_topk(S=8,k=3)": newest.tolist(),
            "rope_theta(hd=8)": importance.rotary_frequencies(8).tolist(),
            "rope_dscore_dDelta(seed1,Delta=5)": importance.rotary_score_slope(EXAMPLE_QUERY, EXAMPLE_KEY, 5.0),
            "rope_sensitivity_bound": importance.rotary_sensitivity(EXAMPLE_QUERY, EXAMPLE_KEY),
        },
        checks={"effective_length_tokens": round(64 / 0.5)},
    )


def a12() -> Item:
    """Prune/recompute boundary."""
    qwen = load_catalogue().models["qwen2-1.5b"]
    (r0, p0, t0), (r1, p1, t1), (r2, p2, _) = printed.PRUNE_TABLE
    n_layers, layer_ms, layer_ppl = printed.RECOMPUTE
    slopes = [(p1 - p0) / (r1 - r0), (p2 - p1) / (r2 - r1)]
    n_byte = read_params(qwen, qkv_bias=True) * 4.5 / 8
    needed_gb_s = n_byte / (t0 * 1e-3) / 1e9
    golden_gb_s = float(printed.golden_latency_ms(1.0, r0 / 100, 1.0)) / t0
    f_kv = latency_share(n_byte, 2048 * kv_byte(qwen))
    low, high = (float(pruning.pruned_latency_s(1.0, f_kv, r / 100)) for r in (r0, r2))
    knee = curve_fit.fit_knee([r0, r1, r2], [p0, p1, p2])
    return Item(
        "A12",
        "Boundary between pruning and recomputing",
        "The rise of 0.8 in perplexity lies between 62.3 and 65 %, not at 62.3 %; latency rises where the golden "
        "formula lets it fall; three points cannot show a knee. Recomputing three layers takes longer than pruning a "
        "whole cache of 2048 tokens would save. The table needs 18 GB/s by its weights and 0.106 by "
        "the golden formula.",
        physical={
            "latency_ratio_65_vs_60_no_recompute(n=2048)": high / low,
            "ms_saved_by_pruning_all(n=2048)": t0 / low * f_kv,
            "knee": knee.reason if isinstance(knee, Absent) else knee.x,
        },
        checks={
            "ppl_slope_per_pp": slopes,
            "slope_ratio": slopes[1] / slopes[0],
            "delta_ppl_62.3_to_65": p2 - p1,
            "delta_lnppl": math.log(p2 / p1),
            "delta_ppl_at_62.3_vs_60": p1 - p0,
            "lat_golden_ratio_60_to_62.3": (1 - r1 / 100) / (1 - r0 / 100),
            "lat_expected_by_formula_at_62.3": t0 * (1 - r1 / 100) / (1 - r0 / 100),
            "lat_expected_by_formula_at_65": t0 * (1 - r2 / 100) / (1 - r0 / 100),
            "recompute_3_layers_ms": n_layers * layer_ms,
            "49.1_plus_recompute": t1 + n_layers * layer_ms,
            "trigger_at_62.3": printed.recompute_triggered(r1 / 100),
            "trigger_note": r1 / 100,
            "recompute_ppl_3x0.15": n_layers * layer_ppl,
            "ppl_left_for_info_loss": (p2 - p1) - n_layers * layer_ppl,
            "implied_GBs_weights_only": needed_gb_s,
            "implied_GBs_by_golden(beta=1)": golden_gb_s,
            "ratio": needed_gb_s / golden_gb_s,
        },
    )


ITEMS = {"A01": a01, "A02": a02, "A05": a05, "A10": a10, "A12": a12}
