import json

import numpy as np
import pytest

from core.physics import realtime as rt
from core.physics.realtime import Task
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
SET = [Task("a", 1000, 4000), Task("b", 2000, 6000), Task("c", 3000, 13000)]


def test_response_times_golden():
    assert [r.worst_ns / 1000 for r in rt.responses(SET)] == Q["B09.phy.RTA(C=1,2,3;T=4,6,13)"]
    blocked = rt.responses(SET, blocking=[500, 500, 500])
    assert [r.worst_ns / 1000 for r in blocked] == Q["B09.phy.RTA_with_B=0.5"]
    assert all(r.meets_deadline for r in blocked)


def test_sufficient_tests_golden():
    assert rt.utilisation(SET) == pytest.approx(Q["B09.phy.utilisation"], rel=1e-12)
    assert rt.liu_layland_bound(3) == pytest.approx(Q["B09.phy.LiuLayland(3)"], rel=1e-12)
    assert rt.hyperbolic_product(SET) == pytest.approx(Q["B09.phy.hyperbolic_product"], rel=1e-12)
    assert rt.utilisation(SET) > rt.liu_layland_bound(3)  # neither decides; the exact test does
    assert rt.hyperbolic_product(SET) > 2


def test_urgent_request_golden():
    free = rt.preemption_response_s(100e-6, 8.3e-6, 2.1e-6)
    assert free * 1e6 == pytest.approx(Q["B09.phy.R_hi(irq=8.3,cs=2.1,block=0,C=100us)"], rel=1e-12)
    behind = rt.preemption_response_s(100e-6, 8.3e-6, 2.1e-6, 41.6e-3)
    assert behind * 1e6 == pytest.approx(Q["B09.phy.R_hi(kernel not preemptible, 41.6ms)"], rel=1e-12)
    assert rt.preemption_response_s(0, 8.3, 2.1) == pytest.approx(Q["B09.chk.irq_plus_switch_us"])
    assert pytest.approx(Q["B09.chk.preempt_ratio"], rel=1e-12) == 127 / 9.2
    assert pytest.approx(Q["B09.chk.jitter_ratio"], rel=1e-12) == 41.6 / 0.83


def test_first_job_is_not_always_the_worst():
    """Lehoczky's case: the response exceeds the period, and a later job has the longest one."""
    tasks = [Task("a", 26, 70), Task("b", 62, 100)]
    assert rt.responses(tasks)[1].worst_ns == 118
    assert rt.simulate(tasks, 1) == 118
    assert not rt.responses(tasks)[1].meets_deadline


def random_set(rng):
    n = int(rng.integers(1, 6))
    periods = rng.integers(20, 400, n)
    shares = rng.dirichlet(np.ones(n)) * rng.uniform(0.3, 0.99)
    costs = np.maximum(1, (shares * periods).astype(int))
    return [
        Task(
            str(i),
            int(c),
            int(t),
            jitter_ns=int(rng.integers(0, t) * (rng.random() < 0.4)),
            section_ns=int(rng.integers(0, c + 1)),
        )
        for i, (c, t) in enumerate(zip(costs, periods, strict=True))
    ]


def test_simulated_worst_response_equals_the_analysis_on_10000_sets():
    rng = np.random.default_rng(2024)
    n_late = n_overloaded = 0
    for _ in range(10_000):
        tasks, switch = random_set(rng), int(rng.integers(0, 3))
        expected = rt.responses(tasks, switch)
        for i, r in enumerate(expected):
            assert rt.simulate(tasks, i, switch) == r.worst_ns, (tasks, switch, i)
            n_overloaded += r.worst_ns is None
            n_late += r.worst_ns is not None and not r.meets_deadline
    assert n_late > 300  # the sets reach beyond what a first-job analysis would cover
    assert n_overloaded > 100


def test_response_grows_with_every_cause():
    base = rt.responses(SET)[2].worst_ns
    assert rt.responses(SET, switch_ns=50)[2].worst_ns > base
    assert rt.responses(SET, blocking=[0, 0, 300])[2].worst_ns > base
    late = [Task("a", 1000, 4000, jitter_ns=3000), *SET[1:]]
    assert rt.responses(late)[2].worst_ns > base


def test_full_load_without_blocking_is_bounded_and_with_it_says_so():
    full = [Task("a", 5, 10), Task("b", 5, 10)]
    assert rt.responses(full)[1].worst_ns == 10
    with pytest.raises(ValueError, match=r"b: .* jobs follow each other without a pause"):
        rt.responses(full, blocking=[0, 1])


def test_jitter_quantile_equals_simulation():
    rng = np.random.default_rng(1)
    kernels, busy = np.array([0.2e-3, 5e-3, 41.6e-3]), np.array([0.3, 0.25, 0.2])
    n = 400_000
    which = rng.choice(4, n, p=[*busy, 1 - busy.sum()])
    wait = np.append(kernels, 0)[which] * rng.random(n)
    for q in (0.3, 0.5, 0.9, 0.99):
        assert rt.kernel_wait_quantile_s(kernels, busy, q) == pytest.approx(np.quantile(wait, q), rel=0.02, abs=2e-5)


def test_jitter_follows_the_longest_kernel():
    p99 = [rt.kernel_wait_quantile_s([k], [0.8], 0.99) for k in (1e-3, 10e-3, 41.6e-3)]
    np.testing.assert_allclose(p99, np.array([1e-3, 10e-3, 41.6e-3]) * (1 - 0.01 / 0.8))
    assert rt.kernel_wait_quantile_s([1e-3], [0.005], 0.99) == 0.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Task("a", 0, 5), "cost_ns = 0"),
        (lambda: Task("a", 1.5, 5), "cost_ns = 1.5 is not a whole number"),
        (lambda: Task("a", 2, 5, section_ns=3), "section_ns = 3"),
        (lambda: rt.responses(SET, switch_ns=-1), "switch_ns = -1"),
        (lambda: rt.kernel_wait_quantile_s([1.0, 1.0], [0.6, 0.6], 0.9), "sum of busy_frac = 1.2"),
        (lambda: rt.kernel_wait_quantile_s([1.0], [0.6], 1.0), "quantile = 1"),
        (lambda: rt.preemption_response_s(1, -1, 0), "interrupt_s = -1"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
