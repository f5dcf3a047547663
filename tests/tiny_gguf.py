"""Random GGUF files of a few layers, written in a moment: what the tests of the decoder and of its commands run."""

from pathlib import Path

import gguf
import numpy as np

TINY = {"n_layers": 2, "hidden": 64, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "inner": 96, "context": 640}


def byte_tokens() -> list[str]:
    """The 256 characters that byte-level BPE writes for the bytes, as in GPT-2."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(b if b in visible else next(shifted)) for b in range(256)]


def write_tiny_gguf(path: Path, *, architecture: str = "llama", seed: int = 0, **extra: float) -> Path:
    """Write a random Llama of two layers with a byte tokenizer."""
    rng = np.random.default_rng(seed)
    t = TINY
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(t["n_layers"])
    writer.add_context_length(t["context"])
    writer.add_embedding_length(t["hidden"])
    writer.add_feed_forward_length(t["inner"])
    writer.add_head_count(t["n_heads"])
    writer.add_head_count_kv(t["n_kv_heads"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, value in extra.items():
        writer.add_float32(f"{architecture}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*byte_tokens(), "th", "the", "<|end|>"])
    writer.add_token_types([1] * 258 + [3])
    writer.add_token_merges(["t h", "th e"])
    writer.add_eos_token_id(258)
    writer.add_bos_token_id(258)
    writer.add_add_bos_token(False)

    def add(name: str, rows: int, columns: int) -> None:
        values = rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)

    add("token_embd", 259, t["hidden"])
    for i in range(t["n_layers"]):
        block, kv = f"blk.{i}", t["n_kv_heads"] * t["head_dim"]
        add(f"{block}.attn_q", t["hidden"], t["hidden"])
        add(f"{block}.attn_k", kv, t["hidden"])
        add(f"{block}.attn_v", kv, t["hidden"])
        add(f"{block}.attn_output", t["hidden"], t["hidden"])
        add(f"{block}.ffn_gate", t["inner"], t["hidden"])
        add(f"{block}.ffn_up", t["inner"], t["hidden"])
        add(f"{block}.ffn_down", t["hidden"], t["inner"])
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}.{norm}.weight", rng.uniform(0.5, 1.5, t["hidden"]).astype(np.float32))
    writer.add_tensor("output_norm.weight", rng.uniform(0.5, 1.5, t["hidden"]).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
