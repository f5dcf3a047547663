"""A measurement as OpenTelemetry data: one trace with a span a stage, its values as metrics, its lines as logs.

The address, headers and name of the service come from ``--otlp`` or from the standard variables
``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_SERVICE_NAME``; the parent of the trace from
``TRACEPARENT`` (W3C trace context).
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from app import VERSION
from app.cli.shared.output import UserError

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
MISSING = "OTLP needs packages that are not installed: pip install 'trilemma[otlp]'"
_SIGNALS = ("traces", "metrics", "logs")
_NEEDED = "opentelemetry.exporter.otlp.proto.http"
_TIMEOUT_S = 5.0
_NS = 1e9
_UNITS = {"_byte": "By", "_j": "J", "_w": "W", "_byte_s": "By/s", "_per_s": "1/s", "_s": "s", "_j_per_token": "J"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log: seconds since 1970, level and text."""

    time_s: float
    level: str
    text: str


class RunExport:
    """The export of one measured run; without an address it does nothing.

    Parameters
    ----------
    given
        Address of ``--otlp``, "" for that of the environment, None where the option is absent.

    Raises
    ------
    UserError
        It is no address, or the packages are missing.
    """

    def __init__(self, given: str | None) -> None:
        self._url, self._lines, self._start_s = collector_address(given), list[Line](), time.time()
        if self._url:
            _check_installed()

    def begin(self) -> None:
        """Let the run begin now."""
        self._start_s = time.time()

    def say(self, text: str, level: str = "info", time_s: float | None = None) -> None:
        """Add a line to the log, unless it repeats the one before."""
        if text and (not self._lines or text != self._lines[-1].text):
            self._lines.append(Line(time.time() if time_s is None else time_s, level, text))

    def send(self, body: Mapping[str, Any], point: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
        """Send a run that ends now; return its ``traceparent``. `notes` are lines, and get the reason of a failure."""
        if not self._url:
            return {}
        for note in notes:
            self.say(note)
        lines = sorted(self._lines, key=lambda line: line.time_s)
        parent, failed = send_run(self._url, body, point, self._start_s, time.time(), lines)
        notes += [failed] if failed else []
        return {"traceparent": parent}


def collector_address(given: str | None) -> str:
    """Return the address of the collector, given or of the environment; "" where there is none.

    Raises
    ------
    UserError
        It is no address, or the packages are missing.
    """
    url, name = (given, "--otlp") if given else (os.environ.get(ENDPOINT, "").strip(), ENDPOINT)
    if not url:
        if given is not None:
            raise UserError(f"--otlp: got no address, expected one, or the variable {ENDPOINT}")
        return ""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UserError(f"{name} {url}: expected an address such as http://collector:4318")
    return url


def _check_installed() -> None:
    """Raise `UserError` where the packages are missing."""
    try:
        found = importlib.util.find_spec(_NEEDED) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise UserError(MISSING)


def endpoint_of(url: str, signal: str) -> str:
    """Return the address of one signal: that of a collector, or of another signal of it, gets ``/v1/SIGNAL``."""
    base = url.rstrip("/")
    for known in _SIGNALS:
        base = base.removesuffix(f"/v1/{known}")
    return f"{base}/v1/{signal}"


def resource(default_name: str) -> Any:
    """Return who sends: the service name of the environment, or `default_name`."""
    from opentelemetry.sdk.resources import Resource

    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": default_name}
    return Resource.create({**own, "service.version": VERSION})


def send_run(
    url: str, body: Mapping[str, Any], point: Mapping[str, Any], start_s: float, end_s: float, lines: Sequence[Line]
) -> tuple[str, str]:
    """Send a measurement.

    Parameters
    ----------
    url
        Address of the collector.
    body
        The measurement.
    point
        Its operating point, attributes of the trace.
    start_s, end_s
        When it was asked for and when it was there, in seconds since 1970.
    lines
        Lines of the log during it.

    Returns
    -------
    tuple of str
        The trace as a W3C ``traceparent``, and why not everything was sent; "" where it was.
    """
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # its tracebacks; the reason is returned
    context, failures = _send_trace(url, body, point, start_s, end_s)
    failures += _send_metrics(url, body, point)
    failures += _send_logs(url, lines, context)
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    if not failures:
        return parent, ""
    return parent, f"Not sent to {url}: {', '.join(failures)}; is a collector for OTLP over HTTP there?"


def _send_trace(
    url: str, body: Mapping[str, Any], point: Mapping[str, Any], start_s: float, end_s: float
) -> tuple[Any, list[str]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=resource("trilemma"), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("trilemma", VERSION)
    outer = TraceContextTextMapPropagator().extract({"traceparent": os.environ.get("TRACEPARENT", "")})
    attributes = {f"trilemma.{name}": value for name, value in point.items() if isinstance(value, str | int | float)}
    root = tracer.start_span("measure", outer, attributes=attributes, start_time=int(start_s * _NS))
    inside = set_span_in_context(root)
    for name, first_s, last_s, placed in _stages(body, end_s):
        span = tracer.start_span(name, inside, attributes={"trilemma.placed": placed}, start_time=int(first_s * _NS))
        span.end(int(last_s * _NS))
    root.end(int(end_s * _NS))
    exporter = OTLPSpanExporter(endpoint_of(url, "traces"), timeout=_TIMEOUT_S)
    sent = exporter.export(kept.get_finished_spans()) is SpanExportResult.SUCCESS
    exporter.shutdown()
    provider.shutdown()
    return root.get_span_context(), [] if sent else ["traces"]


def _stages(body: Mapping[str, Any], end_s: float) -> list[tuple[str, float, float, str]]:
    """Return the stages of the last request, which ends with the measurement: name, start, end, and how placed."""
    spans = body.get("spans")
    if isinstance(spans, list) and spans:
        shift = end_s - max(span["end_s"] for span in spans)
        return [(span["stage"], span["start_s"] + shift, span["end_s"] + shift, "measured") for span in spans]
    stages = body.get("request_stages_s", {})
    lengths = [
        (name.removesuffix("_s"), float(value["median"]))
        for name, value in (stages.items() if isinstance(stages, Mapping) else ())
        if isinstance(value, Mapping) and "median" in value
    ]
    at, found = end_s - sum(length for _, length in lengths), []
    for name, length in lengths:
        found.append((name, at, at + length, "in sequence"))
        at += length
    return found


def _send_metrics(url: str, body: Mapping[str, Any], point: Mapping[str, Any]) -> list[str]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource("trilemma"), shutdown_on_exit=False)
    meter = provider.get_meter("trilemma", VERSION)
    about = {name: str(point[name]) for name in ("board", "model", "runtime", "weights") if name in point}
    for name, value in body.items():
        if isinstance(value, Mapping) and "median" in value:
            end = max((end for end in _UNITS if name.endswith(end)), key=len, default="")
            gauge = meter.create_gauge(f"trilemma.measured.{name.removesuffix(end)}", _UNITS.get(end, "1"))
            for quantile in ("median", "q05", "q95"):
                labels = {**about, "quantile": quantile, "provenance": str(value.get("provenance", ""))}
                gauge.set(float(value[quantile]), labels)
    data = reader.get_metrics_data()
    exporter = OTLPMetricExporter(endpoint_of(url, "metrics"), timeout=_TIMEOUT_S)
    sent = data is None or exporter.export(data) is MetricExportResult.SUCCESS
    exporter.shutdown()
    provider.shutdown()
    return [] if sent else ["metrics"]


def _send_logs(url: str, lines: Sequence[Line], context: Any) -> list[str]:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import (
        InMemoryLogRecordExporter,
        LogRecordExportResult,
        SimpleLogRecordProcessor,
    )
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    if not lines:
        return []
    severities = {"info": SeverityNumber.INFO, "warning": SeverityNumber.WARN, "error": SeverityNumber.ERROR}
    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource("trilemma"), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = provider.get_logger("trilemma", VERSION)
    for line in lines:
        logger.emit(
            LogRecord(
                timestamp=int(line.time_s * _NS),
                context=set_span_in_context(NonRecordingSpan(context)),
                severity_text=line.level,
                severity_number=severities.get(line.level, SeverityNumber.INFO),
                body=line.text,
            )
        )
    exporter = OTLPLogExporter(endpoint_of(url, "logs"), timeout=_TIMEOUT_S)
    sent = exporter.export(kept.get_finished_logs()) is LogRecordExportResult.SUCCESS
    exporter.shutdown()
    provider.shutdown()
    return [] if sent else ["logs"]
