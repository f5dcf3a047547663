"""Summary of a recording: each channel's mean, range and energy, the gaps, the runs, the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.client.recording import Piece, Recording
from app.library.channel_stats import Tally
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import OUTPUTS_OF, Measurement, recorded_measurement
from core.spec import Catalogue


def tallies(recording: Recording) -> dict[str, Tally]:
    """Return each channel's tally, by key."""
    found: dict[str, Tally] = {}
    last: dict[str, tuple[float, float]] = {}  # where the piece before ended, where nothing is missing between
    for piece in recording.pieces():
        t_s = np.asarray((piece.t_ns - recording.first_ns) * 1e-9, np.float64)
        for i, channel in enumerate(piece.channels):
            y = piece.y[:, i].astype(np.float64)
            before = last.get(channel.key) if piece.joined else None
            tally = found.setdefault(channel.key, Tally())
            tally.add(t_s, y)
            if before is not None:
                tally.bridge(before, (float(t_s[0]), float(y[0])))
            last[channel.key] = (float(t_s[-1]), float(y[-1]))
    return found


def summary(recording: Recording) -> dict[str, Any]:
    """Return the summary of a recording as JSON values."""
    began, ended = (recording.time_utc(t_ns) for t_ns in (recording.first_ns, recording.last_ns))
    unknown = {"absent": "its first frame is damaged"}
    hello = recording.hello
    return {
        "file": recording.path.name,
        "n_byte": recording.n_byte,
        "format": recording.opening.get("format", unknown),
        "board": hello.get("board", {"absent": "the agent's first message is damaged"}),
        "state": hello.get("state", {"absent": "its agent reported no state"}),
        "simulated": bool(hello.get("simulated", False)),
        "began_utc": unknown if began is None else began.isoformat(timespec="milliseconds"),
        "ended_utc": unknown if ended is None else ended.isoformat(timespec="milliseconds"),
        "span_s": (recording.last_ns - recording.first_ns) * 1e-9,
        "n_records": recording.n_records,
        "n_lost": recording.n_lost,
        "n_damaged_places": recording.scan.n_damaged,
        "channels": _channels(recording),
        "gaps": _gaps(recording),
        "clock": _clock(recording),
        "runs": _runs(recording),
        "warnings": recording.warnings,
    }


def measured(
    recording: Recording, catalogue: Catalogue
) -> tuple[list[Measurement], Mapping[str, float] | None, list[str]]:
    """Return the measurements of a recording, under the identity of its board.

    Returns
    -------
    measurements : list of Measurement
        Oldest first.
    bandwidth : dict or None
        ``{median, q05, q95}`` of the last measured read bandwidth [byte/s].
    notes : list of str
        Reasons why runs are no measurements.
    """
    machine, notes = machine_key(recording.hello), list[str]()
    found, bandwidth = list[Measurement](), None
    for note in recording.notes.get("measured", ()):
        body = note.message["body"]
        if "read_byte_s" in body:
            bandwidth = body["read_byte_s"] if "median" in body["read_byte_s"] else bandwidth
            continue
        try:
            found.append(
                recorded_measurement(note.message["request"], body, note.message["time_utc"], machine, catalogue)
            )
        except FileError as error:
            notes.append(str(error))
    return found, bandwidth, notes


def _channels(recording: Recording) -> list[dict[str, Any]]:
    found, records = tallies(recording), []
    for channel in recording.channels:
        record: dict[str, Any] = {"key": channel.key, "unit": channel.unit, "source": channel.source}
        tally = found.get(channel.key)
        if channel.absent or tally is None or not tally.n:
            record["absent"] = channel.absent or "no sample could be read"
        else:
            record |= {"n": tally.n, "mean": tally.mean, "least": tally.least, "most": tally.most}
            if channel.unit == "W":
                record |= {"energy_j": tally.integral, "energy_covers_s": tally.covered_s}
        records.append(record)
    return records


def _gaps(recording: Recording) -> list[dict[str, Any]]:
    """Return the gaps of the samples: start, length, and reason as far as it was recorded."""
    gaps = []
    last: Piece | None = None
    reasons = recording.notes.get("gap", [])
    for piece in recording.pieces():
        if last is not None and not piece.joined:
            begin, end = int(last.t_ns[-1]), int(piece.t_ns[0])
            why = next((str(n.message["reason"]) for n in reasons if begin <= n.t_ns <= end), "records are missing")
            gaps.append({"at_s": (begin - recording.first_ns) * 1e-9, "length_s": (end - begin) * 1e-9, "reason": why})
        last = piece
    return gaps


def _clock(recording: Recording) -> dict[str, Any]:
    read = [note for note in recording.notes.get("clock", ()) if note.message.get("bound_s")]
    if not read:
        return {"absent": "no ping was answered during the recording"}
    jumps = [note for note in read if note.message.get("jump_s") is not None]
    last = read[-1].message
    return {
        "offset_s": last["offset_s"],
        "bound_s": last["bound_s"],
        "widest_bound_s": max(note.message["bound_s"] for note in read),
        "drift_ppm": last["drift"] * 1e6,
        "jumps": [
            {"at_s": (note.t_ns - recording.first_ns) * 1e-9, "jump_s": note.message["jump_s"]} for note in jumps
        ],
    }


def _runs(recording: Recording) -> list[dict[str, Any]]:
    names = [name for outputs in OUTPUTS_OF.values() for name in outputs]
    runs = []
    for note in recording.notes.get("measured", ()):
        request, body = note.message["request"], note.message["body"]
        outputs = {name: body[name] for name in (*names, "read_byte_s") if name in body}
        runs.append(
            {
                "time_utc": note.message["time_utc"],
                "op": request.get("op"),
                "point": request.get("point", {}),
                **outputs,
            }
        )
    return runs
