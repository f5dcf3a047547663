from dataclasses import replace

import numpy as np
import pytest

from core.physics.pipeline import (
    RequestStages,
    chain_makespan,
    chain_starts,
    first_token_s,
    initiation_interval,
    pipelined_request_s,
    serial_request_s,
    span_gap_s,
    stage_utilisation,
)

STAGES = RequestStages(5e-3, 20e-3, 30e-3, 8e-3, 0.2e-3, 0.3e-3, 0.05e-3)
RNG = np.random.default_rng(6)


def test_one_token_is_the_first_token():
    assert serial_request_s(STAGES, 1) == pipelined_request_s(STAGES, 1) == first_token_s(STAGES)


def test_overlap_never_costs():
    for _ in range(100):
        stages = RequestStages(*RNG.uniform(0, 1, 7))
        for n in (1, 2, 50):
            assert pipelined_request_s(stages, n) <= serial_request_s(stages, n) + 1e-12


def test_a_slow_delivery_sets_the_pace():
    slow = replace(STAGES, protocol_s=20e-3)
    assert pipelined_request_s(slow, 11) - pipelined_request_s(slow, 1) == pytest.approx(0.2)


def event_driven(lengths: list[float], n_items: int) -> float:
    """When the last item leaves a chain whose stages serve one item at a time, in order."""
    free = [0.0] * len(lengths)
    at = 0.0
    for _ in range(n_items):
        at = 0.0
        for i, length in enumerate(lengths):
            at = max(at, free[i]) + length
            free[i] = at
    return at


def test_pipelined_request_is_that_of_an_event_driven_one():
    for _ in range(50):
        stages = RequestStages(*RNG.uniform(0, 1, 7))
        computed = stages.prompt_load_s + stages.kv_build_s + stages.first_token_s  # one pass, its two parts once
        delivery = [stages.buffer_write_s, stages.protocol_s, stages.peripheral_s]
        for n in (1, 2, 7):
            free, done = [0.0] * 3, 0.0
            for i in range(n):
                done = computed + i * stages.decode_s
                for k, length in enumerate(delivery):
                    done = max(done, free[k]) + length
                    free[k] = done
            assert pipelined_request_s(stages, n) == pytest.approx(done)


def test_arrays_of_requests_are_those_of_each():
    each = RNG.uniform(0, 1, (7, 5))
    n = np.array([1, 2, 3, 10, 100])
    for request_s in (serial_request_s, pipelined_request_s):
        together = request_s(RequestStages(*each), n)
        assert together.tolist() == [float(request_s(RequestStages(*each[:, i]), n[i])) for i in range(5)]


def test_makespan_is_that_of_an_event_driven_chain():
    for _ in range(50):
        lengths = RNG.uniform(0.1, 5, int(RNG.integers(1, 6))).tolist()
        for n in (1, 2, 7):
            assert chain_makespan(lengths, n) == pytest.approx(event_driven(lengths, n))


def test_chain_starts_and_utilisation():
    assert chain_starts([3.0]).tolist() == [0.0]
    assert chain_starts([8, 12, 3], (2, 0)).tolist() == [0, 6, 18]
    assert initiation_interval([8, 12, 3]) == 12
    assert stage_utilisation([8, 12, 3]).max() == 1.0


def test_spans_of_a_trace():
    assert span_gap_s([0, 1, 3], [1, 3, 4]) == 0
    assert span_gap_s([0, 2], [1, 3]) == 1
    assert span_gap_s([0, 1], [2, 3]) == -1
    with pytest.raises(ValueError, match="are not spans"):
        span_gap_s([], [])


def test_refusals():
    with pytest.raises(ValueError, match="decode_s = -1"):
        replace(STAGES, decode_s=-1.0)
    with pytest.raises(ValueError, match="n_tokens = 0"):
        serial_request_s(STAGES, 0)
    with pytest.raises(ValueError, match="length = 0"):
        chain_makespan([1.0, 0.0])
