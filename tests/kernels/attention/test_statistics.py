import json
import math

import numpy as np
import pytest
import torch

from core.physics import pruning as formula
from kernels.attention.statistics import DROPPED_MASS, attention_statistics
from kernels.cache.contiguous import FloatKvCache
from kernels.decoder.transformer import Decoder, Prefilled
from kernels.eviction.token_scores import probabilities


def prompt_of(k, q):
    """One layer with given keys [n_kv_heads, n, d] and last queries [n_heads, w, d]."""
    cache = FloatKvCache(1, len(k), k.shape[1], k.shape[2], "fp32")
    cache.write(0, torch.stack([k, k])[:, None])
    cache.length = k.shape[1]
    return Prefilled(cache, torch.zeros(1), q[None], [torch.ones(600, k.shape[2] // 2, dtype=torch.complex64)])


def test_even_attention():
    n = 64
    found = attention_statistics(prompt_of(torch.zeros(2, n, 16), torch.randn(4, 1, 16)), [0.25, 1.0])
    assert found.entropy_nat[0] == pytest.approx([math.log(n)] * 4)
    assert found.query_entropy_nat[0] == pytest.approx([math.log(n)] * 4)
    assert found.effective_tokens[0] == pytest.approx([n] * 4)
    assert found.sparse_share[0] == [0] * 4
    assert found.sink_mass[0] == pytest.approx([4 / n] * 4)
    assert found.mean_distance_tokens[0] == pytest.approx([(n - 1) / 2] * 4)
    assert np.allclose(found.retained_mass_kv[0], [[0.25, 1.0]] * 2)
    assert found.safe_removed_share_kv[0] == pytest.approx([1 / n] * 2)  # 63 of 64 hold 98.4 %


def test_attention_to_a_single_token():
    k = torch.zeros(1, 100, 16)
    k[0, 2] = 100
    found = attention_statistics(prompt_of(k, torch.ones(2, 3, 16)))
    assert found.entropy_nat[0] == pytest.approx([0, 0], abs=1e-6)
    assert found.effective_tokens[0] == pytest.approx([1, 1])
    assert found.sparse_share[0] == pytest.approx([0.99] * 2)
    assert found.sink_mass[0] == pytest.approx([1, 1])
    assert found.mean_distance_tokens[0] == pytest.approx([98 - 2] * 2)
    assert np.allclose(found.retained_mass_kv[0][0], 1)
    assert found.safe_removed_share_kv[0] == pytest.approx([0.99])


def test_equals_the_formulas_on_random_attention():
    g = torch.Generator().manual_seed(0)
    k, q = torch.randn(2, 200, 16, generator=g), torch.randn(4, 8, 16, generator=g) / 2
    found = attention_statistics(prompt_of(k, q), [0.1, 0.5])
    p = probabilities(q, k).double()
    for head in range(4):
        mass = p[head // 2, head % 2].mean(0)
        assert found.entropy_nat[0][head] == pytest.approx(formula.entropy(mass / mass.sum()))
        assert found.query_entropy_nat[0][head] <= found.entropy_nat[0][head] + 1e-9
    for kv_head in range(2):
        mass = p[kv_head].mean((0, 1)).numpy()
        mass /= mass.sum()
        expected = [formula.retained_mass(mass, n) for n in (20, 100)]
        assert found.retained_mass_kv[0][kv_head] == pytest.approx(expected)
        assert found.safe_removed_share_kv[0][kv_head] == pytest.approx(formula.r_max_mass(mass, DROPPED_MASS))


def test_a_models_prompt_gives_a_record_that_can_be_sent(tiny):
    decoder = Decoder(tiny, "fp32")
    tokens = torch.randint(0, 256, (90,), generator=torch.Generator().manual_seed(0))
    record = attention_statistics(decoder.prefill(tokens, decoder.new_cache(90, "int8"))).as_record()
    assert json.loads(json.dumps(record)) == record
    assert (len(record["entropy_nat"]), len(record["entropy_nat"][0])) == (2, 4)
    assert (len(record["retained_mass_kv"]), len(record["retained_mass_kv"][1])) == (2, 2)
    pooled = record["pooled"]
    assert 0 < pooled["entropy_nat"] < math.log(90)
    assert pooled["retained_mass"] == sorted(pooled["retained_mass"])
    assert 0 <= pooled["safe_removed_share"] < 1
    assert record["provenance"] == "measured"


def test_a_share_out_of_range_raises():
    with pytest.raises(ValueError, match="keep_shares: got"):
        attention_statistics(prompt_of(torch.zeros(1, 8, 16), torch.zeros(1, 1, 16)), [0.0])
