"""``trilemma bench start``: cost of the first painted window, in fresh processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from app import LAUNCHER
from app.cli.shared.output import UserError

START_S = 300.0
CHILD = """
import json, sys
sys.path.insert(0, {folder!r})
import trilemma
from app.gui import first_paint
print(json.dumps(first_paint()))
"""


def measure_start(n_repeats: int = 5) -> dict[str, Any]:
    """Start the dashboard `n_repeats` times, offscreen and with its own settings, and report the first paints.

    An uncounted start comes first: it compiles modules and fills the disk cache, so the others are repeated starts.

    Returns
    -------
    dict
        ``first_paint_cpu_s`` and ``first_paint_wall_s``: until the window is painted with its controls, headline and
        numbers; ``curves_paint_cpu_s`` and ``curves_paint_wall_s``: until the curves are painted too; each as {median,
        min, max, n}. ``heavy_imports``: modules that are imported by then and must not be, a list.
    """
    with tempfile.TemporaryDirectory(prefix="trilemma-") as folder:
        runs = [_start(folder) for _ in range(n_repeats + 1)][1:]
    return {
        "first_paint_cpu_s": _spread([run["cpu_s"] for run in runs]),
        "first_paint_wall_s": _spread([run["wall_s"] for run in runs]),
        "curves_paint_cpu_s": _spread([run["curves_cpu_s"] for run in runs]),
        "curves_paint_wall_s": _spread([run["curves_wall_s"] for run in runs]),
        "heavy_imports": sorted({name for run in runs for name in run["heavy_imports"]}),
    }


def _start(folder: str) -> dict[str, Any]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "TRILEMMA_DATA_DIR": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    words = [sys.executable, "-c", CHILD.format(folder=str(LAUNCHER.parent))]
    began_s = time.monotonic()
    try:
        child = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=START_S, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"the dashboard was not painted within {START_S:g} s") from None
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or ["no error message"])[-1]
        raise UserError(f"the dashboard did not start: {last}")
    cost: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return {**cost, "wall_s": cost["at_s"] - began_s, "curves_wall_s": cost["curves_at_s"] - began_s}


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}
