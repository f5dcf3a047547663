import pytest
import torch

from kernels.cache.contiguous import FloatKvCache
from kernels.cache.paged import PagedKvCache
from kernels.decoder.transformer import Decoder, Prefilled
from kernels.eviction.policies import PAGE_TOKENS, POLICIES, n_kept
from kernels.eviction.prune import LAYOUTS, prune

N = 200


@pytest.fixture(scope="module")
def decoder(tiny):
    return Decoder(tiny, "fp32")


@pytest.fixture(scope="module")
def prompt(decoder):
    tokens = torch.randint(0, 256, (N,), generator=torch.Generator().manual_seed(0))
    return decoder.prefill(tokens, decoder.new_cache(N, "fp32"))


def new(decoder, kv_format="fp32"):
    return lambda capacity: decoder.new_cache(capacity, kv_format)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_alpha_zero_keeps_everything(decoder, prompt, policy, layout):
    cache = prune(prompt, 0.0, policy, layout, new(decoder), room=1)
    full = prune(prompt, 0.0, "sinks_recent", "compacted", new(decoder), room=1)
    assert cache.length == N
    assert torch.equal(decoder.decode(7, N, cache), decoder.decode(7, N, full))


@pytest.mark.parametrize("policy", POLICIES)
def test_compacted_equals_masked(decoder, prompt, policy):
    compacted = prune(prompt, 0.6, policy, "compacted", new(decoder), room=2)
    masked = prune(prompt, 0.6, policy, "masked", new(decoder), room=2)
    assert compacted.length == n_kept(N, 0.6)
    assert masked.length == N
    for token in (7, 8):
        position = N + token - 7
        assert torch.allclose(
            decoder.decode(token, position, compacted), decoder.decode(token, position, masked), atol=1e-4
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_kept_tokens_are_tokens_of_the_prompt_and_end_with_its_last(decoder, prompt, policy):
    cache = prune(prompt, 0.7, policy, "compacted", new(decoder))
    for layer in range(cache.n_layers):
        kept, _ = cache.dequantised(layer, cache.length)
        full, _ = prompt.cache.dequantised(layer, N)
        assert (kept[:, :, None] == full[:, None]).all(-1).any(-1).all()
        assert torch.equal(kept[:, -1], full[:, -1])
        assert torch.equal(kept[:, :4], full[:, :4])


def test_paged_reads_less_than_the_full_cache_and_equals_attending_to_its_tokens(decoder, prompt):
    cache = prune(prompt, 0.6, "key_norm", "paged", new(decoder), room=1)
    assert n_kept(N, 0.6) <= cache.length < N
    assert torch.isfinite(decoder.decode(7, N, cache)).all()


@pytest.fixture(scope="module")
def paged_prompt():
    """A prompt in the cache of the C library, which the tiny model's heads are too small for."""
    g = torch.Generator().manual_seed(1)
    cache = PagedKvCache(2, 2, N, 64, "fp32")
    for layer in range(2):
        cache.write(layer, torch.randn(2, 1, 2, N, 64, generator=g))
    cache.length = N
    angle = torch.arange(700.0)[:, None] * 10000.0 ** -(torch.arange(32) / 32)
    queries = torch.randn(2, 6, 32, 64, generator=g) / 8
    return Prefilled(cache, torch.zeros(10), queries, 2 * [torch.polar(torch.ones_like(angle), angle)])


@pytest.mark.parametrize("policy", POLICIES)
@torch.inference_mode()
def test_paged_in_place_reads_the_pages_that_a_copy_would_hold(paged_prompt, policy):
    in_place = prune(paged_prompt, 0.6, policy, "paged", lambda n: PagedKvCache(2, 2, n, 64, "fp32"), room=3)
    copied = prune(paged_prompt, 0.6, policy, "paged", lambda n: FloatKvCache(2, 2, n, 64, "fp32"), room=3)
    assert in_place.length == N
    assert n_kept(N, 0.6) <= in_place.tokens_read(N) == copied.length < n_kept(N, 0.6) + 2 * PAGE_TOKENS
    new = torch.randn(2, 1, 2, 3, 64, generator=torch.Generator().manual_seed(3))
    q = torch.randn(1, 2, 3, 64, generator=torch.Generator().manual_seed(2)) / 8
    for layer in range(2):
        in_place.write(layer, new)
        copied.write(layer, new)
        a = in_place.attend(layer, q, N + 3).view(2, 3, 64)
        b = copied.attend(layer, q, copied.length + 3).view(2, 3, 64)
        assert torch.allclose(a, b, atol=1e-5)
        for x, y in zip(in_place.dequantised(layer, N), copied.dequantised(layer, copied.length), strict=True):
            assert torch.equal(x, y)


def test_pruning_more_moves_the_output_further(decoder, prompt):
    full = decoder.decode(7, N, prune(prompt, 0.0, "attention_mass", "compacted", new(decoder), room=1))
    errors = []
    for alpha in (0.1, 0.5, 0.95):
        cache = prune(prompt, alpha, "attention_mass", "compacted", new(decoder), room=1)
        errors.append(float((decoder.decode(7, N, cache) - full).norm()))
    assert errors == sorted(errors)


def test_the_prompt_is_not_changed_and_the_format_may_change(decoder, prompt):
    before = prompt.cache.dequantised(0, N)[0].clone()
    cache = prune(prompt, 0.5, "sinks_recent", "compacted", new(decoder, "int8"))
    assert cache.kv_format == "int8"
    assert torch.equal(prompt.cache.dequantised(0, N)[0], before)
    assert prompt.cache.length == N


def test_unknown_policy_raises(decoder, prompt):
    with pytest.raises(ValueError, match="policy: got 'random'"):
        prune(prompt, 0.5, "random", "compacted", new(decoder))
