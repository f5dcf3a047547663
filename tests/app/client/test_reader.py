"""What a session reads: hellos, catalogues, samples and answers of any agent."""

import math
import time
import zlib

import pytest

from app.client.events import Catalogue, Connected, Disconnected, Failed, Log, Result, Samples
from app.protocol import (
    MINOR,
    SAMPLES,
    VERSION,
    encode_frame,
)
from tests.app.client.attached import attached
from tests.app.client.scripted import BANDWIDTH, CATALOGUE, ScriptedTransport, hello, samples


def test_lost_records_are_counted_and_drawn_as_a_gap():
    t_s = time.monotonic()
    script = ScriptedTransport(hello(t_ns=0), CATALOGUE, samples(0, 3), samples(7, 2), samples(9, 1))
    with attached(lambda: script) as board:
        got = [board.wait(Samples) for _ in range(3)]
        assert [(event.n_new, event.n_lost) for event in got] == [(3, 0), (2, 4), (1, 4)]
        times, y = board.session.rings.window(0, 0, math.inf)
        assert [None if math.isnan(v) else v for v in y] == [0, 1, 2, None, 7, 8, 9]
        assert times[0] == pytest.approx(t_s, abs=5)  # the agent's zero in our clock
        assert board.session.rings.window(1, 0, math.inf)[1][1] == -1


def test_a_newer_agent_is_understood_and_a_wrong_message_is_a_line_in_the_log():
    script = ScriptedTransport(
        hello(protocol=2, colour="blue"),
        encode_frame(1, 0, b'{"op":"dance"}'),
        encode_frame(1, 0, b"not json"),
        {"op": "catalogue", "channels": [{"key": "a"}], "rate_hz": 10},
        encode_frame(SAMPLES, 0, b"12345"),
        {"op": "log", "level": "error", "text": "hot"},
        CATALOGUE,
    )
    with attached(lambda: script) as board:
        assert board.wait(Connected).hello["colour"] == "blue"
        texts = [board.wait(Log).text for _ in range(5)]
        assert [text.split(":")[0] for text in texts[:3]] == ["message from the agent ignored"] * 3
        assert texts[3] == "unknown board: left out of what the board sends: 1 samples that do not fit its catalogue"
        assert texts[4] == "hot"
        assert [c.key for c in board.wait(Catalogue).channels] == ["a", "b", "c"]


def test_a_hello_of_another_shape_is_shown_as_far_as_it_can_be():
    script = ScriptedTransport(
        hello(board={"name": 5, "os": "\x1b]0;mine\x07"}, state=[1]),
        {"op": "log", "level": "loud", "text": "\x1b[31mred"},
    )
    with attached(lambda: script) as board:
        connected = board.wait(Connected).hello
        assert connected["board"] == {"name": "unknown board", "os": "]0;mine"}
        assert connected["state"] == {}
        assert board.wait(Log) == Log(
            "warning",
            "left out of what the board says of itself, since it is not as expected: board.name, state",
        )
        assert board.wait(Log) == Log("info", "[31mred")


def test_an_agent_whose_first_word_is_no_hello_is_given_up_at_once():
    with attached(
        lambda: ScriptedTransport(encode_frame(1, 0, b'{"op":"hello","t_ns":1' + b"0" * 400 + b"}"))
    ) as board:
        assert board.wait(Disconnected).reason.startswith(
            "what the agent says first is no hello: a control message holds"
        )


def test_another_minor_version_is_said_and_another_major_one_ends_the_link():
    with attached(lambda: ScriptedTransport(hello(minor=99))) as board:
        board.wait(Connected)
        assert board.wait(Log).text.startswith(
            f"The board's agent speaks protocol 1.99, this program {VERSION}.{MINOR}: "
        )
    head = b"\xfeTL" + bytes([VERSION + 1, 1]) + (2).to_bytes(4, "little") + bytes(8) + b"{}"
    frame = head + zlib.crc32(head).to_bytes(4, "little")
    with attached(lambda: ScriptedTransport(frame)) as board:
        assert (
            f"speaks version {VERSION + 1} of the protocol, this one speaks {VERSION}"
            in board.wait(Disconnected).reason
        )


def test_answers_to_unknown_or_finished_requests_are_dropped():
    script = ScriptedTransport(hello())
    with attached(lambda: script) as board:
        board.wait(Connected)
        request_id = board.session.bandwidth()
        for _ in range(2):
            script.put({"op": "result", "id": request_id, "body": BANDWIDTH})
        script.put({"op": "result", "id": 999, "body": BANDWIDTH})
        script.put({"op": "log", "level": "info", "text": "end"})
        assert board.wait((Result, Log)) == Result(request_id, BANDWIDTH)
        assert board.wait((Result, Log)) == Log("info", "end")


def test_spans_of_a_run_lie_in_the_clock_of_the_samples():
    script = ScriptedTransport(hello(t_ns=time.monotonic_ns() + 5_000_000_000))
    with attached(lambda: script) as board:
        board.wait(Connected)
        first, second = board.session.bandwidth(), board.session.bandwidth()
        script.put(
            {
                "op": "result",
                "id": first,
                "body": {**BANDWIDTH, "spans": [{"stage": "x", "start_s": 105.0, "end_s": 106.5}]},
            }
        )
        script.put({"op": "result", "id": second, "body": {**BANDWIDTH, "spans": [{"stage": "x"}]}})
        (span,) = board.wait(Result).body["spans"]
        assert span == {"stage": "x", "start_s": pytest.approx(100, abs=0.5), "end_s": pytest.approx(101.5, abs=0.5)}
        assert span["end_s"] - span["start_s"] == pytest.approx(1.5)
        assert "spans[0]: object missing required field start_s" in board.wait(Failed).reason
