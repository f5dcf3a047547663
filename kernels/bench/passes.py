"""Cases of the bench: what reads memory once or twice and computes little: relayout, activation pruning, compensation,
scores of cached tokens.

Shapes are (n_heads, n_tokens, head_dim) of a cache, or (n,) of activations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.bench.harness import Case, duplicate, n_copies, rotating
from kernels.cache.blocked_layout import BlockedCache, blocked
from kernels.eviction.policies import PAGE_TOKENS, n_kept, select
from kernels.eviction.token_scores import PageBounds, key_norm_scores, rope_sensitivity_scores, snapkv_scores
from kernels.passes.activation import SAMPLE_SHARE, prune, sampled_threshold
from kernels.passes.compensation import DualLoop, feed_back

CACHE = (8, 16384, 128)
N_ACTIVATIONS = 8 << 20
PRUNED_SHARE, GAIN, STEP = 0.15, 0.05, 0.25
GOAL_RELAYOUT, GOAL_ACTIVATION = (0.75, 0.75), (0.90, 0.90)
N_WINDOW = 32

T = TypeVar("T")


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` leaves out the scores."""
    yield from _relayout(device)
    yield from _activation_pruning(device)
    yield from _compensation(device)
    if not quick:
        yield from _scores(device)


def _randn(*size: int, device: str) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0)).to(device)


def _case(
    device: str,
    name: str,
    variant: str,
    shape: tuple[int, ...],
    dtype: str,
    byte: float,
    made: T,
    call: Callable[[T], object],
    check: Callable[[], None],
    goal: tuple[float, float] | None = None,
    trap: bool = False,
    held_byte: float | None = None,
) -> Case:
    copies = [made, *(duplicate(made) for _ in range(n_copies(byte if held_byte is None else held_byte, device) - 1))]
    return Case(name, variant, shape, dtype, byte, rotating(copies, call), check, goal, trap)


def _expect(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(what)


def _relayout(device: str) -> Iterator[Case]:
    heads, tokens, dim = CACHE
    for dtype in (torch.float32, torch.bfloat16):
        cache = _randn(1, heads, tokens, dim, device=device).to(dtype)
        out = blocked(cache)
        name, byte = str(dtype).removeprefix("torch."), 2.0 * cache.nbytes
        pair = (cache, out)
        n_blocks, block = out.shape[2], out.shape[4]
        plain = cache.view(1, heads, tokens, n_blocks, block).transpose(2, 3)
        bits = {4: torch.int32, 2: torch.int16}[dtype.itemsize]

        def check(out: Tensor = out, plain: Tensor = plain, bits: torch.dtype = bits) -> None:
            _expect(torch.equal(out.view(bits), plain.contiguous().view(bits)), "other bits than the transposed view")

        yield _case(
            device,
            "relayout",
            "into given memory",
            CACHE,
            name,
            byte,
            pair,
            lambda p: blocked(p[0], out=p[1]),
            check,
            GOAL_RELAYOUT,
        )
        yield _case(
            device, "relayout", "into fresh memory", CACHE, name, byte, pair, lambda p: blocked(p[0]), check, trap=True
        )
        yield _append(cache, name, check)


def _append(cache: Tensor, name: str, check: Callable[[], None]) -> Case:
    """Write the last token of a cache that is held in blocks: what a relayout is spared by."""
    _, heads, tokens, dim = cache.shape
    held = BlockedCache(1, heads, tokens, dim, cache.dtype, device=cache.device)
    held.append(cache[:, :, :-1])
    last = cache[:, :, -1:].clone()

    def append(target: BlockedCache) -> None:
        target.length = tokens - 1
        target.append(last)

    byte = 2.0 * last.nbytes
    return Case("blocked write of a token", "torch", (heads, 1, dim), name, byte, lambda: append(held), check)


def _activation_pruning(device: str) -> Iterator[Case]:
    x = _randn(N_ACTIVATIONS, device=device)
    at = sampled_threshold(x, PRUNED_SHARE)
    byte = 2.0 * x.nbytes

    def check() -> None:
        kept = float((prune(x, at) != 0).double().mean())
        sigma = (PRUNED_SHARE * (1 - PRUNED_SHARE) / max(1024, x.numel() * SAMPLE_SHARE)) ** 0.5
        _expect(abs(kept - 1 + PRUNED_SHARE) < 4 * sigma, f"kept {kept:.4f}, expected {1 - PRUNED_SHARE}")

    name, shape, held = "activation pruning", (N_ACTIVATIONS,), float(x.nbytes)

    def in_place(v: Tensor) -> Tensor:
        return prune(v, at, v)

    yield _case(
        device, name, "hardshrink in place", shape, "fp32", byte, x, in_place, check, GOAL_ACTIVATION, held_byte=held
    )
    fresh = functools.partial(F.hardshrink, lambd=at)
    yield _case(
        device, name, "hardshrink, fresh memory", shape, "fp32", byte, x, fresh, check, trap=True, held_byte=held
    )
    sampled = functools.partial(sampled_threshold, pruned_share=PRUNED_SHARE)
    yield _case(device, "activation threshold", "sampled", shape, "fp32", x.nbytes / 64, x, sampled, check)


def _compensation(device: str) -> Iterator[Case]:
    x = 2 * _randn(N_ACTIVATIONS, device=device)
    mean = float(x.double().mean())

    def looped(values: Tensor) -> Tensor:
        return DualLoop(0.0, GAIN, STEP).apply(values, mean=mean)

    def check() -> None:
        found, exact = looped(x.clone()), x.double()
        expected = exact - GAIN * mean - (1 - GAIN) * (exact - STEP * (exact / STEP).round())
        _expect(float((found.double() - expected).abs().max()) < 1e-5, "another result than in float64")

    def check_feedback() -> None:
        error = torch.zeros_like(x)
        found = feed_back(x.clone(), error, STEP)
        _expect(float((found.double() + error - x).abs().max()) < 1e-5, "output and error do not sum to the input")
        _expect(float(error.abs().max()) <= STEP / 2 + 1e-6, "an error above half a step")

    shape, held, goal = (N_ACTIVATIONS,), float(x.nbytes), GOAL_ACTIVATION
    yield _case(device, "compensation", "in place", shape, "fp32", 2 * held, x, looped, check, goal, held_byte=held)
    pair = (x, torch.zeros_like(x))

    def fed_back(pair: tuple[Tensor, Tensor]) -> Tensor:
        return feed_back(*pair, STEP)

    yield _case(
        device,
        "error feedback",
        "in place",
        shape,
        "fp32",
        4 * held,
        pair,
        fed_back,
        check_feedback,
        goal,
        held_byte=2 * held,
    )


def _scores(device: str) -> Iterator[Case]:
    heads, tokens, dim = CACHE
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        k = _randn(heads, tokens, dim, device=device).to(dtype)
        exact = k.double()

        def check_norm(k: Tensor = k, exact: Tensor = exact) -> None:
            error = float((key_norm_scores(k).double() + exact.norm(dim=-1)).abs().max())
            _expect(error < 0.1 if k.dtype == torch.bfloat16 else error < 1e-4, f"largest error {error:.2g}")

        yield _case(
            device, "score key norm", "torch vector_norm", CACHE, name, float(k.nbytes), k, key_norm_scores, check_norm
        )
    yield from _scores_by_queries(device)
    mass = _randn(heads, tokens, device=device)
    keep = n_kept(tokens, 0.6)

    def check_select() -> None:
        chosen = select(mass, keep)
        _expect(bool((chosen.diff(dim=-1) > 0).all()), "the chosen tokens are not sorted")

    yield _case(
        device,
        "selection",
        "topk, sort",
        CACHE[:2],
        "fp32",
        float(mass.nbytes),
        mass,
        lambda m: select(m, keep),
        check_select,
    )


def _scores_by_queries(device: str) -> Iterator[Case]:
    heads, tokens, dim = CACHE
    k = _randn(heads, tokens, dim, device=device)
    q = _randn(heads, N_WINDOW, dim, device=device) * dim**-0.5
    theta = 10000.0 ** (-torch.arange(0, dim, 2, device=device) / dim)
    bounds = PageBounds(heads, tokens, dim, PAGE_TOKENS, device)
    bounds.append(k)
    scores = torch.bmm(q.double(), k.double().transpose(1, 2))

    def check_window() -> None:
        future = torch.full((N_WINDOW, tokens), -torch.inf, device=device).triu_(tokens - N_WINDOW + 1)
        mass = torch.softmax(scores + future, -1).sum(1)
        before = tokens - N_WINDOW
        found = snapkv_scores(q, k, pool_tokens=1)[:, :before].double()
        _expect(float((found - mass[:, :before]).abs().max()) < 1e-5, "another mass than in float64")

    def check_bounds() -> None:
        page = scores.amax(1).view(heads, -1, PAGE_TOKENS).amax(-1)
        _expect(bool((bounds.page_scores(q) >= page - 1e-4).all()), "a bound below a score of its page")

    def check_rope() -> None:
        pairs = k.double().view(heads, tokens, -1, 2).norm(dim=-1)
        expected = pairs @ (q.double().view(heads, N_WINDOW, -1, 2).norm(dim=-1).mean(1) * theta).unsqueeze(-1)
        found = rope_sensitivity_scores(q, k, theta).double()
        _expect(float((found - expected[..., 0]).abs().max()) < 1e-3, "another sensitivity than in float64")

    byte = float(k.nbytes)
    yield _case(
        device, "score SnapKV window", "torch", CACHE, "fp32", byte, k, lambda k: snapkv_scores(q, k), check_window
    )
    rope = "score position sensitivity"
    yield _case(
        device, rope, "torch", CACHE, "fp32", byte, k, lambda k: rope_sensitivity_scores(q, k, theta), check_rope
    )
    page_byte = 2.0 * byte / PAGE_TOKENS
    yield _case(
        device, "score page bounds", "torch", CACHE, "fp32", page_byte, bounds, lambda b: b.page_scores(q), check_bounds
    )
