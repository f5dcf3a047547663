"""The same kernels on a CUDA device against float64 on the CPU. Without a device these tests say so and are skipped."""

import pytest
import torch

from kernels.attention.cached import attend_rows
from kernels.attention.prefill import attend_prompt, attend_tiles
from kernels.bench import attention, dispatch, linear, passes, prefill
from kernels.cache.blocked_layout import BlockedCache, blocked, unblocked
from kernels.cache.contiguous import FORMATS, copy_tokens, new_cache
from kernels.decoder.dispatch import variants
from kernels.decoder.linear import FORMATS as WEIGHT_FORMATS
from kernels.decoder.linear import INT4_GROUPS, apply_rows
from kernels.eviction.policies import select, select_pages
from kernels.eviction.token_scores import (
    KeyNorms,
    PageBounds,
    attention_mass_scores,
    expected_attention_scores,
    key_norm_scores,
    rope_sensitivity_scores,
    snapkv_scores,
)
from kernels.passes.activation import pack, prune, sampled_threshold, threshold, unpack
from kernels.passes.compensation import DualLoop, feed_back

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
CUDA = "cuda"


def randn(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def agrees(on_device, on_cpu, tolerance=1e-4):
    assert on_device.device.type == "cuda"
    return torch.allclose(on_device.cpu().double(), on_cpu.double(), atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_caches(kv_format):
    kv, q = randn(2, 1, 2, 150, 64), randn(1, 2, 3, 64, seed=1) / 8
    here, there = (new_cache(1, 2, 160, 64, kv_format, device) for device in ("cpu", CUDA))
    here.write(0, kv)
    there.write(0, kv.to(CUDA))
    for a, b in zip(there.dequantised(0, 150), here.dequantised(0, 150), strict=True):
        assert agrees(a, b, 1e-3)
    k, v = (x.double() for x in here.dequantised(0, 150))
    expected = torch.softmax(q[0].double() @ k.transpose(1, 2), -1) @ v
    out = there.attend(0, q.to(CUDA), 150)
    assert out.is_contiguous()
    assert agrees(out.view(2, 3, 64), expected, 3e-2)
    there.length = 150
    kept = new_cache(1, 2, 70, 64, kv_format, CUDA)
    copy_tokens(there, kept, torch.arange(10, 80, device=CUDA).expand(1, 2, -1), 150)
    assert kept.length == 70


def test_scores_and_selection():
    q, k, v = randn(4, 8, 64) / 8, randn(2, 200, 64, seed=1), randn(2, 200, 64, seed=2)
    angle = torch.arange(300.0)[:, None] * 10000.0 ** -(torch.arange(32) / 32)
    rotation = torch.polar(torch.ones_like(angle), angle)
    theta = angle[1]
    on = [x.to(CUDA) for x in (q, k, v, rotation, theta)]
    assert agrees(key_norm_scores(on[1]), key_norm_scores(k))
    assert agrees(attention_mass_scores(on[0], on[1]), attention_mass_scores(q, k))
    assert agrees(snapkv_scores(on[0], on[1]), snapkv_scores(q, k))
    assert agrees(rope_sensitivity_scores(on[0], on[1], on[4]), rope_sensitivity_scores(q, k, theta))
    arguments = (q, k, v, rotation[192:200], rotation[200:])
    found = expected_attention_scores(*(x.to(CUDA) for x in arguments))
    assert agrees(found, expected_attention_scores(*arguments))
    bounds, norms = PageBounds(2, 200, 64, 64, CUDA), KeyNorms(2, 200, CUDA)
    bounds.append(on[1])
    norms.append(on[1])
    assert agrees(norms.scores(on[0]), key_norm_scores(k))
    assert bounds.scores(on[0].reshape(2, -1, 64)).shape == (2, 200)
    scores = attention_mass_scores(q, k)
    for choose in (select, select_pages):
        assert torch.equal(choose(scores.to(CUDA), 70).cpu(), choose(scores, 70))


def test_layout_activations_compensation_and_tiles():
    cache = randn(1, 2, 50, 128)
    there = blocked(cache.to(CUDA))
    assert torch.equal(there.cpu(), blocked(cache))
    assert torch.equal(unblocked(there).cpu(), cache)
    steps = BlockedCache(1, 2, 50, 128, torch.float32, device=CUDA)
    steps.append(cache.to(CUDA))
    assert torch.equal(steps.values, there)
    x = randn(5000)
    assert threshold(x.to(CUDA), 0.15) == pytest.approx(threshold(x, 0.15), rel=1e-5)
    assert agrees(prune(x.to(CUDA), 0.3), prune(x, 0.3))
    assert torch.equal(unpack(pack(prune(x.to(CUDA), 0.3))).cpu(), prune(x, 0.3))
    assert 0 < sampled_threshold(x.to(CUDA), 0.15) < 1
    assert agrees(DualLoop(0.1, 0.3, 0.25).apply(x.to(CUDA)), DualLoop(0.1, 0.3, 0.25).apply(x.clone()))
    assert agrees(
        feed_back(x.to(CUDA), torch.zeros(5000, device=CUDA), 0.5), feed_back(x.clone(), torch.zeros(5000), 0.5)
    )
    q, k, v = randn(4, 40, 64) / 8, randn(2, 90, 64, seed=1), randn(2, 90, 64, seed=2)
    assert agrees(attend_tiles(q.to(CUDA), k.to(CUDA), v.to(CUDA), 16, 32), attend_tiles(q, k, v, 16, 32))


@pytest.mark.parametrize("n_in", [512, 576])
@pytest.mark.parametrize("weight_format", WEIGHT_FORMATS)
def test_linear_layers(weight_format, n_in):
    if n_in % INT4_GROUPS.get(weight_format, 1):
        pytest.skip("groups of this format do not divide this width")
    weight, x = randn(256, n_in), randn(1, n_in, seed=1)
    linear = variants(weight_format, CUDA)[0].make(weight.to(CUDA))
    y = linear(x.to(CUDA, linear.activation_dtype))
    assert y.device.type == CUDA
    held = linear.dequantised()  # None where torch packs 4 bits in an order unknown to us
    exact = x.double() @ (weight if held is None else held.cpu()).double().T
    error = float((y.cpu().double() - exact).norm() / exact.norm())
    assert error < (0.12 if held is None else 8e-3)
    many = apply_rows(linear, randn(20, n_in, seed=2).to(CUDA))
    assert (many.device.type, many.dtype, many.shape) == (CUDA, torch.float32, (20, 256))


def test_attention_of_a_prompt():
    q, k, v, mask = randn(4, 70, 64) / 8, randn(2, 90, 64, seed=1), randn(2, 90, 64, seed=2), randn(2, 1, 90, seed=3)
    on = [x.to(CUDA) for x in (q, k, v)]
    assert agrees(attend_rows(*on), attend_rows(q, k, v))
    assert agrees(attend_rows(*on, mask.to(CUDA)), attend_rows(q, k, v, mask))
    assert agrees(attend_prompt(*on), attend_rows(q, k, v))


@pytest.mark.parametrize("subject", [attention, dispatch, linear, passes, prefill])
def test_bench_cases_check_themselves(subject, monkeypatch):
    monkeypatch.setattr(subject, "n_copies", lambda *_: 1, raising=False)
    monkeypatch.setattr("kernels.decoder.dispatch.n_copies", lambda *_: 1)
    for case in subject.cases(True, CUDA):
        case.check()
        case.run()
