"""Energy of a run: windows over the power of a fake board, prefill and decode apart, idle beside them."""

import json
import math
import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from app import LAUNCHER
from app.agent import energy as energy_
from app.agent import main as agent_main
from app.agent.channel import Channel
from app.agent.energy import EnergyMeter, Rail, RunEnergy, request_windows
from app.agent.power import rails
from app.agent.sensors import rapl
from app.protocol import CONTROL, Decoder, decode_control, encode_control
from tests.waiting import PATIENCE_S

SECOND = 1_000_000_000


def meter_of(powers, step_ns=SECOND // 10):
    meter = EnergyMeter()
    for i, power in enumerate(powers):
        meter.add(i * step_ns, power)
    return meter


def test_energy_is_the_integral_between_the_ends():
    ramp = meter_of([i * 1.0 for i in range(31)])  # 10 W/s
    assert ramp.energy_j(SECOND, 2 * SECOND, 0) == pytest.approx(15)
    assert meter_of([10.0] * 31).energy_j(int(0.55 * SECOND), int(1.23 * SECOND), 0) == pytest.approx(6.8)


def test_energy_needs_readings_over_both_ends_and_no_break():
    meter = meter_of([10.0] * 11)
    assert meter.energy_j(-1, SECOND // 2, 0) is None
    assert meter.energy_j(0, 2 * SECOND, 0) is None
    assert meter.energy_j(0, SECOND, 0) == pytest.approx(10)
    broken = meter_of([10.0] * 5 + [math.nan] + [10.0] * 10)
    assert broken.energy_j(SECOND // 10, SECOND, 0) is None
    assert broken.energy_j(7 * SECOND // 10, SECOND, 0) == pytest.approx(3)


def test_a_sensor_that_is_gone_is_not_waited_for_and_a_late_one_is():
    gone = meter_of([10.0] * 5 + [math.nan])
    assert gone.energy_j(0, SECOND, PATIENCE_S) is None
    late = meter_of([10.0] * 5)
    threading.Timer(0.1, late.add, (SECOND, 10.0)).start()
    assert late.energy_j(0, SECOND, PATIENCE_S) == pytest.approx(10)


def test_energy_of_a_fast_stream_is_exact_in_bounded_memory():
    meter = EnergyMeter(max_entries=100)
    for i in range(3001):
        meter.add(i * SECOND // 1000, 20.0)
    assert len(meter._entries) == 100
    assert meter.energy_j(2 * SECOND, int(2.5 * SECOND), 0) == pytest.approx(10)


def body(start_s=0.5, first_s=1.0, last_s=2.0, n_tokens=51):
    record = {"median": 0.02, "q05": 0.02, "q95": 0.02, "n": 40, "provenance": "measured"}
    windows = request_windows(start_s, first_s, last_s, n_tokens)
    return {"decode_s": record, "conditions": {"threads": 2, **windows}, "notes": ["a"]}


def energy_of(powers, absent="", period_s=0.001):
    return RunEnergy(meter_of(powers), absent, "the package", lambda: period_s)


def test_prefill_decode_and_idle_are_apart_and_nothing_is_subtracted():
    energy = energy_of([2.0] * 6 + [30.0] * 5 + [10.0] * 20)  # steps of 0.1 s: 30 W from 0.6 to 1.0 s, ramps between
    energy.idled(-2.0, 0.5)  # nothing is known of the time before the first reading
    assert "not idle" in energy.complete(body())["idle_power_w"]["absent"]
    energy = energy_of([2.0] * 21 + [30.0] * 5 + [10.0] * 20)
    energy.idled(0.5, 2.0)
    done = energy.complete(body(2.0, 2.45, 4.0, 156))
    assert done["idle_power_w"]["median"] == pytest.approx(2.0)
    decode_j = 30 * 0.05 + (30 + 10) / 2 * 0.1 + 10 * 1.4
    assert done["power_w"]["median"] == pytest.approx(decode_j / 1.55)
    assert (done["power_w"]["n"], done["power_w"]["provenance"]) == (1, "measured")
    assert done["energy_j_per_token"]["median"] == pytest.approx(decode_j / 155)
    prefill_j = (2 + 30) / 2 * 0.1 + 30 * 0.35
    assert done["prefill_energy_j"]["median"] == pytest.approx(prefill_j)
    assert done["prefill_power_w"]["median"] == pytest.approx(prefill_j / 0.45)
    assert done["conditions"] == {"threads": 2, "power_covers": "the package"}
    assert done["notes"] == ["a", "Power covers the package; idle power is included."]


def test_a_pause_counts_from_the_first_reading_which_a_busy_machine_delays():
    meter = EnergyMeter()
    for i in range(8, 31):
        meter.add(i * SECOND // 10, 4.0)
    energy = RunEnergy(meter, "", "the package", lambda: 0.001)
    energy.idled(0.0, 2.0)
    assert energy.complete(body(2.0, 2.4, 2.9))["idle_power_w"]["median"] == pytest.approx(4.0)


def test_the_two_windows_add_up_to_the_request():
    powers = [5.0 + 3.0 * math.sin(i / 7) for i in range(60)]
    done = energy_of(powers).complete(body(0.33, 1.71, 4.2, 101))
    whole = meter_of(powers).energy_j(int(0.33 * SECOND), int(4.2 * SECOND), 0)
    parts = done["prefill_energy_j"]["median"] + 100 * done["energy_j_per_token"]["median"]
    assert parts == pytest.approx(whole, rel=1e-6)


def test_a_pause_too_short_is_no_idle_power():
    energy = energy_of([10.0] * 31)
    energy.idled(0.0, 0.9)
    assert "not idle for 1 s" in energy.complete(body())["idle_power_w"]["absent"]


def test_a_run_without_a_prompt_has_no_prefill():
    run = body()
    del run["conditions"]["prefill_window_s"]
    assert "prefill_energy_j" not in energy_of([10.0] * 31).complete(run)


@pytest.mark.parametrize(
    ("measured", "reason", "period_s", "says"),
    [
        (body(), "needs root: x", 0.0, "needs root: x"),
        ({"decode_s": {"absent": "not asked"}}, "", 0.0, "decode was not asked for"),
        (body(), "", 1.0, "every 1 s, too slow"),
        (body(5.0, 5.5, 6.0), "", 0.0, "could not be read"),
    ],
)
def test_a_body_without_power_says_why(measured, reason, period_s, says, monkeypatch):
    monkeypatch.setattr(energy_, "_PATIENCE_S", 0.0)
    done = energy_of([10.0] * 31, reason, period_s).complete(measured)
    assert says in done["power_w"]["absent"]
    assert done["power_w"] == done["energy_j_per_token"]
    assert not any("window" in name for name in done["conditions"])


# ---- the whole agent on a fake board


WORKER = """
import os, sys, time
sys.path.insert(0, {root!r})
from app.agent.energy import request_windows
from app.protocol import Decoder, decode_control, encode_control
decoder = Decoder()
os.write(1, encode_control(dict(op="ready", agent="stand-in"), 0))
while data := os.read(0, 65536):
    for frame in decoder.feed(data):
        request = decode_control(frame.body)
        t = [time.monotonic()]
        for length in (0.3, 0.6):
            time.sleep(length)
            t.append(time.monotonic())
        windows = request_windows(*t, 31)
        body = dict(decode_s=dict(absent="stand-in"), conditions=dict(windows, told=t))
        os.write(1, encode_control(dict(op="result", id=request["id"], body=body), 1))
"""


class RampingBoard:
    """A RAPL tree whose power is 20 W at first and grows by 2 W a second; the package has 40 % of it.

    Its counters are read in the moment that the sampler takes for it, however late a busy machine comes to reading.
    """

    def __init__(self, root, monkeypatch):
        self._start_s = time.monotonic()
        shares = {}
        for name, share in (("psys", 1.0), ("package-0", 0.4)):
            folder = root / f"sys/class/powercap/intel-rapl:{len(shares)}"
            folder.mkdir(parents=True)
            (folder / "name").write_text(f"{name}\n")
            (folder / "max_energy_range_uj").write_text(f"{1 << 40}\n")
            (folder / "energy_uj").write_text("0\n")
            shares[str(folder / "energy_uj")] = share
        real = rapl.EnergyCounter.read

        def read(counter, t_ns):
            uj = int(1e6 * shares[counter.channels[0].source] * self.energy_j(t_ns * 1e-9))
            counter.file = SimpleNamespace(read=lambda: b"%d" % uj)
            return real(counter, t_ns)

        monkeypatch.setattr(rapl.EnergyCounter, "read", read)

    def energy_j(self, t_s):
        t = t_s - self._start_s
        return 20 * t + t**2


def test_the_agent_measures_what_the_board_spent(tmp_path, monkeypatch):
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(root=str(LAUNCHER.parent)))
    monkeypatch.setattr(agent_main, "worker_argv", lambda: (sys.executable, str(script)))
    monkeypatch.setattr(agent_main.board, "why_no_measuring", lambda: "")
    board = RampingBoard(tmp_path / "root", monkeypatch)
    (read_fd, ours_out), (ours_in, write_fd) = os.pipe(), os.pipe()
    agent = agent_main.Agent(read_fd, write_fd, tmp_path / "root")
    serving = threading.Thread(target=agent.serve)
    serving.start()
    os.write(ours_out, encode_control({"op": "measure", "id": 1, "point": {}, "what": ["decode"]}, 0))
    try:
        result = next(m for m in messages(ours_in) if m["op"] == "result")["body"]
    finally:
        os.close(ours_out)
        serving.join(PATIENCE_S)
        os.close(ours_in)
    start_s, first_s, last_s = result["conditions"]["told"]
    between = [board.energy_j(b) - board.energy_j(a) for a, b in ((start_s, first_s), (first_s, last_s))]
    # a counter tells the mean since it was last read: that is late by 0.05 s, and by more on a busy machine
    assert result["prefill_energy_j"]["median"] == pytest.approx(between[0], rel=0.08)
    assert result["energy_j_per_token"]["median"] == pytest.approx(between[1] / 30, rel=0.08)
    idle_w = result["idle_power_w"]["median"]
    assert 20 < idle_w < result["prefill_power_w"]["median"] < result["power_w"]["median"]
    assert json.dumps(result)
    rail = result["rails"]["package.power_w"]
    assert rail["covers"].startswith("the processor package")
    assert rail["prefill_energy_j"]["median"] == pytest.approx(0.4 * result["prefill_energy_j"]["median"], rel=0.08)
    assert rail["energy_j_per_token"]["median"] == pytest.approx(0.4 * result["energy_j_per_token"]["median"], rel=0.08)


def messages(fd):
    decoder = Decoder()
    while data := os.read(fd, 65536):
        for frame in decoder.feed(data):
            if frame.kind == CONTROL:
                yield decode_control(frame.body)


# --- parts of the board -----------------------------------------------------------------------------------------------


def test_each_rail_has_the_energy_of_the_same_windows_even_without_a_total():
    slow = Rail("ina3221.vdd_soc.power_w", "rail VDD_SOC", meter_of([3.0] * 31), 5.0)
    quick = Rail("ina3221.vdd_cpu_gpu_cv.power_w", "rail VDD_CPU_GPU_CV", meter_of([8.0] * 31), 0.001)
    energy = RunEnergy(meter_of([]), "parts only", "", lambda: 0.0, lambda: [quick, slow])
    done = energy.complete(body())
    assert done["power_w"] == {"absent": "parts only"}
    rail = done["rails"]["ina3221.vdd_cpu_gpu_cv.power_w"]
    assert rail["covers"] == "rail VDD_CPU_GPU_CV"
    assert rail["power_w"]["median"] == pytest.approx(8.0)
    assert rail["energy_j_per_token"]["median"] == pytest.approx(8.0 * 1.0 / 50)
    assert rail["prefill_energy_j"]["median"] == pytest.approx(8.0 * 0.5)
    assert "every 5 s, too slow" in done["rails"]["ina3221.vdd_soc.power_w"]["energy_j_per_token"]["absent"]
    assert "rails" not in RunEnergy(meter_of([]), "", "x", lambda: 0.0, lambda: [quick]).complete({"conditions": {}})
    assert "rails" not in energy_of([1.0] * 31).complete(body())


def test_rails_are_parts_each_once():
    def power(key, **more):
        return Channel(f"{key}.power_w", "W", "x", f"rail {key}", **more)

    channels = [
        power("ina3221.vdd_in", total="input"),
        power("ina3221.vdd_soc", part_of="ina3221.vdd_in.power_w"),
        power("tegrastats.vdd_soc", part_of="ina3221.vdd_soc.power_w", note="the same rail as ina3221, through a tool"),
        power("nvidia.gpu0", total="disjoint"),
        power("nvidia.gpu0.smoothed", part_of="nvidia.gpu0.power_w"),
        power("nvidia.gpu1.smoothed", total="disjoint"),
        power("battery", total="flow"),
        power("off", absent="not here"),
        Channel("gpu.temp_c", "degC", "x", "the GPU"),
        Channel("bare.power_w", "W", "x"),
    ]
    keys = [channels[i].key for i in rails(channels)]
    assert keys == ["ina3221.vdd_soc.power_w", "nvidia.gpu0.power_w", "nvidia.gpu1.smoothed.power_w"]
