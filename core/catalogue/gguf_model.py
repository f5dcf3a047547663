"""A model's shape from its GGUF file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from core.catalogue.gguf_header import Header, Tensor, readable
from core.catalogue.gguf_layers import Metadata, caching_layers
from core.catalogue.gguf_split import read_set, set_name
from core.catalogue.models import degradation_prior
from core.spec import ModelShape, cache_fields

_FILE_TYPE = {
    **{0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s"},
    **{12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs"},
    **{20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m"},
    **{28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4"},
    **dict.fromkeys((33, 34, 35), "q4_0"),  # in rows of 4 or 8, of older files
    **{39: "nvfp4", 40: "q1_0", 41: "q2_0"},
}
"""``general.file_type`` of a GGUF file -> key of the weight format."""

_LONGEST_ARCHITECTURE = 64

_OTHER_KINDS = {
    "mmproj": "a projector (mmproj), the image or audio encoder of a model",
    "adapter": "an adapter (LoRA) of a model",
    "imatrix": "an importance matrix",
}
"""``general.type`` of GGUF files that are no language model -> what they are."""

_ENCODER = re.compile(r"(?:v|a|mm|resampler|audio|vision)\.")  # parts of a model that see and hear, in one file with it
_LOOKED_UP = re.compile(r"(?:token_embd|position_embd|token_types|per_layer_token_embd)\.weight")
_EXPERTS = re.compile(r"_(?:ch)?exps\.|\.ffn_(?:gate|up|down)\.\d+\.")
_BLOCK = re.compile(r"blk\.(\d+)\.")


def model_from_gguf(path: Path | str) -> ModelShape:
    """Describe a model by its GGUF file: the shape, and the exact bytes that one decoded token reads.

    A token reads every tensor once except tables of embeddings, of which it reads one row; where the head is tied to
    the embedding, that table is read once, as the head. Of the experts of a layer it reads the active share. Left out
    are layers that predict further tokens, encoders of images and sound, and embeddings per layer, which may stay in
    storage. Of a shard the whole set is read.

    Returns
    -------
    ModelShape
        `weight_byte_by_format` holds the exact bytes under `reference_format`, the format of the file;
        ``sources["weight_byte_by_format"]`` says which tensor types it mixes.

    Raises
    ------
    ValueError
        One sentence for a file that cannot be read, is cut, is no GGUF file, or is no decoder-only transformer.
    """
    path = Path(path)
    header = read_set(path)
    metadata = Metadata.of(path.name, header, _architecture(path.name, header))
    hidden = metadata.whole("embedding_length")
    heads = metadata.whole("attention.head_count", 0, mean=True)
    heads = heads or max(1, hidden // metadata.whole("wkv.head_size", hidden))
    groups, bound = caching_layers(metadata)
    inner = metadata.whole("feed_forward_length", 0, mean=True)
    reads = _read_per_token(metadata)
    reference = _reference_format(header)
    name = header.metadata.get("general.name")
    degradation, of_degradation = degradation_prior(reads.total)
    mix = Counter(tensor.type_name for tensor in header.tensors)
    no_cache = {"n_attention_layers": 0, "n_kv_heads": heads, "head_dim": max(1, hidden // heads)}
    return ModelShape(
        key=set_name(path).lower(),
        name=readable(name, 120) if isinstance(name, str) else set_name(path),
        n_layers=metadata.n_layers,
        hidden_size=hidden,
        n_heads=heads,
        intermediate_size=inner or metadata.whole("expert_feed_forward_length", None if groups else 0, mean=True),
        vocab_size=reads.vocabulary,
        tied_embeddings=reads.tied,
        body_params=float(reads.body),
        head_params=float(reads.head),
        total_params=float(reads.total),
        max_context_tokens=metadata.whole("context_length"),
        degradation_scale=degradation,
        cache_bound=bound,
        weight_byte_by_format={reference: float(reads.byte)},
        reference_format=reference,
        sources={
            "weight_byte_by_format": f"{path.name}: " + ", ".join(f"{n} x {kind}" for kind, n in mix.most_common()),
            **of_degradation,
        },
        **(cache_fields(groups, metadata.n_layers) if groups else no_cache),
    )


def _architecture(name: str, header: Header) -> str:
    arch = header.metadata.get("general.architecture")
    kind = "mmproj" if arch == "clip" else header.metadata.get("general.type")
    if isinstance(kind, str) and kind in _OTHER_KINDS:
        raise ValueError(f"{name}: got {_OTHER_KINDS[kind]}, expected the file of the language model itself")
    if not isinstance(arch, str) or not 1 <= len(arch) <= _LONGEST_ARCHITECTURE or not arch.isprintable():
        raise ValueError(f"{name}: general.architecture: got {readable(repr(arch))}, expected a short text")
    return arch


class _Reads(NamedTuple):
    """Parameters and bytes that one token reads, and parameters that memory holds."""

    body: int
    head: int
    byte: int
    total: int
    tied: bool
    vocabulary: int


def _read_per_token(metadata: Metadata) -> _Reads:
    tensors = {tensor.name: tensor for tensor in metadata.header.tensors}
    embedding = tensors.get("token_embd.weight")
    encodes = metadata.get("attention.causal") is False and metadata.get("pooling_type") is not None
    if encodes or any(name.startswith("enc.blk.") for name in tensors):
        raise ValueError(f"{metadata.name}: got an encoder ({metadata.arch}), expected a decoder-only language model")
    if embedding is None or len(embedding.shape) != 2:
        raise ValueError(f"{metadata.name}: got no token_embd.weight table, expected a decoder-only language model")
    head = tensors.get("output.weight", embedding)
    n_experts = metadata.whole("expert_count", 0)
    n_active = metadata.whole("expert_used_count", n_experts, mean=True)
    body = n_byte = total = 0
    for tensor in tensors.values():
        if not _held(tensor, metadata.n_layers):
            continue
        total += tensor.n_weights
        if tensor is head or _LOOKED_UP.fullmatch(tensor.name):
            continue
        sparse = n_experts > 0 and _EXPERTS.search(tensor.name)
        body += tensor.n_weights * n_active // n_experts if sparse else tensor.n_weights
        n_byte += tensor.size_byte * n_active // n_experts if sparse else tensor.size_byte
    if not body:
        raise ValueError(f"{metadata.name}: got no layers, expected a decoder-only language model")
    return _Reads(body, head.n_weights, n_byte + head.size_byte, total, head is embedding, embedding.shape[1])


def _held(tensor: Tensor, n_layers: int) -> bool:
    """Return whether memory must hold a tensor to decode tokens one by one."""
    block = _BLOCK.match(tensor.name)
    further = ".nextn." in tensor.name or (block is not None and int(block[1]) >= n_layers)
    return not (further or _ENCODER.match(tensor.name) or tensor.name == "per_layer_token_embd.weight")


def _reference_format(header: Header) -> str:
    """The weight format of the file, by its own word or else by the type that holds most bytes."""
    kind = header.metadata.get("general.file_type")
    if isinstance(kind, int) and kind in _FILE_TYPE:
        return _FILE_TYPE[kind]
    size_byte = Counter[str]()
    for tensor in header.tensors:
        size_byte[tensor.type_name] += tensor.size_byte
    largest = size_byte.most_common(1)[0][0].lower()
    return {"f32": "fp32", "f16": "fp16"}.get(largest, largest)
