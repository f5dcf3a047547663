"""The catalogue from the resource files, and a model's shape from the header of a GGUF file.

Resource files are checked strictly: an unknown key, a missing key, a wrong type, a value out of range and a number
without a source are each refused as ``file: key: got X, expected Y``.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.catalogue import calibration_file
from core.catalogue.gguf_header import Header, read_header, readable
from core.catalogue.models import degradation_prior, read_model
from core.catalogue.refusal import refusal
from core.catalogue.runtimes import check_formats, read_runtime
from core.catalogue.schemas import BoardTable, FormatsTable, HeldOutTable
from core.catalogue.text_files import one_line_end, text_of
from core.catalogue.toml_files import converted, parse, resource, resource_folder, sources_of
from core.catalogue.typical_rates import with_rate_uncertainty
from core.spec import (
    Board,
    Catalogue,
    KvFormat,
    ModelShape,
    PowerMode,
    WeightFormat,
)
from core.spec.interval_scale import HeldOut


@functools.cache
def load_catalogue() -> Catalogue:
    """Read every board, model, runtime and format of the resource files; the same object every time.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong in a file.
    """
    formats = converted("formats.toml", resource("formats.toml"), FormatsTable)
    weights = {key: WeightFormat(key=key, **one.values()) for key, one in formats.weights.items()}
    kv = {key: KvFormat(key=key, **one.values()) for key, one in formats.kv.items()}
    boards = {key: _board(key, where, table) for key, where, table in resource_folder("boards")}
    boards = {"this": boards.pop("this"), **{key: replace(_guessed(one), listed=True) for key, one in boards.items()}}
    models = {key: read_model(key, where, table) for key, where, table in resource_folder("models")}
    runtimes = {key: read_runtime(key, where, table) for key, where, table in resource_folder("runtimes")}
    for one in runtimes.values():
        check_formats(one, weights, kv)
    for model in models.values():
        for key in {*model.weight_byte_by_format, *filter(None, [model.reference_format])} - weights.keys():
            raise ValueError(f"models/{model.key}.toml: weight format: got {key!r}, expected one of formats.toml")
    published = {(one.board, one.runtime, one.power_mode): one for one in calibration_file.shipped()}
    for board, runtime, mode in published:
        if board not in boards or runtime not in runtimes or mode not in boards[board].power_modes:
            raise ValueError(f"calibrations: got {board}, {runtime}, {mode}, expected keys of the catalogue")
    return Catalogue(boards, models, runtimes, weights, kv, published, _held_out())


def _held_out() -> HeldOut:
    """Read how far published boards were from predictions made without their rows."""
    name = "held_out.toml"
    table = converted(name, resource(name), HeldOutTable)
    scores = {"decode_s": table.decode_s, "ttft_s": table.ttft_s}
    for quantity, by_bucket in scores.items():
        for of, quantiles in by_bucket.items():
            if list(quantiles) != sorted(quantiles):
                raise refusal(f"{name}: {quantity}: {of}", quantiles, "ascending quantiles")
    return HeldOut(scores)


def _board(key: str, where: str, table: Mapping[str, Any]) -> Board:
    made = converted(where, table, BoardTable)
    modes, sources = dict[str, PowerMode](), dict[str, str]()
    for name, mode in made.power_modes.items():
        modes[name] = PowerMode(key=name, **mode.values())
        of_mode = sources_of(f"{where}: power_modes: {name}", table["power_modes"][name], mode)
        sources |= {f"{name}.{number}": source for number, source in of_mode.items()}
    sources |= sources_of(where, table, made)
    return Board(key=key, sources=sources, **{**made.values(), "power_modes": modes})


def read_board(path: Path) -> Board:
    """Read the user's board, a TOML file as those of the resources; its key is the name of the file.

    Raises
    ------
    OSError, ValueError
        It cannot be read, or ``file: key: got X, expected Y`` for the first thing that is wrong in it.
    """
    content = path.read_bytes()
    try:
        text = one_line_end(text_of(content))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return _guessed(_board(path.stem, path.name, parse(path.name, text)))


def _guessed(board: Board) -> Board:
    """Return a board, of which some rates may not be stated; that of any machine states usual ones."""
    return replace(
        board, power_modes={key: with_rate_uncertainty(mode, board.unit) for key, mode in board.power_modes.items()}
    )


# --- a model from its file --------------------------------------------------------------------------------------------

_FILE_TYPE = {
    **{0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s"},
    **{12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs"},
    **{20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m"},
    **{28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4"},
    39: "nvfp4",
}
"""``general.file_type`` of a GGUF file -> key of the weight format."""

_LONGEST_ARCHITECTURE = 64

_WHOLE_EVERY = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Architecture -> of how many layers one attends to all of the context, the others to a window of it."""


def model_from_gguf(path: Path | str) -> ModelShape:
    """Describe a model by its GGUF file: the shape, and the exact bytes that one decoded token reads.

    A token reads every tensor once except the input embedding, of which it reads one row; where the head is tied to the
    embedding, that table is read once, as the head. Of the experts of a layer it reads the active share.

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
    header = read_header(path)
    arch = header.metadata.get("general.architecture")
    if not isinstance(arch, str) or not 1 <= len(arch) <= _LONGEST_ARCHITECTURE or not arch.isprintable():
        raise ValueError(f"{path.name}: general.architecture: got {readable(repr(arch))}, expected a short text")
    get = functools.partial(_whole, path.name, header)
    n_heads = get(f"{arch}.attention.head_count")
    hidden = get(f"{arch}.embedding_length")
    reads = _read_per_token(path.name, header, arch)
    n_layers = get(f"{arch}.block_count")
    n_kv_heads, n_caching = _kv_heads(path.name, header, arch, n_heads, n_layers)
    window_tokens = get(f"{arch}.attention.sliding_window", 0) if arch in _WHOLE_EVERY else 0
    reference = _reference_format(header)
    name = header.metadata.get("general.name")
    total = float(sum(tensor.n_weights for tensor in header.tensors))
    degradation, of_degradation = degradation_prior(total)
    mix = Counter(tensor.type_name for tensor in header.tensors)
    return ModelShape(
        key=path.stem.lower(),
        name=readable(name, 120) if isinstance(name, str) else path.stem,
        n_layers=n_layers,
        hidden_size=hidden,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=get(f"{arch}.attention.key_length", max(1, hidden // n_heads)),
        intermediate_size=get(f"{arch}.feed_forward_length", 0) or get(f"{arch}.expert_feed_forward_length"),
        vocab_size=reads["vocab_size"],
        tied_embeddings=bool(reads["tied"]),
        body_params=float(reads["body"]),
        head_params=float(reads["head"]),
        total_params=total,
        max_context_tokens=get(f"{arch}.context_length"),
        degradation_scale=degradation,
        n_attention_layers=n_caching,
        n_window_layers=n_layers - n_layers // _WHOLE_EVERY[arch] if window_tokens else 0,
        window_tokens=float(window_tokens),
        weight_byte_by_format={reference: float(reads["byte"])},
        reference_format=reference,
        sources={
            "weight_byte_by_format": f"{path.name}: " + ", ".join(f"{n} x {kind}" for kind, n in mix.most_common()),
            **of_degradation,
        },
    )


def _kv_heads(name: str, header: Header, arch: str, n_heads: int, n_layers: int) -> tuple[int, int | None]:
    """Return the KV heads of a layer, and how many layers have a cache where not all do: the others have 0 heads."""
    key = f"{arch}.attention.head_count_kv"
    of_layers = header.metadata.get(key)
    caching = [n for n in of_layers if isinstance(n, int) and 1 <= n <= n_heads] if isinstance(of_layers, list) else []
    others = of_layers.count(0) if isinstance(of_layers, list) else 0
    if not (caching and others and len(caching) + others == n_layers and len(set(caching)) == 1):
        return _whole(name, header, key, n_heads), None
    return caching[0], len(caching)


def _whole(name: str, header: Header, key: str, default: int | None = None) -> int:
    value = header.metadata.get(key, default)
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        value = value[0]  # one figure for each layer, all equal
    if isinstance(value, bool) or not isinstance(value, int) or not (1 <= value <= 1 << 32 or value == default):
        got = "figures that differ from layer to layer" if isinstance(value, list) else readable(repr(value))
        raise ValueError(f"{name}: {key}: got {got}, expected a whole number from 1 to {1 << 32}")
    return value


def _read_per_token(name: str, header: Header, arch: str) -> dict[str, int]:
    tensors = {tensor.name: tensor for tensor in header.tensors}
    if "token_embd.weight" not in tensors or len(tensors["token_embd.weight"].shape) != 2:
        raise ValueError(f"{name}: got no token_embd.weight table, expected a decoder-only language model")
    embedding = tensors["token_embd.weight"]
    head = tensors.get("output.weight", embedding)
    n_experts = _whole(name, header, f"{arch}.expert_count", 0)
    n_active = _whole(name, header, f"{arch}.expert_used_count", n_experts)
    body = n_byte = 0
    for tensor in header.tensors:
        if tensor is embedding or tensor is head:
            continue
        sparse = n_experts > 0 and "_exps." in tensor.name
        body += tensor.n_weights * n_active // n_experts if sparse else tensor.n_weights
        n_byte += tensor.size_byte * n_active // n_experts if sparse else tensor.size_byte
    if not body:
        raise ValueError(f"{name}: got no layers, expected a decoder-only language model")
    return {
        "body": body,
        "head": head.n_weights,
        "byte": n_byte + head.size_byte,
        "tied": int(head is embedding),
        "vocab_size": embedding.shape[1],
    }


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
