"""Export of the board's values to an OpenTelemetry collector by the official exporter (the extra ``otlp``)."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app import VERSION
from app.agent.serving.metrics import (
    ABSENT,
    BOARD,
    CPU,
    ENERGY,
    PERIOD,
    QUANTITIES,
    STATE,
    TOTAL,
    WARNING,
    Family,
    Meters,
    Sample,
)
from app.agent.signals import when_told_to_end
from app.cli.shared.otlp_run import MISSING, collector_address, endpoint_of, resource
from app.cli.shared.output import UserError

NEEDED = ("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.http.metric_exporter")
_UNITS = {"watts": "W", "celsius": "Cel", "hertz": "Hz", "bytes": "By", "ratio": "1", "volts": "V", "amperes": "A"}
_UNITS |= {"joules": "J", "seconds": "s", "": "1"}  # as UCUM writes them


def send(url: str, interval_s: float, root: Path, ended: threading.Event | None = None) -> int:
    """Send the values periodically until SIGTERM or Ctrl-C, and the last ones at the end.

    Parameters
    ----------
    url
        Address of the collector for metrics over HTTP; ``/v1/metrics`` is added to an address without a path.
    interval_s
        Time between two exports.
    root
        Root of the board's file system.
    ended
        Event that ends the export; by default the signals do.

    Raises
    ------
    UserError
        The packages are missing, or the address is invalid.
    """
    url = collector_address(url)
    if not interval_s > 0:
        raise UserError(f"--interval: got {interval_s:g}, expected more than 0 seconds")
    if not _installed():
        raise UserError(MISSING)
    endpoint = url if urlsplit(url).path.strip("/") else endpoint_of(url, "metrics")
    meters = Meters(root)
    meters.start()
    provider = _provider(endpoint, interval_s, meters)
    if ended is None:
        ended = threading.Event()
        when_told_to_end(ended.set)
    ended.wait()
    provider.shutdown()
    meters.close()
    return 0


def _installed() -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:
        return False


def _provider(endpoint: str, interval_s: float, meters: Meters) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=endpoint), 1e3 * interval_s)
    provider = MeterProvider([reader], resource("trilemma-agent"), shutdown_on_exit=False)
    meter = provider.get_meter("trilemma", VERSION)
    for family in (*QUANTITIES.values(), PERIOD, TOTAL, BOARD, STATE, WARNING, ABSENT):
        meter.create_observable_gauge(_name(family), [_callback(meters, family)], _unit(family), family.help)
    for family in (ENERGY, CPU):
        meter.create_observable_counter(_name(family), [_callback(meters, family)], _unit(family), family.help)
    return provider


def _callback(meters: Meters, family: Family) -> Any:
    from opentelemetry.metrics import Observation

    def observe(_: Any) -> Iterable[Any]:
        samples: Sequence[Sample] = next(found for known, found in meters.families() if known == family)
        return [Observation(value, dict(labels)) for labels, value in samples]

    return observe


def _name(family: Family) -> str:
    """Return the OpenTelemetry name of a metric: with dots, without the unit."""
    return family.name.removesuffix(f"_{family.unit}").replace("_", ".")


def _unit(family: Family) -> str:
    return _UNITS[family.unit]
