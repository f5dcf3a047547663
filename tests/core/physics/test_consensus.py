import json

import numpy as np
import pytest

from core.physics import consensus as cs
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
M = json.loads((GOLDEN / "models.json").read_text())


@pytest.mark.parametrize("n", [4, 7, 10, 13])
def test_faults_and_quorum_golden(n):
    assert [cs.byzantine_faults(n), cs.quorum(n)] == Q[f"B16.n={n}: f, quorum"]


@pytest.mark.parametrize("n", range(1, 40))
def test_two_quorums_share_an_honest_node(n):
    f, q = cs.byzantine_faults(n), cs.quorum(n)
    assert 2 * q - n > f  # they overlap in more nodes than may lie
    assert q <= n - f  # and the honest ones suffice
    assert 3 * f < n


def test_kth_answer_golden():
    assert cs.kth_exponential_s(3, 4) == pytest.approx(M["M14.exp_order_stat(k=3,n=4)"], rel=1e-12)
    assert cs.kth_exponential_s(2, 3) == pytest.approx(Q["B16.phy.kth_of_n_exp_mean(2 of 3,mean=1)"], rel=1e-12)
    rng = np.random.default_rng(0)
    seen = cs.kth_delay_s(rng.exponential(1.0, (200_000, 3)), 2).mean()
    assert seen == pytest.approx(5 / 6, rel=0.01)
    assert Q["B16.phy.kth_simulated"] == pytest.approx(5 / 6, rel=0.01)


def test_published_rollout_golden():
    assert cs.one_way_s(83, 5) == pytest.approx(Q["B16.phy.one_way_ms_if_5_hops"], rel=1e-12)
    assert cs.lognormal_sd(83, 110) == pytest.approx(Q["B16.chk.lognormal_sigma"], rel=1e-9)
    assert Q["B16.chk.rest_of_142"] == 142 - 83
    assert pytest.approx(Q["B16.chk.e2e_drop"], rel=1e-12) == 1 - 142 / 320
    np.testing.assert_allclose([97 / 320, 23 / 142], Q["B16.chk.cv"], rtol=1e-12)
    assert [t > 35 for t in (83, 142)] == Q["B13.chk.bft_83ms_and_142ms_vs_v2x_35ms"]


def test_lognormal_is_the_one_that_was_asked_for():
    sd = cs.lognormal_sd(2.0, 3.5)
    draws = np.exp(np.log(2.0) - sd**2 / 2 + sd * np.random.default_rng(1).standard_normal(400_000))
    assert draws.mean() == pytest.approx(2.0, rel=0.01)
    assert np.quantile(draws, 0.95) == pytest.approx(3.5, rel=0.01)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cs.byzantine_faults(0), "n_nodes = 0"),
        (lambda: cs.kth_exponential_s(4, 3), "k = 4"),
        (lambda: cs.one_way_s(1, 0), "n_hops = 0"),
        (lambda: cs.lognormal_sd(1.0, 0.9), "q95 / mean = 0.9"),
        (lambda: cs.lognormal_sd(1.0, 9.0), "q95 / mean = 9"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_decision_takes_its_rounds_and_more_nodes_no_less():
    def mean(*sizes):
        return cs.consensus_delay_s(*sizes, 5e-3, 9e-3).mean()

    assert mean(1, 1, 1) == pytest.approx(5e-3, rel=0.02)
    assert mean(7, 4, 1) == pytest.approx(4 * mean(7, 1, 1), rel=0.02)
    assert mean(1, 1, 5) == pytest.approx(25e-3, rel=0.02)
    assert mean(1, 1, 1) < mean(4, 1, 1) < mean(40, 1, 1)
    assert (cs.consensus_delay_s(4, 2, 2, 5e-3, 9e-3) == cs.consensus_delay_s(4, 2, 2, 5e-3, 9e-3)).all()
