from importlib.resources import files

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.tables.perplexity_rows import PerplexityRow, bands, read_perplexities

TABLE = str(files("resources").joinpath("measurements", "precision_ppl.csv"))
FORMATS = load_catalogue().weight_formats


def test_bands_of_the_shipped_table_hold_what_they_promise():
    rows, left_out = read_perplexities(TABLE, FORMATS)
    found = bands(rows, left_out)
    assert found.n_rows >= 60
    assert found.n_models >= 5
    assert found.coverage_frac >= 0.85
    assert sum(inside for inside, _ in found.by_model.values()) == found.n_rows - len(found.outside)


def made(model, scale, rng, sd=0.2):
    bits = np.arange(2.5, 8.0, 0.5)
    degradation = scale * 27.5 * np.exp(-1.3 * bits + rng.normal(0.0, sd, bits.size))
    return [
        PerplexityRow(hash((model, b)), model, "q", b, False, d, 1e-6) for b, d in zip(bits, degradation, strict=True)
    ]


def test_rows_of_the_curve_are_covered_and_rows_off_it_are_not():
    rng = np.random.default_rng(1)
    rows = [row for i in range(12) for row in made(f"m{i}", np.exp(rng.normal(0.0, 0.4)), rng)]
    assert bands(rows).coverage_frac == pytest.approx(0.90, abs=0.06)
    odd = bands([*rows, *made("odd", 60.0, rng)])
    assert odd.by_model["odd"][0] <= 2


def test_a_model_s_own_rows_do_not_move_its_band():
    rng = np.random.default_rng(2)
    others = [row for i in range(6) for row in made(f"m{i}", 1.0, rng)]
    inside = [bands([*others, *made("new", scale, np.random.default_rng(3))]).by_model["new"][0] for scale in (1, 1e4)]
    assert inside[0] >= 9
    assert inside[1] == 0


def test_what_cannot_be_compared_says_why(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "model,quant,ppl,bits_per_weight,trust\nA,f16,6,16,A\nA,q4_k_m,6.1,,B\nA,zz,7,,B\nB,q8_0,5,8.5,B\nA,q8_0,6.01,,X\n"
    )
    rows, left_out = read_perplexities(table, FORMATS)
    assert [(row.line, row.format) for row in rows] == [(3, "q4_k_m")]
    assert rows[0].degradation == pytest.approx(np.log(6.1 / 6))
    reasons = dict(left_out)
    assert "reference" in reasons[2]
    assert "bits of zz" in reasons[4]
    assert "16-bit" in reasons[5]
    assert "trust X" in reasons[6]
    with pytest.raises(ValueError, match="got 1 models that can be compared, expected at least 3"):
        bands(rows)
    table.write_text("model,quant\nA,f16\n")
    with pytest.raises(ValueError, match="got no column ppl"):
        read_perplexities(table, FORMATS)
