"""The board's values as others take them: OpenMetrics text read by Prometheus' own parser, OTLP by a real receiver."""

import gzip
import http.client
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from app import LAUNCHER, VERSION
from app.agent.serving.metrics import CONTENT_TYPE, QUANTITIES, Family, Meters, exposition, scrape
from app.agent.serving.metrics_server import serve_metrics, split_metrics_address
from app.cli.shared import otlp
from app.cli.shared.output import UserError
from tests.processes import running
from tests.waiting import PATIENCE_S

TREE = {
    "proc/device-tree/model": 'A "board"\\with\nlines',
    "proc/stat": "cpu  100 0 0 900 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 1000000 kB\n",
    "proc/loadavg": "0.10 0.20 0.30 1/200 999\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1500000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "61500\n",
    "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "-256000\n",
    "sys/class/hwmon/hwmon1/name": "ina3221\n",
    "sys/class/hwmon/hwmon1/in1_label": "VDD_IN\n",
    "sys/class/hwmon/hwmon1/in1_input": "5000\n",
    "sys/class/hwmon/hwmon1/curr1_input": "2000\n",
}


@pytest.fixture
def root(tmp_path):
    for name, content in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def parsed(text):
    """Return the families that Prometheus' parser, which is strict, finds."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def by_channel(family):
    return {sample.labels["channel"]: sample.value for sample in family.samples}


def test_a_scrape_is_open_metrics_with_units_and_labels(root):
    families = parsed(scrape(root))
    power = families["trilemma_power_watts"]
    assert (power.type, power.unit) == ("gauge", "watts")
    (sample,) = power.samples
    assert sample.labels["channel"] == "ina3221.vdd_in.power_w"
    assert "curr1_input" in sample.labels["source"]
    assert sample.value == pytest.approx(10.0)
    assert by_channel(families["trilemma_temperature_celsius"]) == {"cpu_thermal.temp_c": 61.5}  # -256 has no sample
    assert by_channel(families["trilemma_clock_hertz"]) == {"cpu0.clock_hz": 1.5e9}
    assert by_channel(families["trilemma_memory_bytes"]) == {"memory.available_byte": 1.024e9}
    total = families["trilemma_board_power_watts"].samples[0]
    assert total.value == pytest.approx(10.0)
    assert total.labels["covers"] == "the whole board (rail VDD_IN)"


def test_labels_survive_quotes_backslashes_and_lines(root):
    families = parsed(scrape(root))
    assert families["trilemma_board"].samples[0].labels["board"] == 'A "board"\\with\nlines'


def test_counters_state_warnings_and_absent_channels(root):
    began_s = time.monotonic()
    families = parsed(scrape(root))
    took_s = time.monotonic() - began_s
    assert families["trilemma_agent_cpu_seconds"].type == "counter"
    energy = families["trilemma_board_energy_joules"]
    assert energy.samples[0].name == "trilemma_board_energy_joules_total"
    assert 3.0 < energy.samples[0].value < 10.0 * took_s  # 10 W over half a second, and what a busy machine adds
    warnings = {sample.labels["entry"]: sample.labels["value"] for sample in families["trilemma_board_warning"].samples}
    assert warnings["governor"].startswith("governor is powersave on policy0")
    assert "only 1.0 GB" in warnings["memory"]
    states = {sample.labels["entry"]: sample.labels["value"] for sample in families["trilemma_board_state"].samples}
    assert states["governor"] == "policy0 powersave"
    assert families["trilemma_board"].samples[0].labels["agent"] == VERSION


def test_an_absent_channel_is_told_with_its_reason(tmp_path):
    families = parsed(scrape(tmp_path))
    reasons = {s.labels["channel"]: s.labels["reason"] for s in families["trilemma_channel_absent"].samples}
    assert reasons["board.power_w"].startswith("no power sensor on this machine")
    assert "trilemma_power_watts" not in families
    assert "trilemma_board_energy_joules" not in families


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1"), (0.5, "0.5"), (-0.392, "-0.392"), (1e20, "1e+20"), (math.inf, "+Inf")]
)
def test_numbers_are_written_as_the_format_has_them(value, shown):
    text = exposition([(Family("a", "gauge", "", "x"), [({"b": "c"}, value)])])
    assert text == f'# TYPE a gauge\n# HELP a x\na{{b="c"}} {shown}\n# EOF\n'
    assert parsed(text)["a"].samples[0].value == value


def test_a_family_without_a_value_is_left_out():
    assert exposition([(Family("a", "gauge", "", "x"), [])]) == "# EOF\n"


def test_each_unit_of_a_channel_has_a_family_whose_name_ends_in_the_unit():
    assert set(QUANTITIES) == {"W", "degC", "Hz", "byte", "frac", "V", "A", "1"}
    assert all(not family.unit or family.name.endswith(f"_{family.unit}") for family in QUANTITIES.values())


# ---- served


def get(port, path="/metrics", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type"), body


def test_it_is_served_on_the_loopback_and_to_no_other_name(root):
    server, meters = serve_metrics("0", root)
    try:
        assert server.server_address[0] == "127.0.0.1"
        status, kind, body = get(server.server_port)
        assert (status, kind) == (200, CONTENT_TYPE)
        assert "trilemma_memory_bytes" in parsed(body)
        assert get(server.server_port, "/")[0] == 404
        assert get(server.server_port, host="evil.example:80")[0] == 403  # a name that was made to point here
        assert get(server.server_port, host="localhost")[0] == 200
        with pytest.raises(OSError, match=r"[Ii]n use"):
            serve_metrics(str(server.server_port), root)
    finally:
        server.shutdown()
        server.server_close()
        meters.close()


def test_energy_adds_up_between_scrapes(root):
    meters = Meters(root)
    meters.settle()

    def energy_j():
        return parsed(meters.text())["trilemma_board_energy_joules"].samples[0].value

    began_s, first = time.monotonic(), energy_j()
    meters.start()
    while energy_j() <= first + 3.0 and time.monotonic() < began_s + PATIENCE_S:
        time.sleep(0.02)
    meters.close()
    added = energy_j() - first
    assert 3.0 < added <= 10.0 * (time.monotonic() - began_s) + 5.0  # and what had passed since the last reading


@pytest.mark.parametrize(
    ("text", "expected"), [("9469", ("127.0.0.1", 9469)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:5", ("::1", 5))]
)
def test_metrics_addresses(text, expected):
    assert split_metrics_address(text) == expected


@pytest.mark.parametrize("text", ["", "x", "80:x", "99999", "-1"])
def test_addresses_that_are_none(text):
    with pytest.raises(ValueError, match="--metrics-port"):
        split_metrics_address(text)


def agent(*words, **more):
    argv = [sys.executable, str(LAUNCHER), "agent", *words]
    return running(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_the_command_prints_one_scrape_and_its_json(root):
    with agent("--metrics", "--root", str(root)) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert parsed(out)["trilemma_power_watts"].samples[0].value == pytest.approx(10.0)
    with agent("--metrics", "--json", "--root", str(root)) as process:
        families = {family["name"]: family for family in json.loads(process.communicate(timeout=PATIENCE_S)[0])}
    assert families["trilemma_power_watts"]["samples"][0]["value"] == pytest.approx(10.0)


def test_a_serving_agent_has_metrics_too(tmp_path):
    settings = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with agent("serve", "--metrics-port", "0", env=settings) as process:
        try:
            lines = [process.stderr.readline(), process.stderr.readline()]
            port = int(lines[1].split("127.0.0.1:")[1].split("/")[0])
            assert "trilemma_share_ratio" in get_when_ready(port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)


def get_when_ready(port):
    deadline_s = time.monotonic() + PATIENCE_S
    while "trilemma_share_ratio" not in (text := get(port)[2]):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return text


def test_a_metrics_port_without_serve_is_refused_in_a_sentence():
    with agent("--metrics-port", "9469", stdin=subprocess.DEVNULL) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "expected trilemma agent serve --metrics-port" in err


# ---- OTLP


class Collector:
    """Receives OTLP over HTTP, as a collector does."""

    def __init__(self):
        self.requests = []
        self.arrived = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                collector.requests.append((self.path, ExportMetricsServiceRequest.FromString(data)))
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                collector.arrived.set()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def metrics(self):
        """Return the metrics of the last request by name."""
        (resource,) = self.requests[-1][1].resource_metrics
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def attributes(point):
    return {pair.key: pair.value.string_value for pair in point.attributes}


def test_a_collector_receives_the_board(root, collector):
    with agent("--otlp", collector.url, "--interval", "0.3", "--root", str(root)) as process:
        try:
            assert collector.arrived.wait(PATIENCE_S)
            collector.arrived.clear()
            assert collector.arrived.wait(PATIENCE_S)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    path, request = collector.requests[-1]
    assert path == "/v1/metrics"
    names = {pair.key: pair.value.string_value for pair in request.resource_metrics[0].resource.attributes}
    assert names["service.name"] == "trilemma-agent"
    assert names["service.version"] == VERSION
    metrics = collector.metrics()
    power = metrics["trilemma.power"]
    assert power.unit == "W"
    (point,) = power.gauge.data_points
    assert point.as_double == pytest.approx(10.0)
    assert attributes(point)["channel"] == "ina3221.vdd_in.power_w"
    assert metrics["trilemma.temperature"].unit == "Cel"
    energy = metrics["trilemma.board.energy"].sum
    assert energy.is_monotonic
    assert energy.data_points[0].as_double > 0
    assert "trilemma.board.warning" in metrics


def test_without_the_extra_one_sentence_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(otlp, "NEEDED", ("no_such_package.sdk",))
    with pytest.raises(UserError, match=r"pip install 'trilemma\[otlp\]'"):
        otlp.send("http://127.0.0.1:1", 1.0, tmp_path)


@pytest.mark.parametrize(("url", "interval_s"), [("collector", 1.0), ("ftp://x", 1.0), ("http://x", 0.0)])
def test_what_is_asked_wrongly_is_refused(url, interval_s):
    with pytest.raises(UserError, match="expected"):
        otlp.send(url, interval_s, Path("/"))
