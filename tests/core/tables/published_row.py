"""A published row, and the operating point that it becomes."""

from core.catalogue.load import load_catalogue
from core.tables.as_points import compare
from core.tables.rows import PublishedRow

CATALOGUE = load_catalogue()
TEXTS = ("board", "power_rail", "power_mode", "model_key", "moe_or_sparse", "kv_quant", "trust", "row_id")


def row(line=2, **changes):
    text = {
        "board_key": "rk3588",
        "compute": "npu",
        "runtime": "rkllm",
        "model": "Qwen2.5 1.5B",
        "quant": "w8a8",
        **dict.fromkeys(TEXTS, ""),
    }
    number = {"decode_tok_s": 16.0}
    for name, value in changes.items():
        (text if isinstance(value, str) else number)[name] = value
    return PublishedRow(line, text, number)


def one(**changes):
    compared = compare([row(**changes)], CATALOGUE)
    assert not compared.left_out, compared.left_out
    return compared.rows[0], compared.catalogue
