"""Random GGUF files of a few layers, written in a moment: what the tests of the decoder and of its commands run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from kernels.decoder.architectures import ARCHITECTURES

TINY = {"n_layers": 2, "hidden": 64, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "inner": 96, "context": 640}
WIDE_HEADS = {**TINY, "hidden": 96, "n_heads": 6, "head_dim": 64, "inner": 160}
"""Heads of 64, which the C library serves, three of them on a KV head; sizes that fill no whole group of 64."""


def byte_tokens() -> list[str]:
    """The 256 characters that byte-level BPE writes for the bytes, as in GPT-2."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(b if b in visible else next(shifted)) for b in range(256)]


PRE = {"llama": "smollm", "qwen2": "qwen2", "qwen3": "qwen2"}
WIDE_HEAD = {"gemma": 32, "gemma2": 32, "gemma3": 32, "qwen3": 32}
"""Heads of another width than hidden_size / n_heads."""


def write_tiny_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    seed: int = 0,
    tensors: Mapping[str, NDArray[np.float32]] | None = None,
    quantise: Callable[[NDArray[np.float32]], tuple[NDArray[np.uint8], gguf.GGMLQuantizationType]] | None = None,
    sizes: Mapping[str, int] | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    **extra: float,
) -> Path:
    """Write a random model of two layers with a byte tokenizer.

    Parameters
    ----------
    path : Path
    architecture : str
        "llama", "qwen2" (biased projections), "phi3" (projections in one), "gemma", "gemma2", "gemma3", "qwen3" (heads
        of another width, and each its norms), or any other name for a file that has Llama's tensors.
    seed : int
    tensors : mapping, optional
        Tensors to write besides.
    quantise : callable, optional
        Turns a weight matrix into blocks of a GGUF type.
    sizes : mapping, optional
        In place of `TINY`.
    vocabulary : mapping, optional
        A SentencePiece tokenizer's metadata, in place of bytes.
    extra : float
        Metadata by key, without the architecture's name before it.
    """
    rng = np.random.default_rng(seed)
    t = {**TINY, "head_dim": WIDE_HEAD.get(architecture, TINY["head_dim"]), **(sizes or {})}
    writer = gguf.GGUFWriter(path, architecture)
    _add_metadata(writer, architecture, t)
    for key, value in extra.items():
        writer.add_float32(f"{architecture}.{key}", value)
    if vocabulary is None:
        _add_tokenizer(writer, PRE.get(architecture, "default"))
    else:
        _add_pieces(writer, vocabulary)
    n_tokens = 259 if vocabulary is None else len(vocabulary["tokenizer.ggml.tokens"])
    for name, (rows, columns) in _matrices(architecture, {**t, "vocabulary": n_tokens}).items():
        values = rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)
        blocks, kind = (values, None) if quantise is None else quantise(values)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=kind)
        if architecture == "qwen2" and name[-6:] in ("attn_q", "attn_k", "attn_v"):
            writer.add_tensor(f"{name}.bias", rng.normal(0, 0.3, rows).astype(np.float32))
    of_layer = ARCHITECTURES[architecture].norms if architecture in ARCHITECTURES else ("attn_norm", "ffn_norm")
    norms = ["output_norm", *(f"blk.{i}.{norm}" for i in range(t["n_layers"]) for norm in of_layer)]
    for name in norms:
        width = t["head_dim"] if name.endswith(("q_norm", "k_norm")) else t["hidden"]
        writer.add_tensor(f"{name}.weight", rng.uniform(0.5, 1.5, width).astype(np.float32))
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _matrices(architecture: str, t: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return rows and columns of every weight matrix."""
    q, kv, hidden, inner = t["n_heads"] * t["head_dim"], t["n_kv_heads"] * t["head_dim"], t["hidden"], t["inner"]
    layer = {"attn_q": (q, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, q)}
    layer |= {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}
    found = {"token_embd": (t["vocabulary"], hidden)}
    if architecture == "phi3":
        layer = {"attn_qkv": (q + 2 * kv, hidden), "attn_output": (hidden, q), "ffn_up": (2 * inner, hidden)}
        layer["ffn_down"] = (hidden, inner)
        found["output"] = (t["vocabulary"], hidden)
    return found | {f"blk.{i}.{name}": size for i in range(t["n_layers"]) for name, size in layer.items()}


def _add_metadata(writer: gguf.GGUFWriter, architecture: str, t: Mapping[str, int]) -> None:
    writer.add_block_count(t["n_layers"])
    writer.add_context_length(t["context"])
    writer.add_embedding_length(t["hidden"])
    writer.add_feed_forward_length(t["inner"])
    writer.add_head_count(t["n_heads"])
    writer.add_head_count_kv(t["n_kv_heads"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if t["head_dim"] * t["n_heads"] != t["hidden"]:
        writer.add_key_length(t["head_dim"])
        writer.add_value_length(t["head_dim"])
    if architecture == "phi3":
        writer.add_rope_dimension_count(t["head_dim"])
        writer.add_sliding_window(t["context"])
    if architecture in ("gemma2", "gemma3"):
        writer.add_sliding_window(5)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(0.5)
        writer.add_final_logit_softcapping(2.0)
    if architecture == "gemma3":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(8.0)


def _add_tokenizer(writer: gguf.GGUFWriter, pre: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*byte_tokens(), "th", "the", "<|end|>"])
    writer.add_token_types([1] * 258 + [3])
    writer.add_token_merges(["t h", "th e"])
    writer.add_eos_token_id(258)
    writer.add_bos_token_id(258)
    writer.add_add_bos_token(False)


def _add_pieces(writer: gguf.GGUFWriter, vocabulary: Mapping[str, Any]) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary["tokenizer.ggml.tokens"])
    writer.add_token_scores(vocabulary["tokenizer.ggml.scores"])
    writer.add_token_types(vocabulary["tokenizer.ggml.token_type"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
