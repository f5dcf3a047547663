"""The paged cache of the C library against float64 attention and against torch's own caches."""

import pytest
import torch

from kernels.attention.window import AttentionRule
from kernels.cache.contiguous import FORMATS, FloatKvCache, Int4KvCache, Int8KvCache, copy_tokens, new_cache
from kernels.cache.paged import PagedKvCache
from kernels.eviction.policies import PAGE_TOKENS
from kernels.native.library import available, status

TOLERANCE = {"fp32": 0, "fp16": 3e-3, "bf16": 2e-2, "int8": 2e-2, "int4": 0.3}
"""What a format may change of a standard normal value."""
ROUNDED = {"fp32": 5e-6, "fp16": 5e-6, "bf16": 5e-6, "int8": 3e-4, "int4": 3e-2}
"""What attention may add to that: queries and weights are rounded to 15 bits beside int8, to 8 bits beside int4."""


def test_the_library_is_there():
    assert available(), status().absent  # a C compiler belongs to the machine that runs these tests


def dense(q, k, v):
    """Softmax attention in float64; q [h, g, d], k and v [h, n, d]."""
    return torch.softmax(q.double() @ k.double().transpose(1, 2), -1) @ v.double()


def filled(kv_format, n, heads=2, dim=64, capacity=None, seed=0):
    g = torch.Generator().manual_seed(seed)
    cache = PagedKvCache(1, heads, capacity or n, dim, kv_format)
    kv = torch.randn(2, 1, heads, n, dim, generator=g)
    cache.write(0, kv)
    cache.length = n
    return cache, kv[:, 0]


def query(heads, groups, dim, seed=9):
    return torch.randn(1, heads, groups, dim, generator=torch.Generator().manual_seed(seed)) * dim**-0.5 * 2


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize(
    ("heads", "groups", "dim", "n"),
    [(3, 3, 64, 200), (2, 7, 128, 129), (8, 4, 64, 64), (1, 1, 64, 1), (1, 2, 192, 65), (2, 6, 256, 300)],
)
def test_equals_float64_attention_over_what_it_holds(kv_format, heads, groups, dim, n):
    cache, kv = filled(kv_format, n, heads, dim)
    k, v = cache.dequantised(0, n)
    assert torch.allclose(torch.stack([k, v]), kv, atol=TOLERANCE[kv_format])
    q = query(heads, groups, dim)
    out = cache.attend(0, q, n)
    assert torch.allclose(out.view(heads, groups, dim).double(), dense(q[0], k, v), atol=ROUNDED[kv_format])


@pytest.mark.parametrize("kv_format", FORMATS)
def test_equals_torchs_own_cache(kv_format):
    n, heads, dim = 150, 3, 64
    paged, kv = filled(kv_format, n, heads, dim)
    kind = {"int8": Int8KvCache, "int4": Int4KvCache}.get(kv_format)
    other = kind(1, heads, n, dim) if kind else FloatKvCache(1, heads, n, dim, kv_format)
    other.write(0, kv[:, None])
    for a, b in zip(paged.dequantised(0, n), other.dequantised(0, n), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-6)
    q = query(heads, 3, dim)
    a, b = paged.attend(0, q, n).view(-1), other.attend(0, q, n).view(-1).float()
    by_torch = 2e-2 if kv_format in ("bf16", "int8") else 5e-6  # scores are rounded to bf16
    assert torch.allclose(a, b, atol=by_torch + ROUNDED[kv_format])


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("window", [1, 20, 64, 100, 150, None])
def test_windows_and_soft_caps_equal_torchs_own_cache(kv_format, window):
    n, heads, dim, rule = 150, 2, 64, AttentionRule((window,), 0.7)
    paged = PagedKvCache(1, heads, n, dim, kv_format, rule)
    other = FloatKvCache(1, heads, n, dim, "fp32", rule=rule)
    paged.write(0, torch.randn(2, 1, heads, n, dim, generator=torch.Generator().manual_seed(0)))
    paged.length = n
    other.write(0, torch.stack(paged.dequantised(0, n))[:, None])
    q = 3 * query(heads, 3, dim)
    mask = torch.where(torch.arange(n) % 7 == 0, -torch.inf, 0.0).expand(1, heads, 1, -1)
    for paged.mask in (None, mask.contiguous()):
        other.mask = paged.mask
        out = paged.attend(0, q, n)
        atol = 3 * ROUNDED[kv_format]
        assert torch.allclose(out, other.attend(0, q, n).view(heads * 3, dim), atol=atol)
        assert paged.tokens_read(n) == other.tokens_read(n) == (window or n)


def test_a_window_counts_the_tokens_of_the_pages_that_are_read():
    n, window = 330, 90
    cache = PagedKvCache(1, 2, n, 64, "fp32", AttentionRule((window,)))
    cache.write(0, torch.randn(2, 1, 2, n, 64, generator=torch.Generator().manual_seed(0)))
    cache.length = n
    cache.read_only(torch.tensor([[[0, 3], [1, 4]]]), n)
    k, v = cache.dequantised(0, n)
    q = query(2, 3, 64)
    out = cache.attend(0, q, n)
    seen = slice(-window, None)
    assert torch.allclose(out.view(2, 3, 64).double(), dense(q[0], k[:, seen], v[:, seen]), atol=5e-6)
    assert cache.tokens_read(n) == window


@pytest.mark.parametrize("kv_format", FORMATS)
def test_appending_one_by_one_equals_writing_at_once(kv_format):
    n = 140
    whole, kv = filled(kv_format, n)
    steps = PagedKvCache(1, 2, n, 64, kv_format)
    for i in range(n):
        steps.write(0, kv[:, None, :, i : i + 1])
        steps.length += 1
    for a, b in zip(steps.dequantised(0, n), whole.dequantised(0, n), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_do_not_change_the_result(n_threads):
    cache, _ = filled("bf16", 1000, heads=3)
    q = query(3, 3, 64)
    before = torch.get_num_threads()
    expected = cache.attend(0, q, 1000).clone()
    try:
        torch.set_num_threads(n_threads)
        assert torch.allclose(cache.attend(0, q, 1000), expected, atol=1e-6)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_listed_pages_equal_attending_to_their_tokens_only(kv_format):
    n, n_pages = 330, 5  # full ones; a sixth is being filled
    cache, _ = filled(kv_format, n, capacity=n + 70)
    q = query(2, 3, 64)
    pages = torch.tensor([[[0, 3], [1, 4]]])
    k, v = cache.dequantised(0, n)
    cache.read_only(pages, n)
    assert cache.tokens_read(n) == n - (n_pages - 2) * PAGE_TOKENS
    tokens = [torch.cat([torch.arange(p * 64, p * 64 + 64) for p in row] + [torch.arange(320, n)]) for row in pages[0]]
    index = torch.stack(tokens)
    rows = index[:, :, None].expand(-1, -1, 64)
    k_kept, v_kept = k.gather(1, rows), v.gather(1, rows)
    for read in (cache.dequantised_at(0, index), cache.dequantised(0, n)):
        assert torch.equal(torch.stack(read), torch.stack([k_kept, v_kept]))
    out = cache.attend(0, q, n)
    assert torch.allclose(out.view(2, 3, 64).double(), dense(q[0], k_kept, v_kept), atol=ROUNDED[kv_format])
    # tokens written later are read as well, in this page and in new ones
    cache.write(0, torch.randn(2, 1, 2, 70, 64, generator=torch.Generator().manual_seed(2)))
    k_read, v_read = cache.dequantised(0, n + 70)
    assert k_read.shape[1] == cache.tokens_read(n + 70) == len(index[0]) + 70
    assert torch.allclose(k_read[:, : len(index[0])], k_kept, atol=0.3)  # int4: the page that filled up is quantised
    out = cache.attend(0, q, n + 70).view(2, 3, 64)
    assert torch.allclose(out.double(), dense(q[0], k_read, v_read), atol=ROUNDED[kv_format])


@pytest.mark.parametrize(("kv_format", "share"), [("int8", 0.02), ("int4", 0.15)])
def test_rounding_queries_and_weights_adds_little_to_what_the_format_costs(kv_format, share):
    cache, kv = filled(kv_format, 1000, dim=128)
    q = query(2, 4, 128)
    exact, held = dense(q[0], *kv), dense(q[0], *cache.dequantised(0, 1000))
    out = cache.attend(0, q, 1000).view(2, 4, 128).double()
    assert float((out - held).norm()) < share * float((held - exact).norm())


@pytest.mark.parametrize("kv_format", FORMATS)
def test_copied_pages_are_the_same_pages(kv_format):
    source, _ = filled(kv_format, 330)
    pages = torch.tensor([[0, 3], [1, 4]])
    target = PagedKvCache(1, 2, 192, 64, kv_format)
    target.take_pages(source, 0, pages)
    target.length = 128
    target.write(0, torch.zeros(2, 1, 2, 1, 64))  # opens the third page
    index = (pages[:, :, None] * PAGE_TOKENS + torch.arange(PAGE_TOKENS)).flatten(1)
    for a, b in zip(target.dequantised(0, 128), source.dequantised_at(0, index), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="pages: got 4, expected at most 3"):
        target.take_pages(source, 0, torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match="source: got"):
        target.take_pages(PagedKvCache(1, 2, 64, 128, kv_format), 0, pages)


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("dim", [64, 192])
def test_tokens_are_copied_as_they_are_stored(kv_format, dim):
    n, n_kept = 330, 200
    source, _ = filled(kv_format, n, heads=3, dim=dim)
    g = torch.Generator().manual_seed(3)
    index = torch.stack([torch.randperm(n, generator=g)[:n_kept].sort().values for _ in range(3)])
    index[1] = torch.arange(64, 64 + n_kept)  # whole pages
    target = PagedKvCache(1, 3, n_kept + 70, dim, kv_format)
    copy_tokens(source, target, index[None], n)
    assert target.length == n_kept
    for layer_part, (a, b) in enumerate(
        zip(target.dequantised(0, n_kept), source.dequantised_at(0, index), strict=True)
    ):
        if kv_format == "int4" and layer_part == 0:  # other tokens share a channel's scale
            assert torch.allclose(a, b, atol=0.25)
            assert torch.equal(a[1, :192], b[1, :192])
        else:
            assert torch.equal(a, b)
    by_way_of_fp32 = PagedKvCache(1, 3, n_kept + 70, dim, kv_format)
    by_way_of_fp32.write(0, torch.stack(source.dequantised_at(0, index))[:, None])
    by_way_of_fp32.length = n_kept
    more = torch.randn(2, 1, 3, 70, dim, generator=g)
    for cache in (target, by_way_of_fp32):  # decoding goes on
        cache.write(0, more)
    for a, b in zip(target.dequantised(0, n_kept + 70), by_way_of_fp32.dequantised(0, n_kept + 70), strict=True):
        assert torch.allclose(a, b, atol=0.02 if kv_format == "int4" else 1e-6)
    q = query(3, 2, dim)
    assert torch.allclose(target.attend(0, q, n_kept + 70), by_way_of_fp32.attend(0, q, n_kept + 70).clone(), atol=1e-2)
    whole = PagedKvCache(1, 3, n, dim, kv_format)
    copy_tokens(source, whole, None, n)
    for a, b in zip(whole.dequantised(0, n), source.dequantised(0, n), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match=r"index: got 0\.\.384, expected 0\.\.383"):
        target.take_tokens(source, 0, torch.tensor([[0, 384]] * 3), 2)


def test_mask_equals_leaving_the_tokens_out():
    cache, kv = filled("fp32", 200, capacity=260)
    keep = torch.rand(2, 200, generator=torch.Generator().manual_seed(1)).topk(80).indices.sort(-1).values
    cache.mask = torch.full((1, 2, 1, 260), -torch.inf).scatter_(3, keep[None, :, None], 0.0)
    q = query(2, 3, 64)
    rows = keep[:, :, None].expand(-1, -1, 64)
    expected = dense(q[0], kv[0].gather(1, rows), kv[1].gather(1, rows))
    assert torch.allclose(cache.attend(0, q, 200).view(2, 3, 64).double(), expected, atol=5e-6)


def test_a_page_that_is_masked_whole_does_no_harm():
    cache, _ = filled("bf16", 192)
    cache.mask = torch.full((1, 2, 1, 192), -torch.inf)
    cache.mask[..., 100:120] = 0
    q = query(2, 1, 64)
    k, v = (x[:, 100:120] for x in cache.dequantised(0, 192))
    assert torch.allclose(cache.attend(0, q, 192).view(2, 1, 64).double(), dense(q[0], k, v), atol=5e-6)


def test_large_scores_do_not_overflow():
    cache, kv = filled("fp32", 128)
    q = 200 * query(2, 2, 64)
    out = cache.attend(0, q, 128).view(2, 2, 64)
    assert torch.allclose(out.double(), dense(q[0], kv[0], kv[1]), atol=1e-3)


@pytest.mark.parametrize("value", [0.0, -0.0, 6.1e-5, 5.9e-8, 1e-9, 1.0005, 65504.0, -65504.0, 1e6, -2.2e-7])
def test_fp16_is_rounded_as_torch_does(value):
    cache = PagedKvCache(1, 1, 1, 64, "fp16")
    cache.write(0, torch.full((2, 1, 1, 1, 64), value))
    expected = torch.tensor(value).half().float().clamp(-65504, 65504)
    assert torch.equal(torch.stack(cache.dequantised(0, 1)), expected.expand(2, 1, 1, 64))


def test_every_bf16_and_fp16_value_survives():
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    for kv_format, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        values = bits.view(dtype).float()
        values = values[torch.isfinite(values) & (values.abs() < 1e30)]
        values = values[: len(values) // 128 * 128].view(2, 1, 1, -1, 64)
        cache = PagedKvCache(1, 1, values.shape[3], 64, kv_format)
        cache.write(0, values)
        assert torch.equal(torch.stack(cache.dequantised(0, values.shape[3])), values[:, 0])


def test_new_cache_prefers_it_and_falls_back_to_torch():
    assert isinstance(new_cache(1, 1, 1, 64, "int4"), PagedKvCache)
    assert isinstance(new_cache(1, 1, 1, 80, "int4"), Int4KvCache)
    assert isinstance(new_cache(1, 1, 1, 80, "bf16"), FloatKvCache)
    assert not PagedKvCache.serves(64, "cuda")


def test_copies_between_formats():
    source, kv = filled("fp32", 200)
    target = PagedKvCache(1, 2, 128, 64, "int4")
    index = torch.arange(50, 178).expand(1, 2, -1)
    copy_tokens(source, target, index, 200)
    assert torch.allclose(torch.stack(target.dequantised(0, 128)), kv[:, :, 50:178], atol=0.3)


def test_wrong_arguments_raise():
    cache = PagedKvCache(1, 1, 64, 64, "bf16")
    with pytest.raises(ValueError, match="kv: got 65 tokens, expected at most 64 more"):
        cache.write(0, torch.zeros(2, 1, 1, 65, 64))
    with pytest.raises(ValueError, match="kv: got torch"):
        cache.write(0, torch.zeros(2, 1, 1, 1, 64, dtype=torch.float64))
    for n_keys in (0, 65):
        with pytest.raises(ValueError, match=f"n_keys: got {n_keys}, expected 1 to the 64 tokens"):
            cache.attend(0, torch.zeros(1, 1, 1, 64), n_keys)
    with pytest.raises(ValueError, match=r"index: got 0\.\.64, expected 0\.\.63"):
        cache.dequantised(0, 65)
    with pytest.raises(ValueError, match=r"index: got 3\.\.70, expected 0\.\.63"):
        cache.dequantised_at(0, torch.tensor([[3, 70]]))
    with pytest.raises(ValueError, match=r"pages: got 0\.\.1, expected 0\.\.0"):
        cache.read_only(torch.tensor([[[0, 1]]]), 100)
    with pytest.raises(ValueError, match="head_dim: got 80"):
        PagedKvCache(1, 1, 64, 80, "bf16")
