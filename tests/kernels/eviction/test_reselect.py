import pytest
import torch

from kernels.cache.contiguous import FloatKvCache
from kernels.cache.paged import PagedKvCache
from kernels.decoder.transformer import Decoder, Prefilled
from kernels.eviction.policies import POLICIES, n_kept
from kernels.eviction.prune import prune
from kernels.eviction.reselect import ReselectingCache, Reselection, reselection_cost

N = 200


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def decoder(tiny):
    return Decoder(tiny, "fp32")


@pytest.fixture(scope="module")
def prompt(decoder):
    tokens = torch.randint(0, 256, (N,), generator=torch.Generator().manual_seed(0))
    return decoder.prefill(tokens, decoder.new_cache(N, "fp32"))


def decode(decoder, cache, n, start=N):
    return [decoder.decode(token % 256, start + token, cache) for token in range(n)]


@pytest.mark.parametrize("layout", ["compacted", "paged"])
@pytest.mark.parametrize("policy", POLICIES)
def test_until_the_first_choice_it_equals_pruning_once(decoder, prompt, policy, layout):
    def new(n):
        return decoder.new_cache(n, "fp32")

    once = prune(prompt, 0.6, policy, layout, new, room=6)
    again = ReselectingCache(prompt, 0.6, policy, layout, new, every=8, room=20)
    assert again.tokens_read(N) == once.tokens_read(once.length)
    for a, b in zip(decode(decoder, once, 5), decode(decoder, again, 5), strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    assert len(again.reselection.durations_s) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_chooses_every_so_many_tokens_and_keeps_its_share(decoder, prompt, policy):
    cache = ReselectingCache(prompt, 0.6, policy, "compacted", lambda n: decoder.new_cache(n, "fp32"), every=4, room=20)
    logits = decode(decoder, cache, 13)
    assert torch.isfinite(torch.stack(logits)).all()
    assert cache.length == N + 13
    assert len(cache.reselection.durations_s) == 1 + 3
    assert cache.tokens_read(cache.length) == n_kept(N + 12, 0.6) + 1
    assert cache.reselection.per_token_s > 0


def test_nothing_removed_equals_the_full_cache(decoder, prompt):
    full = prune(prompt, 0.0, "sinks_recent", "compacted", lambda n: decoder.new_cache(n, "fp32"), room=10)
    cache = ReselectingCache(prompt, 0.0, "snapkv", "compacted", lambda n: decoder.new_cache(n, "fp32"), 3, room=10)
    for a, b in zip(decode(decoder, full, 9), decode(decoder, cache, 9), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_a_token_that_was_left_out_comes_back(decoder, prompt):
    """The queries turn to one key; at the next choice its token is read, though it was not at first."""
    g = torch.Generator().manual_seed(3)
    full = FloatKvCache(1, 1, 100, 16, "fp32")
    kv = torch.randn(2, 1, 1, 100, 16, generator=g)
    full.write(0, kv)
    full.length = 100
    queries = torch.randn(1, 2, 4, 16, generator=g) * 0.01
    flat = Prefilled(full, torch.zeros(1), queries, prompt.rotations)
    cache = ReselectingCache(
        flat, 0.8, "attention_mass", "compacted", lambda n: FloatKvCache(1, 1, n, 16, "fp32"), every=4, room=9
    )
    kept = cache.dequantised(0, 100)[0][0]
    missing = next(i for i in range(10, 80) if not (kept == kv[0, 0, 0, i]).all(-1).any())
    wanted = kv[0, 0, 0, missing]
    for _ in range(4):
        cache.write(0, torch.randn(2, 1, 1, 1, 16, generator=g))
        cache.attend(0, (5 * wanted).expand(1, 1, 2, 16), cache.length + 1)
        cache.length += 1
    assert (cache.dequantised(0, 104)[0][0] == wanted).all(-1).any()


def in_place(policy, every):
    """640 tokens in pages of the C library."""
    g = torch.Generator().manual_seed(1)
    source = FloatKvCache(1, 2, 640, 64, "fp32")
    source.write(0, torch.randn(2, 1, 2, 640, 64, generator=g))
    source.length = 640
    angle = torch.arange(900.0)[:, None] * 10000.0 ** -(torch.arange(32) / 32)
    prompt = Prefilled(
        source, torch.zeros(1), torch.randn(1, 4, 8, 64, generator=g) / 8, [torch.polar(torch.ones_like(angle), angle)]
    )
    return ReselectingCache(prompt, 0.7, policy, "paged", lambda n: PagedKvCache(1, 2, n, 64, "fp32"), every, room=200)


@pytest.mark.parametrize("policy", POLICIES)
def test_choosing_again_from_the_same_is_the_same_choice(policy):
    """Scores are of all tokens, not of those that were chosen before."""
    cache = in_place(policy, 1)
    first = cache.dequantised(0, 640)[0].clone()
    cache.choose()
    assert torch.equal(cache.dequantised(0, 640)[0], first)


def test_in_place_pages_move_nothing():
    g = torch.Generator().manual_seed(2)
    cache = in_place("page_bounds", 1)
    k_read, v_read = cache.dequantised(0, 640)
    assert k_read.shape[1] == cache.tokens_read(640) < 300
    for step in range(130):  # two pages further
        cache.write(0, torch.randn(2, 1, 2, 1, 64, generator=g))
        q = torch.randn(1, 2, 2, 64, generator=g)
        out = cache.attend(0, q, 641 + step)
        k_read, v_read = cache.dequantised(0, 641 + step)
        expected = torch.softmax(q[0].double() @ k_read.double().transpose(1, 2), -1) @ v_read.double()
        assert torch.allclose(out.view(2, 2, 64).double(), expected, atol=1e-5)
        cache.length += 1
    assert len(cache.reselection.durations_s) == 131
    assert cache.tokens_read(770) < 770 * 0.3 + 128 + 1


def test_writing_the_last_token_again_and_again_changes_nothing(decoder, prompt):
    """As the measured run does, so that every step reads a context of the same length."""
    cache = ReselectingCache(prompt, 0.5, "key_norm", "compacted", lambda n: decoder.new_cache(n, "fp32"), 4, room=4)
    for _ in range(9):
        cache.length = N - 1
        logits = decoder.decode(7, N - 1, cache)
        assert cache.length == N
    assert torch.isfinite(logits).all()
    assert len(cache.reselection.durations_s) == 1 + 2
    assert cache.tokens_read(N) <= n_kept(N, 0.5) + 3


def test_a_choice_is_timed_as_often_as_asked(decoder, prompt):
    found = reselection_cost(prompt, 0.5, "snapkv", "compacted", lambda n: decoder.new_cache(n, "fp32"), 64, repeats=3)
    assert len(found.durations_s) == 3
    assert 0 < found.per_token_s < found.durations_s[0]


def test_cost_is_spread_over_the_tokens_it_serves():
    assert Reselection(10).per_token_s == 0
    assert Reselection(10, [1.0, 3.0, 2.0]).per_token_s == pytest.approx(0.2)


def test_wrong_arguments_raise(decoder, prompt):
    def new(n):
        return decoder.new_cache(n, "fp32")

    with pytest.raises(ValueError, match="layout: got 'masked'"):
        ReselectingCache(prompt, 0.5, "snapkv", "masked", new, 4, 4)
    with pytest.raises(ValueError, match="every: got 0"):
        ReselectingCache(prompt, 0.5, "snapkv", "compacted", new, 0, 4)
