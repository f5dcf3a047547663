"""The graph of a decoded token: its lengths add up to the prediction, its schedule lies between its bounds."""

import math

import pytest

from core.catalogue.load import load_catalogue
from core.physics.schedule import Operation, list_schedule, slack
from core.predict.decoder_graph import decoder_graph
from core.predict.scenario import initial_posterior, predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()


def _graph(n_layers, **fields):
    point = OperatingPoint(**fields)
    made = predict(point, CATALOGUE, initial_posterior(CATALOGUE.resolve(point), CATALOGUE))
    shape, weights = CATALOGUE.models[point.model], CATALOGUE.weight_formats[point.weights]
    n = shape.n_layers if n_layers is None else n_layers
    return made, decoder_graph(made, shape, weights, n), shape


@pytest.mark.parametrize("fields", [{}, {"weights": "int8", "context_tokens": 512}])
def test_all_operations_of_a_token_add_up_to_its_predicted_time(fields):
    made, graph, shape = _graph(None, **fields)
    decode = float(made.decode_s.median)
    assert math.fsum(op.length_s for op in graph) == pytest.approx(decode, rel=1e-9)
    assert len(graph) == 9 * shape.n_layers + 2
    assert list_schedule(graph, 1).makespan_s == pytest.approx(decode, rel=1e-9)
    assert list_schedule(graph, 2).makespan_s <= decode * (1 + 1e-9)


def test_a_layer_is_its_share_of_the_token_and_has_its_critical_path():
    _, graph, shape = _graph(1)
    _, whole, _ = _graph(None)
    names = [op.name for op in graph]
    assert names == ["Q", "K", "V", "RoPE and KV write", "attention", "O", "gate", "up", "down"]
    in_layers = math.fsum(op.length_s for op in whole if op.name[-1].isdigit())
    assert math.fsum(op.length_s for op in graph) * shape.n_layers == pytest.approx(in_layers)
    assert all(0 <= op.memory_frac <= 1 for op in graph)
    assert all(value >= 0 for value in slack(graph).slack_s.values())


def test_more_layers_than_the_model_has_are_refused():
    with pytest.raises(ValueError, match="n_layers"):
        _graph(1000)


def test_operations_of_two_memories_do_not_slow_each_other_down():
    def both(first, second):
        ops = [Operation("a", 1.0, (), 0.9, first), Operation("b", 1.0, (), 0.9, second)]
        return list_schedule(ops, 2).makespan_s

    assert both("hbm", "hbm") == pytest.approx(1.8)
    assert both("hbm", "ddr") == pytest.approx(1.0)
