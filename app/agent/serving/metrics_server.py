"""The newest values at ``http://127.0.0.1:PORT/metrics``, for a scraper on the board or behind the site's own proxy."""

from __future__ import annotations

import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Tuple, Type

from app.agent.serving.auth_limits import Place, Places
from app.agent.serving.listen import BACKLOG
from app.agent.serving.metrics import CONTENT_TYPE, Meters

LOOPBACK = "127.0.0.1"
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")
_PATIENCE_S = 5.0  # for a whole request and its answer
_BUSY_S = 0.5


class MetricsServer(ThreadingHTTPServer):
    """Answers as many connections at once as an agent has places for unauthenticated ones, each for `_PATIENCE_S`."""

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, address: Tuple[str, int], handler: Type[BaseHTTPRequestHandler]) -> None:
        self.places = Places()
        super().__init__(address, handler)

    def get_request(self) -> Tuple[socket.socket, Any]:
        """Accept a connection; rest where the system can accept no more."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_BUSY_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, where there is a place."""
        place = self.places.enter(request, client_address[0])
        if place is None:
            self.shutdown_request(request)
            return
        try:
            threading.Thread(target=self._attend, args=(request, client_address, place), daemon=True).start()
        except RuntimeError:  # the system has no thread more
            self.places.leave(place)
            self.shutdown_request(request)

    def _attend(self, request: Any, client_address: Any, place: Place) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self.places.leave(place)

    def service_actions(self) -> None:
        """End what has taken too long; called twice a second."""
        self.places.put_out_older(_PATIENCE_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve_metrics(address: str, root: Path = Path("/")) -> Tuple[MetricsServer, Meters]:
    """Serve until the process ends.

    Parameters
    ----------
    address
        ``PORT``, at the loopback, or ``HOST:PORT``. Port 0 takes a free one.
    root
        Where the file system of the board starts.

    Returns
    -------
    server, meters
        `server.server_port` is the port.

    Raises
    ------
    ValueError
        If the address is none.
    OSError
        If it cannot be taken.
    """
    host, port = split_metrics_address(address)
    meters = Meters(root)
    try:
        server = MetricsServer((host, port), _handler(meters, only_own_names=host in _OWN_NAMES))
    except OSError:
        meters.close()
        raise
    meters.start()
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server, meters


def split_metrics_address(text: str) -> Tuple[str, int]:
    """Return host and port of ``PORT`` or ``HOST:PORT``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"--metrics-port {text}: expected PORT or HOST:PORT, the port 0 to 65535")
    return host.strip("[]") or LOOPBACK, int(port)


def _handler(meters: Meters, only_own_names: bool) -> Type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version = "trilemma"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer with one scrape, or with why not."""
            named = (self.headers.get("Host") or "").rpartition(":")
            name = named[0] or named[2]
            if only_own_names and name not in _OWN_NAMES:  # a web page whose name was made to point here
                self._answer(403, "text/plain", f"this address answers to {', '.join(_OWN_NAMES[:2])} only\n")
            elif self.path.partition("?")[0] != "/metrics":
                self._answer(404, "text/plain", "expected /metrics\n")
            else:
                self._answer(200, CONTENT_TYPE, meters.text())
                if isinstance(self.server, MetricsServer):
                    self.server.places.proved(self.client_address[0])

        def _answer(self, status: int, kind: str, text: str) -> None:
            data = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: a scraper comes every few seconds."""

    return Handler
