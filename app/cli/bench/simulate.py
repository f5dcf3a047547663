"""``trilemma bench simulate``: time to simulate an hour of power, heat, throttling and battery at 10 Hz."""

from __future__ import annotations

import statistics
import time
from typing import Any

from core.catalogue.energy import load_cells, load_cooling, load_throttle_rules
from core.physics import battery
from core.predict import cosim
from core.predict.endurance import device_of, given_speeds

HOUR_S, STEP_S = 3600.0, 0.1


def measure_simulate(n_repeats: int = 15) -> dict[str, Any]:
    """Time one simulated hour on one core, once with constant throttling and once with bursts.

    Returns
    -------
    dict
        ``throttled_hour_s`` and ``bursts_hour_s``, each {median, min, max, n} [s].
    """
    pack = battery.pack_of_energy(load_cells()["molicel-p42a"], 56 * 3600.0, 3)
    device = device_of(
        given_speeds(18.0, 20.0, 3.0), load_cooling()["heatsink"], load_throttle_rules()["default"], battery=pack
    )
    loads = {
        "throttled_hour_s": cosim.load_of_phases([HOUR_S], [1.0], HOUR_S, STEP_S),
        "bursts_hour_s": cosim.load_of_phases([3.0, 5.0], [1.0, 0.0], HOUR_S, STEP_S),
    }
    found = {}
    for name, load in loads.items():
        times = []
        for _ in range(n_repeats):
            start = time.perf_counter()
            cosim.simulate(device, load, STEP_S, 40.0)
            times.append(time.perf_counter() - start)
        found[name] = {"median": statistics.median(times), "min": min(times), "max": max(times), "n": n_repeats}
    return found
