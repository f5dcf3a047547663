"""Which layers of a model in a GGUF file keep keys and values, how many, and for how many tokens.

A key has one figure for all layers or an array of one a layer. What a file leaves out, such as the period of windows,
llama.cpp states by architecture; those defaults are here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, TypeGuard

from core.catalogue.gguf_header import Header, Value, readable
from core.spec import CachingLayers

_MOST = 1 << 32

_WINDOW_PERIOD: Mapping[str, int] = {
    **{"gemma2": 2, "gpt-oss": 2, "gptoss": 2, "gemma3n": 5, "gemma3": 6, "gemma-embedding": 6, "plamo3": 8},
    **dict.fromkeys(("afmoe", "cohere2", "cohere2moe", "exaone4", "exaone-moe", "llama4", "olmo2", "olmo3"), 4),
    "smallthinker": 4,
}
"""Architecture of llama.cpp or Ollama -> of how many layers one attends to all of the context, others to a window."""

_WHOLE_FIRST = frozenset({"smallthinker"})  # of each period the first layer attends to all, elsewhere the last
_WINDOW_TOKENS: Mapping[str, int] = {"gemma2": 4096, "llama4": 8192}  # of llama4 a chunk
_ATTENTION_INTERVAL: Mapping[str, int] = {
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe", "qwen4exp"), 4),
    "minimax-01": 8,
}
_OWN_CACHES: Mapping[str, int] = {"gemma3n": 20}  # the first layers; the others use caches of these
_RECURRENT = re.compile(r"blk\.(\d+)\.(?:ssm_|shortconv|time_mix_)")
_KEYS = re.compile(r"blk\.(\d+)\.attn_(?:k|kv_a_mqa|kv_a)\.")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an architecture; `n_layers` are those that each token passes."""

    name: str
    header: Header
    arch: str
    n_layers: int

    @classmethod
    def of(cls, name: str, header: Header, arch: str) -> Metadata:
        """Return the metadata; layers that predict further tokens are left out of the layers."""
        every = cls(name, header, arch, 0)
        n_layers = every.whole("block_count") - every.whole("nextn_predict_layers", 0)
        if n_layers < 1:
            every.refuse("nextn_predict_layers", "no fewer layers than block_count", "fewer")
        return replace(every, n_layers=n_layers)

    def get(self, key: str) -> Value:
        """Return a value, None where there is none."""
        return self.header.metadata.get(f"{self.arch}.{key}")

    def refuse(self, key: str, got: str, expected: str) -> NoReturn:
        """Raise the sentence of a key."""
        raise ValueError(f"{self.name}: {self.arch}.{key}: got {readable(got)}, expected {expected}")

    def whole(self, key: str, default: int | None = None, *, mean: bool = False) -> int:
        """Return one whole number, or of an array its only one; `mean` takes that of the positive items."""
        value = self.get(key)
        if isinstance(value, list):
            counts = [item for item in value if _is_count(item)]
            used = [item for item in counts if item] or [0]
            if len(counts) < len(value) or not (mean or len(set(counts)) == 1):
                self.refuse(key, "figures that differ from layer to layer", f"a whole number from 1 to {_MOST}")
            value = round(sum(used) / len(used))
        if value is None and default is not None:
            return default
        if _is_count(value) and (value or default == 0):
            return value
        self.refuse(key, repr(value), f"a whole number from 1 to {_MOST}")

    def per_layer(self, key: str, default: list[int] | int) -> list[int]:
        """Return a whole number from 0 for each layer."""
        value = self.get(key)
        if value is None:
            return default if isinstance(default, list) else [default] * self.n_layers
        items = value[: self.n_layers] if isinstance(value, list) else [value] * self.n_layers
        counts = [item for item in items if _is_count(item)]
        if len(counts) < self.n_layers:
            got = "an array" if isinstance(value, list) else repr(value)
            self.refuse(key, got, f"a whole number from 0 to {_MOST}, or one for each of {self.n_layers} layers")
        return counts


def _is_count(value: Value) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def caching_layers(metadata: Metadata) -> tuple[list[CachingLayers], str]:
    """Return the layers with a KV cache in groups of equal caches, and why the cache is an upper bound, if it is."""
    hidden = metadata.whole("embedding_length")
    if metadata.get("attention.head_count") is None and not any(_recurrent(metadata)):
        metadata.refuse("attention.head_count", "None", f"a whole number from 1 to {_MOST}")
    heads = metadata.per_layer("attention.head_count", 0)
    kv_heads = metadata.per_layer("attention.head_count_kv", heads)
    for n_heads, n_kv_heads in zip(heads, kv_heads, strict=True):
        if n_kv_heads > max(heads):
            metadata.refuse("attention.head_count_kv", str(n_kv_heads), f"a whole number from 0 to {n_heads}")
    windows, bound = _windows(metadata)
    width = hidden // max(1, *heads)
    key, value = (metadata.per_layer(f"attention.{of}_length", width) for of in ("key", "value"))
    window_key = metadata.per_layer("attention.key_length_swa", key)
    window_value = metadata.per_layer("attention.value_length_swa", value)
    latent = _latent_values(metadata)
    groups = Counter[CachingLayers]()
    for i, caches in enumerate(_caches(metadata)):
        if not (caches and heads[i] and kv_heads[i]):
            continue
        of_key, of_value = (window_key[i], window_value[i]) if windows[i] else (key[i], value[i])
        one = CachingLayers(1, kv_heads[i], of_key, of_value, float(windows[i]))
        groups[replace(one, n_kv_heads=1, key_dim=latent, value_dim=0) if latent else one] += 1
    if any(heads) and not groups and not any(_recurrent(metadata)):
        metadata.refuse("attention.head_count_kv", "0 in all layers", f"a whole number from 1 to {max(heads)} in some")
    bound = _sparse(metadata) or bound
    ordered = sorted(groups.items(), key=lambda item: item[0].window_tokens)
    return [replace(group, n_layers=n) for group, n in ordered], bound if groups else ""


def _latent_values(metadata: Metadata) -> int:
    """Return the values of a token in a latent cache, one vector and the rotary part of a key; 0 without one.

    llama.cpp caches all heads where the file has keys and values in one up-projection, as older files do.
    """
    rank = metadata.whole("attention.kv_lora_rank", 0)
    names = [tensor.name for tensor in metadata.header.tensors]
    both = any(".attn_kv_b." in name for name in names)
    if not rank or (both and metadata.get("attention.key_length_mla") is None):
        return 0
    return rank + metadata.whole("rope.dimension_count", 0) + metadata.whole("attention.indexer.key_length", 0)


def _sparse(metadata: Metadata) -> str:
    """Return why a cache counts more than tokens read or memory holds, where attention chooses or compresses tokens."""
    if metadata.get("attention.compress_ratios") is not None:
        return "its layers compress keys and values of older tokens"
    if metadata.get("attention.indexer.top_k") is not None:
        return "its attention reads those tokens alone that an indexer chooses"
    return ""


def _caches(metadata: Metadata) -> list[bool]:
    """Return for each layer whether it computes keys and values that later tokens read."""
    n, arch = metadata.n_layers, metadata.arch
    shared = metadata.whole("attention.shared_kv_layers", max(0, n - _OWN_CACHES.get(arch, n)))
    if shared >= n:
        metadata.refuse("attention.shared_kv_layers", str(shared), f"fewer than the {n} layers")
    recurrent = metadata.get("attention.recurrent_layers")
    of_images = metadata.get("attention.cross_attention_layers")  # they cache an image, whatever the context
    interval = metadata.whole("full_attention_interval", _ATTENTION_INTERVAL.get(arch, 0))
    if isinstance(recurrent, list) and len(recurrent) >= n:
        attends = [not item for item in recurrent[:n]]
    elif interval:
        attends = [(i + 1) % interval == 0 for i in range(n)]
    else:
        attends = [not one for one in _recurrent(metadata)]
    others = of_images if isinstance(of_images, list) else []
    return [attends[i] and i < n - shared and i not in others for i in range(n)]


def _recurrent(metadata: Metadata) -> list[bool]:
    """Return for each layer whether it has tensors of a recurrent layer, and none that makes keys."""
    names = [tensor.name for tensor in metadata.header.tensors]
    found = {int(match[1]) for name in names if (match := _RECURRENT.match(name))}
    found -= {int(match[1]) for name in names if (match := _KEYS.match(name))}
    return [i in found for i in range(metadata.n_layers)]


def _windows(metadata: Metadata) -> tuple[list[int], str]:
    """Return the window of each layer, 0 for none, and why windows are not known, if they are not."""
    n, arch = metadata.n_layers, metadata.arch
    chunk = metadata.whole("attention.chunk_size", _WINDOW_TOKENS.get(arch, 0))
    windows = metadata.per_layer("attention.sliding_window", chunk)
    pattern = metadata.get("attention.sliding_window_pattern")
    slides = _slides(_WINDOW_PERIOD.get(arch) if pattern is None else pattern, n, first=arch in _WHOLE_FIRST)
    if slides is None and isinstance(metadata.get("attention.sliding_window"), list):
        slides = [True] * n
    if slides is not None:
        return [window if one else 0 for window, one in zip(windows, slides, strict=True)], ""
    largest = max(windows)
    if not 0 < largest < metadata.whole("context_length"):
        return [0] * n, ""
    return [0] * n, f"its file states a window of {largest} tokens, but not of which layers"


def _slides(pattern: Value, n_layers: int, *, first: bool) -> list[bool] | None:
    """Return which layers have a window: by an array of one item a layer, repeated, or by the period of those without.

    Period 0: every layer has one.
    """
    if isinstance(pattern, list) and pattern and all(isinstance(item, int) for item in pattern):
        return [bool(pattern[i % len(pattern)]) for i in range(n_layers)]
    if isinstance(pattern, bool) or not isinstance(pattern, int) or pattern < 0:
        return [pattern] * n_layers if isinstance(pattern, bool) else None
    whole = 0 if first else pattern - 1
    return [pattern == 0 or i % pattern != whole for i in range(n_layers)]
