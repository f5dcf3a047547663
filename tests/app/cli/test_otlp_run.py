"""A measurement as OpenTelemetry data, as a collector of our own receives it: trace, values and log in one context."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.cli import main
from app.cli.shared import otlp_run
from app.cli.shared.otlp_run import Line, collector_address, endpoint_of, send_run
from app.cli.shared.output import UserError

KINDS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}
BODY = {
    "decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.022, "provenance": "measured"},
    "power_w": {"absent": "no sensor"},
    "request_stages_s": {
        "first_token_s": {"median": 0.5},
        "streaming_s": {"median": 1.0},
        "peripheral_s": {"absent": "not seen"},
    },
}
SPANS = [{"stage": "first token", "start_s": 7.0, "end_s": 7.5}, {"stage": "streaming", "start_s": 7.5, "end_s": 9.0}]
POINT = {"board": "this", "model": "smollm2-135m", "runtime": "builtin", "weights": "int4", "alpha": 0.0}


@pytest.fixture
def collector():
    received = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            request = KINDS[self.path]()
            request.ParseFromString(body)
            received[self.path] = request
            received.setdefault("headers", []).append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def spans_of(received):
    (resource,) = received["/v1/traces"].resource_spans
    return {span.name: span for scope in resource.scope_spans for span in scope.spans}


def attributes(of):
    return {pair.key: pair.value.string_value for pair in of.attributes}


def test_the_trace_has_one_span_a_run_and_its_stages_as_children(collector, monkeypatch):
    url, received = collector
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my bench")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    parent, failed = send_run(url, {**BODY, "spans": SPANS}, POINT, 100.0, 110.0, [Line(101.0, "warning", "hot")])
    assert failed == ""
    spans = spans_of(received)
    assert set(spans) == {"measure", "first token", "streaming"}
    root = spans["measure"]
    assert root.trace_id.hex() == "ab" * 16
    assert root.parent_span_id.hex() == "cd" * 8
    assert parent == f"00-{'ab' * 16}-{root.span_id.hex()}-01"
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (100_000_000_000, 110_000_000_000)
    for name, first, last in (("first token", 108.0, 108.5), ("streaming", 108.5, 110.0)):
        assert spans[name].parent_span_id == root.span_id
        assert spans[name].start_time_unix_nano == pytest.approx(first * 1e9)
        assert spans[name].end_time_unix_nano == pytest.approx(last * 1e9)
    assert attributes(received["/v1/traces"].resource_spans[0].resource)["service.name"] == "my bench"
    assert all(headers["x-key"] == "secret" for headers in received["headers"])
    (log,) = received["/v1/logs"].resource_logs[0].scope_logs[0].log_records
    assert (log.body.string_value, log.severity_text) == ("hot", "warning")
    assert (log.trace_id, log.span_id) == (root.trace_id, root.span_id)


def test_stages_without_their_moments_are_placed_in_sequence_and_absent_ones_left_out(collector):
    url, received = collector
    send_run(url, BODY, POINT, 100.0, 110.0, [])
    spans = spans_of(received)
    assert set(spans) == {"measure", "first_token", "streaming"}
    assert spans["streaming"].end_time_unix_nano == 110_000_000_000
    assert attributes(spans["streaming"])["trilemma.placed"] == "in sequence"
    assert "/v1/logs" not in received


def test_the_measured_latency_is_a_metric_with_its_interval_and_an_absent_value_is_none(collector):
    url, received = collector
    send_run(url, BODY, POINT, 100.0, 110.0, [])
    (resource,) = received["/v1/metrics"].resource_metrics
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    assert set(metrics) == {"trilemma.measured.decode"}
    assert metrics["trilemma.measured.decode"].unit == "s"
    points = {attributes(p)["quantile"]: p.as_double for p in metrics["trilemma.measured.decode"].gauge.data_points}
    assert points == {"median": 0.02, "q05": 0.019, "q95": 0.022}


def test_a_collector_that_is_gone_is_one_note(monkeypatch):
    monkeypatch.setattr(otlp_run, "_TIMEOUT_S", 0.2)
    parent, failed = send_run("http://127.0.0.1:1", BODY, POINT, 1.0, 2.0, [Line(1.0, "info", "x")])
    assert parent.startswith("00-")
    assert failed.startswith("Not sent to http://127.0.0.1:1: traces, metrics, logs")


def test_the_address_is_the_option_or_the_variable(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert collector_address(None) == ""
    with pytest.raises(UserError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        collector_address("")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here:4318")
    assert collector_address(None) == collector_address("") == "http://here:4318"
    assert collector_address("https://there") == "https://there"
    for wrong in ("collector", "ftp://x", "http://", "http://x:99999", "http://[x"):
        with pytest.raises(UserError, match="expected an address"):
            collector_address(wrong)
    assert endpoint_of("http://x:1/", "logs") == "http://x:1/v1/logs"
    assert endpoint_of("http://x/base/v1/metrics", "traces") == "http://x/base/v1/traces"


def test_a_measured_run_is_sent(collector, capsys, monkeypatch, tmp_path):
    url, received = collector
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    assert main(["measure", "--attach", "sim:rk3588,accelerate=100", "--context", "256", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    root = spans_of(received)["measure"]
    assert found["traceparent"].split("-")[1] == root.trace_id.hex()
    names = {m.name for s in received["/v1/metrics"].resource_metrics[0].scope_metrics for m in s.metrics}
    assert "trilemma.measured.decode" in names
    assert received["/v1/logs"].resource_logs[0].scope_logs[0].log_records
