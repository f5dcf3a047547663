import itertools
import json

import networkx as nx
import numpy as np
import pytest

from core.physics import schedule as sc
from core.physics.schedule import Operation as Op
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
GOLDEN = [Op("A", 3), Op("B", 2, ("A",)), Op("C", 4, ("A",)), Op("D", 2, ("B", "C")), Op("E", 3, ("C",))]


def test_slack_golden():
    found = sc.slack(GOLDEN)
    names = "ABCDE"
    assert [found.earliest_s[n] for n in names] == Q["A16.phy.ES"]
    assert [found.latest_s[n] for n in names] == Q["A16.phy.LS"]
    assert [found.slack_s[n] for n in names] == Q["A16.phy.slack"]
    assert found.critical_s == Q["A16.phy.critical_path"]
    assert found.critical_path == ("A", "C", "E")
    assert sum(op.length_s for op in GOLDEN) == Q["A16.phy.work"]
    plan = sc.list_schedule(GOLDEN, 2)
    assert plan.lower_s == Q["A16.phy.lower_bound(m=2)"]
    assert plan.makespan_s == 10
    assert plan.upper_s / plan.lower_s <= Q["A16.phy.graham_factor(m=2)"]


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_contention_as_published_golden(gamma):
    assert sc.contended_length_s(100, gamma, 0.8) == pytest.approx(Q[f"A16.phy.T_eff(T=100,gamma={gamma},u=0.8)"])


def test_published_gains_golden():
    assert pytest.approx(Q["A16.chk.mean_gain"], rel=1e-12) == 1 - 9760 / 14280
    assert pytest.approx(Q["A16.chk.p99_jitter_gain"], rel=1e-12) == 1 - 890 / 3850
    np.testing.assert_allclose([3850 / 14280, 890 / 9760], Q["A16.chk.jitter_over_mean"], rtol=1e-12)
    assert pytest.approx(Q["A16.chk.err_3.2pct_of_9760_ns"]) == 0.032 * 9760


def random_graph(rng, n_max=9):
    n = int(rng.integers(1, n_max))
    lengths = np.where(rng.random(n) < 0.1, 0.0, rng.exponential(1, n))
    edges = np.triu(rng.random((n, n)) < rng.uniform(0.05, 0.6), 1)
    return [Op(str(i), float(lengths[i]), tuple(map(str, np.flatnonzero(edges[:, i])))) for i in range(n)]


def test_list_schedules_stay_within_grahams_bounds_over_10000_graphs():
    rng = np.random.default_rng(7)
    for _ in range(10_000):
        graph, m = random_graph(rng), int(rng.integers(1, 5))
        rank = {op.name: float(rng.random()) for op in graph}  # the bound holds for any priority
        plan = sc.list_schedule(graph, m, share_bandwidth=False, rank=rank)
        assert plan.lower_s * (1 - 1e-12) <= plan.makespan_s <= plan.upper_s * (1 + 1e-12)
        assert plan.upper_s <= (2 - 1 / m) * plan.lower_s * (1 + 1e-12)


def test_schedules_are_valid_and_slack_agrees_with_networkx():
    rng = np.random.default_rng(8)
    for _ in range(300):
        graph, m = random_graph(rng, 15), int(rng.integers(1, 4))
        lengths = {op.name: op.length_s for op in graph}
        plan = sc.list_schedule(graph, m)
        spans = {s.name: s for s in plan.spans}
        assert spans.keys() == lengths.keys()
        for op in graph:
            assert all(spans[op.name].start_s >= spans[n].end_s for n in op.after)
            assert spans[op.name].end_s - spans[op.name].start_s == pytest.approx(op.length_s, abs=1e-12)
        for worker in range(m):
            own = sorted((s.start_s, s.end_s) for s in plan.spans if s.worker == worker)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))
        found = sc.slack(graph)
        oracle = nx.DiGraph()
        oracle.add_nodes_from(["end", *lengths])
        oracle.add_weighted_edges_from((n, op.name, lengths[n]) for op in graph for n in op.after)
        oracle.add_weighted_edges_from((n, "end", lengths[n]) for n in lengths)
        assert found.critical_s == pytest.approx(nx.dag_longest_path_length(oracle))
        assert min(found.slack_s.values()) >= -1e-12
        assert all(abs(found.slack_s[n]) < 1e-9 for n in found.critical_path)


def test_operations_together_share_the_bandwidth():
    two = [Op("a", 2.0, memory_frac=1.0), Op("b", 2.0, memory_frac=1.0)]
    plan = sc.list_schedule(two, 2)
    assert plan.makespan_s == pytest.approx(4.0)  # as long as one after the other: traffic is conserved
    assert plan.stretch == pytest.approx(2.0)
    half = [Op("a", 2.0, memory_frac=0.5), Op("b", 2.0, memory_frac=0.5)]
    assert sc.list_schedule(half, 2).makespan_s == pytest.approx(2.0)  # enough for both
    free = [Op("a", 2.0, memory_frac=1.0), Op("b", 2.0, memory_frac=1.0), Op("c", 3.0)]
    assert {s.name: s.end_s for s in sc.list_schedule(free, 3).spans}["c"] == 3.0
    mixed = [Op("a", 2.0, memory_frac=1.0), Op("b", 1.0, memory_frac=1.0)]
    spans = {s.name: s.end_s for s in sc.list_schedule(mixed, 2).spans}
    assert spans == pytest.approx({"b": 2.0, "a": 3.0})  # rates change when b ends


def test_traffic_never_exceeds_the_bandwidth():
    rng = np.random.default_rng(9)
    for _ in range(200):
        graph = [Op(o.name, o.length_s, o.after, float(rng.random())) for o in random_graph(rng, 12)]
        plan = sc.list_schedule(graph, 4)
        traffic = sum(o.length_s * o.memory_frac for o in graph)
        assert plan.makespan_s >= max(traffic, plan.lower_s) * (1 - 1e-9)


def test_deadline_moves_the_slack():
    assert min(sc.slack(GOLDEN, 12.0).slack_s.values()) == 2
    assert min(sc.slack(GOLDEN, 9.0).slack_s.values()) == -1


def test_formulas_by_name():
    assert sc.FORMULAS["memory"](byte=4e9, bandwidth_byte_s=50e9) == 0.08
    assert sc.FORMULAS["roofline"](byte=4e9, flop=1e12, bandwidth_byte_s=50e9, compute_op_s=1e12) == 1.0
    assert sc.FORMULAS["contended"](length_s=1.0, gamma=0.5, load_frac=0.5) == 1.25


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        ([Op("a", 1, ("b",)), Op("b", 1, ("a",))], "'a' waits for itself through a cycle"),
        ([Op("a", 1), Op("a", 2)], "'a' is there twice"),
        ([Op("a", 1, ("z",))], "after 'z' names no operation"),
    ],
)
def test_broken_graphs_are_refused(graph, says):
    with pytest.raises(ValueError, match=says):
        sc.list_schedule(graph, 2)


def test_out_of_range_is_refused_by_name():
    with pytest.raises(ValueError, match="a: length_s = -1"):
        Op("a", -1)
    with pytest.raises(ValueError, match="n_workers = 0"):
        sc.list_schedule(GOLDEN, 0)
    with pytest.raises(ValueError, match=r"gamma = 0\.95"):
        sc.contended_length_s(1, 0.95, 0.5)
    assert sc.list_schedule([], 2).makespan_s == 0
