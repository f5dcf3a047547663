"""Tools that misbehave: what hangs, dies, floods or comes late."""

import math
import time
from pathlib import Path

from app.agent.sensors import feed
from tests.app.agent.board_trees import PROC
from tests.app.agent.sensed import Sensed
from tests.waiting import PATIENCE_S, wait_until


def tegrastats_of(board, text):
    (tool,) = board({**PROC, "usr/bin/tegrastats": text}).tools
    return tool


def reasons(tool):
    tool.refresh()
    return {channel.key: channel.absent for channel in tool.absent}


def test_a_tool_that_hangs_is_given_up(board, monkeypatch):
    monkeypatch.setattr(feed, "HANG_S", 0.2)
    tool = tegrastats_of(board, "#!/bin/sh\nexec sleep 600\n")
    assert "printed nothing for 0.2 s" in reasons(tool)["tegrastats"]
    assert tool.channels == ()


def test_a_tool_that_goes_silent_is_nan_not_its_last_value(board, monkeypatch, tmp_path):
    monkeypatch.setattr(feed, "HANG_S", PATIENCE_S)
    last = "#!/bin/sh\necho GR3D_FREQ 5%\nwhile [ ! -e {go} ]; do sleep 0.05; done\necho GR3D_FREQ 5%\nexec sleep 600\n"
    tool = tegrastats_of(board, last.format(go=tmp_path / "go"))
    assert tool.read(time.monotonic_ns())[0] == 0.05
    assert math.isnan(tool.read(time.monotonic_ns() + 2 * int(PATIENCE_S) * 10**9)[0])
    monkeypatch.setattr(feed, "HANG_S", 0.05)
    (tmp_path / "go").touch()
    wait_until(lambda: "printed nothing" in reasons(tool).get("tegrastats", ""))
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]  # the column stays


def test_half_a_line_is_no_sample(board):
    tool = tegrastats_of(board, "#!/bin/sh\necho GR3D_FREQ 5%\nprintf 'VDD_IN 1200mW/13'\n")
    wait_until(lambda: "ended with status 0" in reasons(tool).get("tegrastats", ""))
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]


def test_a_tool_that_dies_says_so_and_is_started_again(board, monkeypatch, tmp_path):
    monkeypatch.setattr(feed, "RETRY_S", (0.05, 0.05, 0.05))
    tool = tegrastats_of(board, f"#!/bin/sh\necho GR3D_FREQ 5%\necho x >> {tmp_path}/starts\nexit 3\n")
    wait_until(lambda: "ended with status 3" in reasons(tool).get("tegrastats", ""))
    wait_until(lambda: (tmp_path / "starts").read_text().count("x") >= 2)


def test_a_tool_that_cannot_work_says_its_own_words_and_is_left_alone(board, monkeypatch):
    monkeypatch.setattr(feed, "RETRY_S", (0.01, 0.01, 0.01))
    tool = tegrastats_of(board, "#!/bin/sh\necho 'cannot open /dev/nvhost: denied'\nexit 1\n")
    wait_until(lambda: not tool.feed._thread.is_alive())
    assert "(cannot)" in reasons(tool)["tegrastats"] or "cannot" in reasons(tool)["tegrastats.other"]


def test_a_line_without_end_costs_no_memory(board, monkeypatch):
    cut, held = feed.Feed._cut, []
    monkeypatch.setattr(feed.Feed, "_cut", lambda self, buffer: (held.append(len(buffer)), cut(self, buffer)))
    flood = f"yes xxxxxxxx | tr -d '\\n' | head -c {32 * feed.MAX_LINE_BYTE}"
    tool = tegrastats_of(board, f"#!/bin/sh\necho GR3D_FREQ 5%\n{flood}\necho\necho GR3D_FREQ 6%\nexec sleep 600\n")
    wait_until(lambda: tool.read(tool.feed.seen_ns)[0] == 0.06)
    assert max(held) <= 2 * feed.MAX_LINE_BYTE
    assert len(tool.feed.unknown) <= feed.MAX_UNKNOWN


def test_channels_that_come_later_are_added_behind(board, tmp_path):
    later = f"[ -e {tmp_path}/go ] && more='VDD_IN 5000/5000'"
    tool = tegrastats_of(board, f"#!/bin/sh\nwhile :; do {later}; echo GR3D_FREQ 6% $more; sleep 0.05; done\n")
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]
    (tmp_path / "go").touch()
    wait_until(lambda: tool.outdated)
    assert len(tool.read(time.monotonic_ns())) == 1  # not before it is asked to
    tool.refresh()
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac", "tegrastats.vdd_in.power_w"]
    assert not tool.outdated
    assert tool.read(time.monotonic_ns()) == [0.06, 5.0]


def test_tools_end_with_their_sensor(board):
    tool = tegrastats_of(board, "#!/bin/sh\necho GR3D_FREQ 5%\nsleep 600 &\nwait\n")
    process = tool.feed._process
    tool.close()
    wait_until(lambda: process.poll() is not None and group_is_gone(process.pid))


def test_one_tool_serves_all_who_read_it_and_ends_with_the_last(board):
    first = tegrastats_of(board, "#!/bin/sh\nwhile :; do echo GR3D_FREQ 5%; sleep 0.05; done\n")
    with Sensed(board.root) as again:
        (second,) = again.tools
        assert second.feed is first.feed
        assert second.channels[0] is not first.channels[0]  # each client's catalogue is its own
    second.close()  # once more does no harm
    process = first.feed._process
    assert process.poll() is None
    first.close()
    wait_until(lambda: process.poll() is not None)
    with Sensed(board.root) as after:
        assert after.tools[0].feed is not first.feed


def test_a_clock_set_back_an_hour_changes_nothing(board):
    text = "#!/bin/sh\nh=12\nwhile :; do echo 05-17-2026 $h:00:00 GR3D_FREQ 5%; h=11; sleep 0.05; done\n"
    tool = tegrastats_of(board, text)
    seen_ns = tool.feed.seen_ns
    wait_until(lambda: tool.feed.seen_ns > seen_ns)
    assert tool.read(time.monotonic_ns()) == [0.05]
    assert not tool.absent


def group_is_gone(pid):
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == pid and fields[0] not in "ZX":
            return False
    return True


def test_a_tool_is_started_from_a_list_without_a_shell(board, tmp_path):
    seen = tmp_path / "seen"
    tool = tegrastats_of(board, f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {seen}\necho GR3D_FREQ 5%\n")
    assert tool.channels
    assert seen.read_text().split() == ["--interval", "100"]
