"""Carries out measure requests for runtimes: one thread a request, answers as the worker process gives them."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib import import_module
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set

from app.agent.runtimes import llama_bench, llama_server, texts
from app.agent.runtimes.command import Command
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import Exchange
from app.agent.runtimes.outcome import Cancelled, Failed, Run, Silent, now_s

Message = Mapping[str, Any]

START_POLL_S = 0.1
ENDED_S = 2.0  # between a server's last word and its end


def driver(kind: str) -> Callable[[RuntimeEntry, Run], Dict[str, Any]]:
    """Return the `measure` of the module of a kind of runtime, one of `app.agent.runtimes.entry.KINDS`."""
    measure: Callable[[RuntimeEntry, Run], Dict[str, Any]] = import_module(
        f"app.agent.runtimes.{kind.replace('-', '_')}"
    ).measure
    return measure


class Drivers:
    """The runtimes of this board; `send` and `kill` as those of the worker process.

    Parameters
    ----------
    entries
        What the board's owner has configured.
    on_message
        Takes progress and answers.
    n_threads
        What ``{threads}`` stands for in a command.
    """

    def __init__(self, entries: Sequence[RuntimeEntry], on_message: Callable[[Message], None], n_threads: int) -> None:
        self.entries = tuple(
            replace(entry, argv=tuple(word.replace("{threads}", str(n_threads)) for word in entry.argv))
            for entry in entries
        )
        self._on_message = on_message
        self._cancelled: Set[int] = set()
        self._servers: Dict[str, Command] = {}
        self._closed = False
        self._lock = threading.Lock()  # of the two before: runs start servers while the client leaves

    def why_not(self, point: Mapping[str, Any]) -> str:
        """Return in one sentence the reason that a point cannot run here, or ""."""
        runtime, model = point.get("runtime"), point.get("model")
        mine = [entry for entry in self.entries if entry.runtime == runtime]
        if not mine:
            return f"runtime {runtime} is not configured on this board"
        if not any(entry.model == model for entry in mine):
            return f"runtime {runtime} on this board runs {', '.join(entry.model for entry in mine)}, not {model}"
        return ""

    def send(self, message: Message) -> None:
        """Start a request, or cancel one."""
        if message["op"] == "cancel":
            self._cancelled.add(message["id"])
        else:
            threading.Thread(target=self._carry_out, args=(message,), name="runtime", daemon=True).start()

    def kill(self) -> None:
        """End what was started."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
        for server in servers:
            server.kill()

    def _carry_out(self, request: Message) -> None:
        request_id = request["id"]

        def progress(done_frac: float, text: str) -> None:
            self._on_message({"op": "progress", "id": request_id, "done_frac": done_frac, "text": text})

        run = Run(
            request["point"],
            request["what"],
            progress,
            lambda: self._closed or request_id in self._cancelled,
            request.get("options") or {},
        )
        kind, reason = "failed", ""
        body: Optional[Dict[str, Any]] = None
        try:
            body = self._measure(run)
        except Cancelled:
            kind, reason = "cancelled", "cancelled"
        except Failed as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - every request is answered, whatever a runtime sends
            reason = f"the run failed with {type(error).__name__}: {error!s:.200}"
        if body is None:
            self._on_message({"op": "failed", "id": request_id, "kind": kind, "reason": reason})
        else:
            self._on_message({"op": "result", "id": request_id, "body": body})

    def _measure(self, run: Run) -> Dict[str, Any]:
        wanted = (run.point.get("runtime"), run.point.get("model"))
        entry = next(entry for entry in self.entries if (entry.runtime, entry.model) == wanted)
        try:
            if entry.kind == "llama-server":
                self._make_ready(entry, run)
            return texts.measure(entry, run) if "texts" in run.what else driver(entry.kind)(entry, run)
        except Failed:
            server = self._servers.get(entry.url)
            if server is not None and server.wait(ENDED_S):
                server.kill()  # what it may have left, and its guard
                raise Failed(server.why_ended()) from None
            raise

    def _make_ready(self, entry: RuntimeEntry, run: Run) -> None:
        """Start the server if none answers and its command is known, and wait until it has loaded."""
        server = self._servers.get(entry.url)
        if server is not None and server.status is not None:
            server.kill()
            server = None  # another may answer there by now
            with self._lock:
                del self._servers[entry.url]
        if entry.argv and server is None and not _answers(entry, run):
            run.progress(0.0, f"starting {entry.argv[0]}")
            values = {"kv": llama_bench.CACHE_TYPES.get(entry.kv, entry.kv or "f16")}
            server = self._keep(entry.url, Command(entry.command(values), guarded=True))
        end_s = now_s() + entry.timeout_s
        while server is not None and server.status is None and not _answers(entry, run):
            run.check()
            if now_s() > end_s:
                raise Failed(f"{entry.where} does not answer {entry.timeout_s:g} s after its start")
            server.wait(START_POLL_S)
        llama_server.wait_until_ready(entry, run)

    def _keep(self, url: str, server: Command) -> Command:
        """Remember a server that was started, for `kill`; where that has been called already, it ends at once."""
        with self._lock:
            if not self._closed:
                self._servers[url] = server
                return server
        server.kill()
        raise Cancelled


def _answers(entry: RuntimeEntry, run: Run) -> bool:
    try:
        with Exchange(entry, run, "/health"):
            return True
    except Silent:
        raise
    except Failed:
        return False
