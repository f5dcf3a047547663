import pytest
import torch

from kernels.attention.cached import attend_rows
from kernels.attention.prefill import VARIANTS, attend_prompt, attend_tiles, fastest_variant, merge, softmax_state
from kernels.bench.prefill import cases
from kernels.native.library import status


def made(n_heads, n_kv, dim, n_new, n_keys, seed=0):
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(n_heads, n_new, dim, generator=g) * dim**-0.5
    return q, torch.randn(n_kv, n_keys, dim, generator=g), torch.randn(n_kv, n_keys, dim, generator=g)


def dense(q, k, v):
    """Causal attention in float64 with every key repeated for its query heads."""
    n = q.shape[0] // k.shape[0]
    k, v = k.double().repeat_interleave(n, 0), v.double().repeat_interleave(n, 0)
    future = torch.full((q.shape[1], k.shape[1]), -torch.inf).triu_(k.shape[1] - q.shape[1] + 1)
    return torch.softmax(q.double() @ k.transpose(1, 2) + future, -1) @ v


@pytest.mark.parametrize(("row_tile", "key_tile"), [(1, 1), (7, 5), (16, 64), (64, 16), (500, 500)])
@pytest.mark.parametrize(("n_new", "n_keys"), [(1, 1), (1, 90), (60, 60), (33, 90)])
def test_tiles_equal_the_full_product(row_tile, key_tile, n_new, n_keys):
    q, k, v = made(6, 2, 16, n_new, n_keys)
    assert torch.allclose(attend_tiles(q, k, v, row_tile, key_tile).double(), dense(q, k, v), atol=1e-6)


def test_tiles_in_bf16():
    q, k, v = (x.bfloat16() for x in made(4, 2, 64, 40, 100))
    assert torch.allclose(attend_tiles(q, k, v, 16, 32).double(), dense(q, k, v), atol=2e-2)


def test_merging_states_is_associative_commutative_and_the_whole():
    g = torch.Generator().manual_seed(1)
    scores, v = 5 * torch.randn(2, 7, 90, generator=g), torch.randn(2, 90, 16, generator=g)
    a, b, c = (softmax_state(s, x) for s, x in zip(scores.split(30, -1), v.split(30, 1), strict=True))
    whole = torch.softmax(scores.double(), -1) @ v.double()
    for merged in (merge(merge(a, b), c), merge(a, merge(b, c)), merge(c, merge(b, a))):
        assert torch.allclose(merged.output().double(), whole, atol=1e-5)
    assert torch.equal(merge(a, b).output(), merge(b, a).output())


def test_a_state_over_hidden_keys_adds_nothing():
    scores, v = torch.randn(1, 3, 8), torch.randn(1, 8, 4)
    hidden = softmax_state(torch.full((1, 3, 8), -torch.inf), v)
    seen = softmax_state(scores, v)
    assert not hidden.total.any()
    for merged in (merge(seen, hidden), merge(hidden, seen)):
        assert torch.equal(merged.output(), seen.output())


@pytest.mark.parametrize("variant", VARIANTS)
def test_whatever_is_chosen_attends_alike(variant, monkeypatch):
    monkeypatch.setattr("kernels.attention.prefill.fastest_variant", lambda *_: variant)
    q, k, v = made(6, 3, 32, 100, 170)
    assert torch.allclose(attend_prompt(q, k, v).double(), dense(q, k, v), atol=1e-5)
    mask = torch.zeros(3, 1, 170)
    mask[:, :, 5:50] = -torch.inf
    assert torch.equal(attend_prompt(q, k, v, mask), attend_rows(q, k, v, mask))
    assert torch.equal(attend_prompt(q[:, :5], k, v), attend_rows(q[:, :5], k, v))


def test_the_choice_is_one_of_them(monkeypatch, tmp_path):
    status()  # built before its cache moves
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TRILEMMA_AUTOTUNE", raising=False)
    assert fastest_variant.__wrapped__(2, 1, 16) in VARIANTS


def test_bench_cases_check_themselves():
    found = [case for case in cases(True, "cpu") if case.name == "prefill attention"]
    assert [case.variant for case in found] == list(VARIANTS)
    for case in found:
        case.check()
        case.run()


def test_wrong_arguments_raise():
    q, k, v = made(2, 1, 16, 5, 9)
    with pytest.raises(ValueError, match="row_tile, key_tile: got 0, 4"):
        attend_tiles(q, k, v, 0, 4)
    with pytest.raises(ValueError, match="q: got 5 queries, expected at most the 4 keys"):
        attend_tiles(q, k[:, :4], v[:, :4])
