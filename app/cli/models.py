"""`trilemma models [KEY]`: the models of the catalogue; details of one, or of a GGUF file, with sources."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import quantity_text
from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from core.catalogue.names.models import KnownNames
from core.physics.traffic import kv_byte_per_token
from core.spec import CachingLayers, KvFormat, ModelShape
from core.spec.suggestions import suggestion

_KV = KvFormat("fp16", "16 bit", 16.0)  # of the table

EXAMPLES = """examples:
  trilemma models
  trilemma models llama-3.2-1b
  trilemma models qwen2.5-1.5b --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the one optional key or file."""
    words = "show this model, by key or name, or this GGUF file, with the source of each number"
    parser.add_argument("key", nargs="?", help=words)


def run(args: argparse.Namespace) -> int:
    """Print all models, or one model in detail."""
    models = load_catalogue().models
    chosen = list(models.values()) if args.key is None else [_find(args.key)]
    if args.json:
        print_json([asdict(model) for model in chosen])
    elif args.key is None:
        print_table([("KEY", "LAYERS", "PARAMETERS", "READ PER TOKEN", "KV PER TOKEN", "CONTEXT"), *map(_row, chosen)])
    else:
        _print_one(chosen[0])
    return 0


def _find(key: str) -> ModelShape:
    models = load_catalogue().models
    if key not in models and not key.endswith(".gguf"):
        key = KnownNames(models).key(key) or key
    if key in models:
        return models[key]
    if not key.endswith(".gguf"):
        raise UserError(f"model: got {key!r}, {suggestion('model', key, models)}; or a path that ends in .gguf")
    try:
        return model_from_gguf(Path(key))
    except ValueError as error:
        raise UserError(str(error)) from None


def _row(model: ModelShape) -> tuple[str, ...]:
    return (
        model.key,
        str(model.n_layers),
        f"{model.total_params / 1e9:.3g} B",
        f"{(model.body_params + model.head_params) / 1e9:.3g} B",
        ("≤ " if model.cache_bound else "") + quantity_text(kv_byte_per_token(model, _KV), "byte"),
        quantity_text(model.max_context_tokens, "tokens"),
    )


def _print_one(model: ModelShape) -> None:
    print(f"{model.name} ({model.key})")
    rows = [("QUANTITY", "VALUE", "SOURCE")]
    for name, value in asdict(model).items():
        if name in ("key", "name", "sources") or value in ("", {}):
            continue
        shown = ", ".join(f"{k} {v:.0f}" for k, v in value.items()) if isinstance(value, dict) else f"{value}"
        if name == "cache_groups":
            shown = "; ".join(map(_group_text, model.cache_groups))
        rows.append((name, shown, model.sources.get(name, "computed from the shape" if "params" in name else "")))
    print_table(rows)


def _group_text(group: CachingLayers) -> str:
    heads = f"{group.n_layers} layers x {group.n_kv_heads} heads of {group.key_dim} + {group.value_dim}"
    return heads + (f" in a window of {group.window_tokens:.0f}" if group.window_tokens else "")
