"""Cases of the bench: attention of one token. Shapes are (n_kv_heads, n_groups, head_dim, n_tokens).

Pruned attention is held against the same kernel over the full cache, in alternation. Mask and gather look like pruning
and save nothing: they are shown for what they cost. Goals are set for the large shape: on the small one the call itself
counts, some 10 us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.bench.harness import Case, n_copies, rotating
from kernels.cache.blocked_layout import crop_tokens
from kernels.cache.contiguous import FORMATS, FloatKvCache, Int4KvCache, Int8KvCache, KvCache
from kernels.cache.paged import PagedKvCache
from kernels.eviction.policies import PAGE_TOKENS, n_kept

Shape = tuple[int, int, int, int]
QUICK_SHAPES: tuple[Shape, ...] = ((8, 4, 128, 16384),)
SHAPES: tuple[Shape, ...] = (*QUICK_SHAPES, (3, 3, 64, 8192))
ALPHA = 0.6
GOAL_FULL = (0.85, 0.60)
"""Share of the read probe over a full cache of 16 bits, in the slow and in the fast regime."""
GOAL_COMPACTED, GOAL_PAGES = 0.95, 0.75
"""Speed-up over the full cache, as a share of the full cache's size over what is read."""
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2, "fp16": 2e-3, "int8": 3e-2, "int4": 3e-2}
"""Largest error against float64 attention over what the cache holds; torch rounds scores of bf16 and int8 to bf16, the
C library queries and weights beside int4 to 8 bits."""


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` takes one shape and bf16."""
    for shape in QUICK_SHAPES if quick else SHAPES:
        for kv_format in ("bf16",) if quick else FORMATS:
            yield from _full(shape, kv_format, device)
            if PagedKvCache.serves(shape[2], device):
                for found in _pruned(shape, kv_format):
                    yield found if shape in QUICK_SHAPES else replace(found, goal_speedup=None)
        yield from _demonstrations(shape, device)
        yield from _banks(shape, device)


def _banks(shape: Shape, device: str) -> Iterator[Case]:
    """Yield attention over a cache whose heads begin in one bank, and over one cropped so that they do not."""
    heads, groups, dim, n_tokens = shape
    for n, variant in ((n_tokens, "torch, as it is"), (crop_tokens(n_tokens, 2 * dim), "torch, cropped by banks")):
        name, cropped = "decode attention, heads by bank", (heads, groups, dim, n)
        yield _case(name, variant, cropped, "bf16", lambda n: FloatKvCache(1, heads, n, dim, "bf16", device), device)


def _full(shape: Shape, kv_format: str, device: str) -> Iterator[Case]:
    for variant, make in _makers(shape, kv_format, device).items():
        held = variant == "native" and kv_format in ("bf16", "fp16") and shape in QUICK_SHAPES
        found = _case("decode attention", variant, shape, kv_format, make, device)
        yield replace(found, goal_share=GOAL_FULL) if held else found


def _makers(shape: Shape, kv_format: str, device: str) -> dict[str, Callable[[int], KvCache]]:
    heads, _, dim, _ = shape
    torch_name = {"int8": "torch int8pack", "int4": "torch, dequantised"}.get(kv_format, "torch SDPA")
    found: dict[str, Callable[[int], KvCache]] = {}
    if PagedKvCache.serves(dim, device):
        found["native"] = lambda n: PagedKvCache(1, heads, n, dim, kv_format)
    if kv_format == "int8":
        found[torch_name] = lambda n: Int8KvCache(1, heads, n, dim, device)
    elif kv_format == "int4":
        found[torch_name] = lambda n: Int4KvCache(1, heads, n, dim, device)
    else:
        found[torch_name] = lambda n: FloatKvCache(1, heads, n, dim, kv_format, device)
    return found


def _pruned(shape: Shape, kv_format: str) -> Iterator[Case]:
    heads, groups, dim, n_tokens = shape
    keep = n_kept(n_tokens, ALPHA)
    generator = torch.Generator().manual_seed(1)

    def make(n: int) -> PagedKvCache:
        return PagedKvCache(1, heads, n, dim, kv_format)

    def chosen_pages() -> Tensor:
        last = (n_tokens - 1) // PAGE_TOKENS
        return torch.stack(
            [torch.randperm(last, generator=generator)[: keep // PAGE_TOKENS].sort().values for _ in range(heads)]
        )

    def in_place(n: int) -> PagedKvCache:
        cache = make(n)
        cache.read_only(chosen_pages()[None], n)
        return cache

    full = _turning(shape, make)
    baseline = rotating(full, _attend)
    compacted = _case("pruned attention, compacted", "native", (heads, groups, dim, keep), kv_format, make)
    yield replace(compacted, baseline=baseline, goal_speedup=GOAL_COMPACTED * n_tokens / keep)
    pages = _case("pruned attention, pages in place", "native", shape, kv_format, in_place)
    n_read = in_place(n_tokens).tokens_read(n_tokens)
    yield replace(pages, baseline=baseline, goal_speedup=GOAL_PAGES * n_tokens / n_read)
    if isinstance(full[0][0], PagedKvCache):
        yield replace(_copied(full, chosen_pages(), shape, kv_format), baseline=baseline)


def _copied(full: Turning, pages: Tensor, shape: Shape, kv_format: str) -> Case:
    """Copy the pages together at each step, which a cache that cannot be read in place would have to do."""
    heads, groups, dim, _ = shape
    n = pages.shape[1] * PAGE_TOKENS
    target = PagedKvCache(1, heads, n + PAGE_TOKENS, dim, kv_format)
    target.length = n
    target.write(0, torch.zeros(2, 1, heads, 1, dim))

    def attend(held: tuple[KvCache, Tensor]) -> Tensor:
        source, q = held
        assert isinstance(source, PagedKvCache)
        target.take_pages(source, 0, pages)
        return target.attend(0, q, n + 1)

    def check() -> None:
        source, q = full[0]
        index = (pages[:, :, None] * PAGE_TOKENS + torch.arange(PAGE_TOKENS)).flatten(1)
        k, v = (torch.cat([x.double(), x.new_zeros(heads, 1, dim)], 1) for x in source.dequantised_at(0, index))
        expected = torch.softmax(torch.bmm(q[0].double(), k.transpose(1, 2)), -1) @ v
        _compare(attend(full[0]), expected, kv_format)

    name = "pruned attention, pages copied each step"
    byte = float(n * target.byte_per_token())
    return Case(name, "native", (heads, groups, dim, n), kv_format, byte, rotating(full, attend), check)


Turning = list[tuple[KvCache, Tensor]]


def _turning(shape: Shape, make: Callable[[int], KvCache], device: str = "cpu") -> Turning:
    """Fill caches with random tokens, as many as overflow the last-level cache, with a query each."""
    heads, groups, dim, n_tokens = shape
    generator = torch.Generator().manual_seed(0)
    kv = torch.randn(2, 1, heads, n_tokens, dim, generator=generator).to(device)
    q = (torch.randn(1, heads, groups, dim, generator=generator) * dim**-0.5).to(device)
    found: Turning = []
    while not found or len(found) < n_copies(found[0][0].byte_per_token() * found[0][0].tokens_read(n_tokens), device):
        cache = make(n_tokens)
        cache.write(0, kv)
        cache.length = n_tokens
        found.append((cache, q))
    return found


def _attend(held: tuple[KvCache, Tensor]) -> Tensor:
    cache, q = held
    return cache.attend(0, q, cache.length)


def _case(
    name: str,
    variant: str,
    shape: Shape,
    kv_format: str,
    make: Callable[[int], KvCache],
    device: str = "cpu",
) -> Case:
    turning = _turning(shape, make, device)
    cache, q = turning[0]

    def check() -> None:
        k, v = (x.double() for x in cache.dequantised(0, cache.length))
        scores = torch.bmm(q[0].double(), k.transpose(1, 2))
        expected = torch.softmax(scores if cache.mask is None else scores + cache.mask[0], -1) @ v
        _compare(_attend(turning[0]), expected, kv_format)

    byte = float(cache.tokens_read(cache.length) * cache.byte_per_token())
    return Case(name, variant, shape, kv_format, byte, rotating(turning, _attend), check)


def _demonstrations(shape: Shape, device: str) -> Iterator[Case]:
    """Yield what looks like pruning, or like grouped queries, and is slow; in bf16."""
    heads, groups, dim, n_tokens = shape
    keep = n_kept(n_tokens, ALPHA)
    generator = torch.Generator().manual_seed(2)
    index = torch.stack([torch.randperm(n_tokens, generator=generator)[:keep].sort().values for _ in range(heads)])
    index = index.to(device)

    def masked(n: int) -> KvCache:
        cache = FloatKvCache(1, heads, n, dim, "bf16", device)
        hidden = torch.full((1, heads, 1, n), -torch.inf, device=device)
        cache.mask = hidden.scatter_(3, index[None, :, None], 0.0)
        return cache

    found = _case("pruned attention, mask", "torch SDPA", shape, "bf16", masked, device)
    kept_byte = 4.0 * heads * keep * dim
    yield replace(found, trap=True, floor_byte=kept_byte)
    kv = torch.randn(2, heads, n_tokens, dim, generator=generator).to(device, torch.bfloat16)
    q = (torch.randn(heads, groups, dim, generator=generator) * dim**-0.5).to(device, torch.bfloat16)
    copies = [kv.clone() for _ in range(n_copies(kv.nbytes, device))]
    rows = index[:, :, None].expand(-1, -1, dim)
    kept_kv = (kv[0].gather(1, rows), kv[1].gather(1, rows))

    def demonstration(
        name: str, variant: str, n: int, call: Callable[[Tensor], Tensor], kept: tuple[Tensor, Tensor]
    ) -> Case:
        def check() -> None:
            k, v = (x.double() for x in kept)
            _compare(call(copies[0]), torch.softmax(q.double() @ k.transpose(1, 2), -1) @ v, "bf16")

        byte = 4.0 * heads * n * dim
        return Case(name, variant, (heads, groups, dim, n), "bf16", byte, rotating(copies, call), check, trap=True)

    def gather(kv: Tensor) -> Tensor:
        k, v = kv[0].gather(1, rows), kv[1].gather(1, rows)
        return F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)

    def grouped(kv: Tensor) -> Tensor:
        many = q.view(1, heads * groups, 1, dim)
        return F.scaled_dot_product_attention(many, kv[0][None], kv[1][None], scale=1.0, enable_gqa=True)

    def repeated(kv: Tensor) -> Tensor:
        many = q.view(1, heads * groups, 1, dim)
        k, v = (x.repeat_interleave(groups, 0)[None] for x in kv)
        return F.scaled_dot_product_attention(many, k, v, scale=1.0)

    yield demonstration("pruned attention, gather each step", "torch", keep, gather, kept_kv)
    yield demonstration("decode attention", "torch SDPA enable_gqa", n_tokens, grouped, (kv[0], kv[1]))
    yield demonstration("decode attention", "torch repeat_interleave", n_tokens, repeated, (kv[0], kv[1]))


def _compare(found: Tensor, expected: Tensor, kv_format: str) -> None:
    error = float((found.double().view_as(expected) - expected).abs().max())
    if not error <= TOLERANCE[kv_format]:
        raise ValueError(f"largest error {error:.2g}, expected at most {TOLERANCE[kv_format]:g}")
