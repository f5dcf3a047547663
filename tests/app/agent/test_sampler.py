"""The sampling loop over made-up sensors and clocks: what is read when, what is sent, how little it takes."""

import json
import math
import os
import struct
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from app import LAUNCHER
from app.agent.channel import Channel
from app.agent.cpu_budget import MAX_CORE_FRAC, WINDOW_S, SelfLimit
from app.agent.energy import EnergyMeter
from app.agent.outbox import Outbox
from app.agent.sampler import Sampler, fitted
from app.agent.sensor_columns import Columns
from app.agent.sensors.feed import Tool
from app.agent.sensors.reading import Parsed
from app.agent.sensors.tools import ToolSensor
from app.protocol import CONTROL, MAX_BODY_BYTE, SAMPLES, Decoder, decode_control, encode_control, record_struct
from tests.waiting import PATIENCE_S, wait_until

MS = 1_000_000


class Sensor:
    """Gives the number of its reads."""

    def __init__(self, key, interval_ns=0, unit="1", width=1):
        self.channels = tuple(Channel(f"{key}{i or ''}", unit, "made up") for i in range(width))
        self.interval_ns = interval_ns
        self.n = 0
        self.value = None

    def read(self, t_ns):
        self.n += 1
        return [float(self.n) if self.value is None else self.value] * len(self.channels)


class Sent:
    """Stands in for an outbox and keeps everything in order."""

    def __init__(self):
        self.items = []
        self.max_records = None

    def send(self, message):
        self.items.append(message)

    send_layout = send

    def push(self, records, n):
        self.items.append((records, n))

    def set_max_records(self, n):
        self.max_records = n

    def records(self, width):
        size = 8 + 4 * width
        for item in self.items:
            if isinstance(item, tuple):
                body, n = item
                assert len(body) == n * size
                for at in range(0, len(body), size):
                    yield struct.unpack_from(f"<q{width}f", body, at)


def test_a_sensor_is_read_when_it_can_have_a_new_value():
    often, seldom = Sensor("a"), Sensor("b", 10 * MS, width=2)
    columns = Columns([often, seldom])
    for t_ms in range(25):
        columns.read(t_ms * MS)
    assert (often.n, seldom.n) == (25, 3)
    assert columns.row == [25.0, 3.0, 3.0]
    assert columns.due_ns == 24 * MS  # the sensor that is read always can have one at once


def test_periods_are_found_for_the_channels_of_each_sensor():
    slow = Sensor("a")
    columns = Columns([slow])
    for t_ms in range(1000):
        slow.value = float(t_ms // 100)
        columns.read(t_ms * MS)
        columns.count(t_ms * MS)
    columns.set_periods()
    assert columns.channels[0].native_period_s == pytest.approx(0.1)


def run_until(sampler, condition):
    """Run the sampler until something has happened; return how long that took."""
    began_s = time.monotonic()
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    while not condition() and time.monotonic() < began_s + PATIENCE_S:
        time.sleep(0.01)
    sampler.stop()
    thread.join(PATIENCE_S)
    return time.monotonic() - began_s


def test_a_fast_stream_holds_values_between_reads_and_sleeps_through():
    sent, sensor = Sent(), Sensor("a", 10 * MS)
    sampler = Sampler([sensor], [], sent, EnergyMeter())
    sampler.subscribe(1000.0)
    took_s = run_until(sampler, lambda: sum(1 for _ in sent.records(1)) > 600)
    records = list(sent.records(1))
    times = [t_ns for t_ns, _ in records]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert 600 < len(records) <= 1000 * took_s + 1
    assert sensor.n <= 100 * took_s + 1  # read at 100 Hz, recorded at 1000
    values = [value for _, value in records]
    assert values == sorted(values)  # each holds until the next one


def test_a_stall_leaves_a_hole_and_not_invented_records(monkeypatch):
    sent, sensor = Sent(), Sensor("a", 5 * MS)
    sampler = Sampler([sensor], [], sent, EnergyMeter())
    sampler.subscribe(1000.0)
    began_s, stalled = time.monotonic(), threading.Event()
    real_sleep = time.sleep

    def stall(seconds):
        if not stalled.is_set() and time.monotonic() > began_s + 0.6:
            real_sleep(0.4)
            stalled.set()
        real_sleep(seconds)

    monkeypatch.setattr(time, "sleep", stall)
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    assert stalled.wait(PATIENCE_S)
    n_before = len(list(sent.records(1)))
    wait_until(lambda: len(list(sent.records(1))) > n_before + 20)
    sampler.stop()
    thread.join(PATIENCE_S)
    times = [t_ns for t_ns, _ in sent.records(1)]
    assert max(b - a for a, b in pairwise(times)) > 300 * MS


def test_total_power_goes_to_the_meter_as_it_is_read():
    sent, meter = Sent(), EnergyMeter()
    rail = Sensor("board.power_w", 5 * MS, unit="W")
    rail.channels[0].total, rail.value = "input", 12.0
    sampler = Sampler([rail], [], sent, meter)
    assert sampler.power == ("", "board.power_w")
    sampler.subscribe(100.0)
    run_until(sampler, lambda: len(meter._entries) > 1 and meter._entries[-1][0] - meter._entries[0][0] > 400 * MS)
    start_ns = meter._entries[0][0] + 50 * MS
    assert meter.energy_j(start_ns, start_ns + 300 * MS, 0) == pytest.approx(3.6)


def test_a_value_that_no_record_holds_is_nan_not_an_end():
    sent, sensor = Sent(), Sensor("a", width=2)
    sensor.value = 1e300
    run_until(Sampler([sensor], [], sent, EnergyMeter()), lambda: len(list(sent.records(2))) > 2)
    assert all(math.isnan(value) for _, *values in sent.records(2) for value in values)
    assert list(sent.records(2))


def test_channels_that_a_tool_shows_later_change_the_layout_behind_the_records_before(tmp_path):
    path = tmp_path / "tool"
    path.write_text("#!/bin/sh\nsleep 0.5\nwhile :; do echo 7; sleep 0.05; done\n")
    path.chmod(0o755)

    def parse(line):
        parsed = Parsed()
        parsed.add("x.power_w", float(line), "W", line)
        return parsed

    tool = ToolSensor(Tool("tool", [("tool",)], lambda: parse), path)
    read_fd, write_fd = os.pipe()
    outbox = Outbox(write_fd, 10_000)
    arranged = []
    sampler = Sampler([Sensor("a", 5 * MS), tool], [], outbox, EnergyMeter(), lambda: arranged.append(1))
    sampler.publish_catalogue()
    threads = [threading.Thread(target=run, daemon=True) for run in (outbox.run, sampler.run)]
    for thread in threads:
        thread.start()
    widths, seen, decoder = [], 0, Decoder()
    deadline_s = time.monotonic() + PATIENCE_S
    while seen < 5:
        assert time.monotonic() < deadline_s
        for frame in decoder.feed(os.read(read_fd, 65536)):
            if frame.kind == CONTROL:
                channels = decode_control(frame.body)["channels"]
                widths.append(sum(not channel["absent"] for channel in channels))
            else:
                record = record_struct(widths[-1])
                assert len(frame.body) % record.size == 0
                if widths[-1] == 2:
                    seen += 1
                    value = record.unpack_from(frame.body)[2]
    sampler.stop()
    outbox.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    os.close(read_fd)
    os.close(write_fd)
    assert widths[0] == 1
    assert value == 7.0
    assert arranged


@pytest.mark.parametrize(("n", "n_absent"), [(10, 5), (200, 100), (350, 300), (500, 0)])
def test_a_catalogue_of_any_size_fits_one_message_with_all_its_columns(n, n_absent):
    columns = [
        Channel(f"cpu{i}.clock_hz", "Hz", f"/sys/devices/system/cpu/cpufreq/policy{i}/x", "c" * 60) for i in range(n)
    ]
    missing = [
        Channel(f"x{i}.power_w", "W", "/sys/" + "y" * 80, absent="needs root: " + "z" * 200) for i in range(n_absent)
    ]
    message = {"op": "catalogue", "channels": fitted([c.message() for c in columns + missing]), "rate_hz": 1.0}
    shown = decode_control(encode_control(message, 0)[17:-4])["channels"]
    assert [c["key"] for c in shown if not c["absent"]] == [c.key for c in columns]
    if n + n_absent < 20:
        assert shown == [c.message() for c in columns + missing]


def test_records_before_another_layout_go_first_in_frames_that_are_not_too_long():
    read_fd, write_fd = os.pipe()
    outbox = Outbox(write_fd, 10**9)
    piece = bytes(MAX_BODY_BYTE[SAMPLES] // 3)
    for _ in range(4):
        outbox.push(piece, 5)
    outbox.send_layout({"op": "catalogue", "channels": [], "rate_hz": 1})
    outbox.push(b"12345678", 1)
    writer = threading.Thread(target=outbox.run, daemon=True)
    writer.start()
    decoder, frames = Decoder(), []
    while len(frames) < 4:
        frames += decoder.feed(os.read(read_fd, 1 << 20))
    outbox.close()
    writer.join(PATIENCE_S)
    os.close(read_fd)
    os.close(write_fd)
    assert [(frame.kind, frame.seq) for frame in frames] == [(SAMPLES, 0), (SAMPLES, 15), (CONTROL, 0), (SAMPLES, 20)]


# ---- the agent's own share


def watched(limit, core_frac, n=1, start=(0.0, 0.0, 0), apart_s=0.005):
    said, (now_s, cpu_s, turns) = [], start
    for _ in range(n):
        now_s, cpu_s, turns = now_s + WINDOW_S, cpu_s + core_frac * WINDOW_S, turns + round(WINDOW_S / apart_s)
        said.append(limit.see(now_s, cpu_s, turns))
    return said, (now_s, cpu_s, turns)


def test_two_windows_over_the_limit_spread_the_turns_in_proportion():
    limit = SelfLimit()
    limit.see(0.0, 0.0, 0)
    said, at = watched(limit, 2 * MAX_CORE_FRAC)
    assert (said, limit.pause_s) == ([""], 0.0)
    said, at = watched(limit, 2 * MAX_CORE_FRAC, 1, at)
    assert said == ["reading the sensors every 11 ms, not every 5 ms: more would take over 3% of a core of this board"]
    assert limit.pause_s == pytest.approx(0.011)
    _, at = watched(limit, 0.9 * MAX_CORE_FRAC, 3, at, 0.011)
    assert limit.pause_s == pytest.approx(0.011)  # it is enough, and not too much
    watched(limit, 0.1 * MAX_CORE_FRAC, 20, at)
    assert limit.pause_s == 0.0  # and together again


def test_one_stroke_of_bad_luck_changes_nothing():
    limit = SelfLimit()
    limit.see(0.0, 0.0, 0)
    _, at = watched(limit, 5 * MAX_CORE_FRAC)
    _, at = watched(limit, 0.1 * MAX_CORE_FRAC, 1, at)
    watched(limit, 5 * MAX_CORE_FRAC, 1, at)
    assert limit.pause_s == 0.0


def test_the_pause_has_an_end_and_a_new_rate_counts_anew():
    limit = SelfLimit()
    limit.see(0.0, 0.0, 0)
    watched(limit, 0.9, 8, apart_s=0.5)
    assert limit.pause_s == 1.0
    limit.start_anew()
    assert limit.pause_s == 0.0


def test_a_limited_sampler_keeps_its_rate_and_reads_less():
    sent, sensor = Sent(), Sensor("a", 5 * MS)
    sampler = Sampler([sensor], [], sent, EnergyMeter())
    sampler.subscribe(1000.0)
    sampler._limit.pause_s = 0.05
    took_s = run_until(sampler, lambda: sum(1 for _ in sent.records(1)) > 900)
    times = [t_ns for t_ns, _ in sent.records(1)]
    assert len(times) > 900
    assert sensor.n <= 52 + 20 * took_s  # in the quick beginning, and every 50 ms after it
    assert times == sorted(times)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the cost is read from Linux' /proc")
def test_the_agent_takes_little_of_a_core_and_loses_nothing():
    """The bench in short; other tests may run at the same time, so the bounds are three times those of the bench."""
    code = "import json, app.cli.bench.agent as b; print(json.dumps(b.measure_agent(1.5, 1.0)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=LAUNCHER.parent, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    slow, fast = found["this_machine_10_hz"], found["made_up_1_khz_16"]
    assert slow["core_frac"] <= 0.03
    assert fast["core_frac"] <= 0.09
    assert slow["n_lost"] == fast["n_lost"] == 0
    assert fast["n_records"] > 10 * slow["n_records"]
    assert max(slow["growth_byte"], fast["growth_byte"]) <= 5 * 2**20
