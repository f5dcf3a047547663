import pytest
import torch

from kernels.attention.cached import attend, attend_int8, attend_rows
from kernels.cache.contiguous import Int8KvCache

H_KV, GROUPS, DIM = 3, 3, 64


def dense(q, k, v):
    """Softmax attention in float64; q [h, g, d], k and v [h, n, d]."""
    q, k, v = q.double(), k.double(), v.double()
    return torch.softmax(q @ k.transpose(1, 2), -1) @ v


@pytest.fixture(params=[1, 2, 33, 200])
def qkv(request):
    g = torch.Generator().manual_seed(request.param)
    q = torch.randn(H_KV, GROUPS, DIM, generator=g) * DIM**-0.5
    return q, torch.randn(H_KV, request.param, DIM, generator=g), torch.randn(H_KV, request.param, DIM, generator=g)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_equals_dense_softmax(qkv, dtype, tolerance):
    q, k, v = (x.to(dtype) for x in qkv)
    out = attend(q[None], k[None], v[None])[0]
    assert torch.allclose(out.double(), dense(q, k, v), atol=tolerance)


def test_one_key_returns_its_value():
    q, k, v = torch.randn(1, H_KV, GROUPS, DIM), torch.randn(1, H_KV, 1, DIM), torch.randn(1, H_KV, 1, DIM)
    assert torch.allclose(attend(q, k, v), v.expand(1, H_KV, GROUPS, DIM))


def test_no_key_raises():
    with pytest.raises(ValueError, match="k: got 0 keys"):
        attend(torch.ones(1, 1, 1, 16), torch.ones(1, 1, 0, 16), torch.ones(1, 1, 0, 16))


def test_order_of_the_keys_does_not_matter(qkv):
    q, k, v = qkv
    order = torch.randperm(k.shape[1], generator=torch.Generator().manual_seed(5))
    assert torch.allclose(
        attend(q[None], k[None], v[None]), attend(q[None], k[None, :, order], v[None, :, order]), atol=1e-6
    )


def test_mask_equals_leaving_the_keys_out(qkv):
    q, k, v = qkv
    n = k.shape[1]
    keep = torch.arange(0, n, 2)
    mask = torch.full((H_KV, 1, n), -torch.inf)
    mask[:, :, keep] = 0
    masked = attend(q[None], k[None], v[None], mask)
    assert torch.allclose(masked[0].double(), dense(q, k[:, keep], v[:, keep]), atol=1e-6)


def test_error_of_dropping_keys_obeys_the_identity():
    """o - o_kept = eps (mean of the dropped values - mean of the kept ones), both weighted; quantities of pruning."""
    g = torch.Generator().manual_seed(2)
    q, k, v = (
        torch.randn(1, 1, 16, generator=g),
        torch.randn(1, 50, 16, generator=g),
        torch.randn(1, 50, 16, generator=g),
    )
    kept = torch.arange(50) % 3 == 0
    o = attend(q[None], k[None], v[None])[0]
    o_kept = attend(q[None], k[None, :, kept], v[None, :, kept])[0]
    p = torch.softmax(q.double() @ k.double().transpose(1, 2), -1)[0, 0]
    eps = p[~kept].sum()
    v = v[0].double()
    mean_dropped, mean_kept = p[~kept] @ v[~kept] / eps, p[kept] @ v[kept] / (1 - eps)
    error = (o - o_kept)[0, 0].double()
    assert torch.allclose(error, eps * (mean_dropped - mean_kept), atol=1e-6)
    assert error.norm() <= 2 * eps * v.norm(dim=1).max()


@pytest.mark.parametrize("n_keys", [1, 5, 16, 100])
def test_int8_equals_float_attention_over_the_dequantised_cache(n_keys):
    g = torch.Generator().manual_seed(n_keys)
    cache = Int8KvCache(1, H_KV, 112, DIM)
    cache.write(0, torch.randn(2, 1, H_KV, n_keys, DIM, generator=g))
    q = torch.randn(H_KV, GROUPS, DIM, generator=g) * DIM**-0.5
    out = cache.attend(0, q[None], n_keys).view(H_KV, GROUPS, DIM)
    assert torch.allclose(out.double(), dense(q, *cache.dequantised(0, n_keys)), atol=3e-2)


@pytest.mark.parametrize(
    ("n_keys", "capacity", "message"),
    [(0, 16, "k: got 0 keys"), (17, 16, "k: got 17"), (4, 20, "v_t: got a capacity of 20")],
)
def test_int8_shapes_that_the_kernel_computes_wrongly_raise(n_keys, capacity, message):
    k = [torch.zeros(n_keys, 16, dtype=torch.int8)]
    v = [torch.zeros(16, capacity, dtype=torch.int8)]
    scale = torch.ones(1, 1, n_keys)
    with pytest.raises(ValueError, match=message):
        attend_int8(torch.ones(1, 1, 1, 16), k, scale, v, scale)


@pytest.mark.parametrize("n_past", [0, 7])
def test_rows_equal_dense_causal_attention_token_by_token(n_past):
    g = torch.Generator().manual_seed(3)
    n_new = 9
    q = torch.randn(6, n_new, 16, generator=g) * 0.25
    k, v = (torch.randn(2, n_past + n_new, 16, generator=g) for _ in range(2))
    out = attend_rows(q, k, v)
    for i in range(n_new):
        n = n_past + i + 1
        expected = dense(q[:, i].view(2, 3, 16), k[:, :n], v[:, :n])
        assert torch.allclose(out[:, i].view(2, 3, 16).double(), expected, atol=1e-6)


def test_rows_with_a_mask_equal_leaving_the_keys_out():
    g = torch.Generator().manual_seed(4)
    q = torch.randn(6, 5, 16, generator=g) * 0.25
    k, v = (torch.randn(2, 20, 16, generator=g) for _ in range(2))
    kept = torch.cat([torch.arange(0, 15, 2), torch.arange(15, 20)])
    mask = torch.full((2, 1, 20), -torch.inf)
    mask[..., kept] = 0
    assert torch.allclose(attend_rows(q, k, v, mask), attend_rows(q, k[:, kept], v[:, kept]), atol=1e-6)
