"""Measured runs of a simulated board: they take their predicted time and warm it up.

A run is a generator: it yields the work of each time step and returns the body of the result.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import numpy as np

from app.simulator.board import SimulatedBoard, Work
from app.simulator.heat import STEP_S
from core.spec import Absent, Estimate, Output

REPEAT_SD, OUTLIER_SHARE, OUTLIER_FACTOR = (
    0.01,
    0.02,
    1.3,
)  # [assumed] of single tokens on a board that does nothing else
DECODE_S, DECODE_TOKENS = 2.0, 16  # as long and at least as many as the workload generates
PROMPT_S, MAX_PROMPTS = 1.0, 5
QUALITY_S, BANDWIDTH_S = 2.0, 1.5
N_SCORED = 256  # tokens that an agreement is a share of, as in a look at accuracy of the decoder
N_IDLE = 10
MOST_TIMES = 50  # token times drawn for one step
WHAT = ("ttft", "decode", "quality")


class Step(NamedTuple):
    """Work of the next `STEP_S`."""

    load_frac: float
    done_frac: float
    text: str


Run = Generator[Step, None, dict[str, Any]]


def bandwidth(board: SimulatedBoard, dice: np.random.Generator) -> Run:
    """Read memory in a stream."""
    n = math.ceil(BANDWIDTH_S / STEP_S)
    for i in range(n):
        yield Step(1.0, i / n, "reading memory (simulated)")
    speeds = board.read_byte_s * np.exp(REPEAT_SD * dice.standard_normal(20))
    absent = {"absent": "only reading is simulated"}
    return {
        "read_byte_s": _record(speeds),
        "copy_byte_s": absent,
        "triad_byte_s": absent,
        "conditions": _conditions(board),
    }


def measure(board: SimulatedBoard, request: Mapping[str, Any], dice: np.random.Generator) -> Run:
    """Run a point.

    Raises
    ------
    ValueError
        The point cannot be run on this board, in one sentence.
    """
    unknown = [name for name in request["what"] if name not in WHAT]
    if unknown:
        raise ValueError(f"{unknown[0]} is not simulated: expected some of {', '.join(WHAT)}")
    work = board.work(request["point"])
    body: dict[str, Any] = {"idle_power_w": _idle(board)}
    board.begin(work)
    conditions = _conditions(board)
    wanted = [name for name in WHAT if name in request["what"]]
    for i, name in enumerate(wanted):
        values, found = yield from _part(_RUNS[name](board, work, dice), i / len(wanted), 1 / len(wanted))
        body |= values
        conditions |= found
    notes = [
        f"Simulated: {board.board.name} as drawn from its priors with seed {board.seed}; nothing was measured.",
        *(f"The simulation assumes: {note.replace('[prior] ', '')}." for note in work.speeds.notes if PRIOR in note),
    ]
    return {**body, "conditions": conditions | _ended(board), "notes": notes}


PRIOR = "[prior]"
"""What a note of the model marks what nothing states with."""

Values = tuple[dict[str, Any], dict[str, Any]]


def _part(run: Generator[Step, None, Values], first: float, share: float) -> Generator[Step, None, Values]:
    try:
        while True:
            step = next(run)
            yield step._replace(done_frac=first + share * step.done_frac)
    except StopIteration as end:
        made: Values = end.value
        return made


def _idle(board: SimulatedBoard) -> dict[str, Any]:
    """Return the power reading of the idle board before the run."""
    if board.busy:
        return {"absent": "another run came right before, so the board was not idle"}
    return _mean([board.read()[0] for _ in range(N_IDLE)])


def _mean(powers: list[float]) -> dict[str, Any]:
    """Return the mean of power readings with its error."""
    mean_w, spread_w = float(np.mean(powers)), float(np.std(powers)) / math.sqrt(len(powers)) * 1.645
    record = {"median": mean_w, "q05": mean_w - spread_w, "q95": mean_w + spread_w}
    return {**record, "n": len(powers), "provenance": "simulated"}


def _energy(power: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the energy of a power over a time [s]."""
    return {**power, **{key: power[key] * seconds for key in ("median", "q05", "q95")}}


def _prompt(board: SimulatedBoard, work: Work, dice: np.random.Generator) -> Generator[Step, None, Values]:
    """Process prompts for a second, at least one and at most five."""
    if work.ttft_s(board.level) is None:
        assert isinstance(work.prediction.ttft_s, Absent)
        return {"ttft_s": {"absent": work.prediction.ttft_s.reason}}, {}
    times, powers = list[float](), list[float]()
    while not times or (sum(times) < PROMPT_S and len(times) < MAX_PROMPTS):
        left, spent = 1.0, 0.0  # of the prompt, and seconds on it
        while left > 0:
            whole_s = work.ttft_s(board.level) or 0.0
            used_s = min(STEP_S, left * whole_s)
            yield Step(used_s / STEP_S, 1 - left, "processing a prompt (simulated)")
            powers.append(board.read()[0])
            left -= used_s / whole_s
            spent += used_s
        times.append(float(spent * np.exp(REPEAT_SD * dice.standard_normal())))
    ttft, power = _record(np.array(times)), _mean(powers)
    return {"ttft_s": ttft, "prefill_power_w": power, "prefill_energy_j": _energy(power, ttft["median"])}, {}


def _decode(board: SimulatedBoard, work: Work, dice: np.random.Generator) -> Generator[Step, None, Values]:
    """Generate tokens while the board gets warm; power is the mean of its sensor over them."""
    times, powers, n_tokens, passed_s = list[float](), list[float](), 0.0, 0.0
    while passed_s < DECODE_S or n_tokens < DECODE_TOKENS:
        yield Step(1.0, min(1.0, passed_s / DECODE_S, n_tokens / DECODE_TOKENS), "generating tokens (simulated)")
        token_s = work.decode_s(board.level)
        passed_s += STEP_S
        n_tokens += STEP_S / token_s
        n = min(max(1, round(STEP_S / token_s)), MOST_TIMES)
        spread = np.exp(REPEAT_SD * dice.standard_normal(n))
        slow = np.where(dice.random(n) < OUTLIER_SHARE, OUTLIER_FACTOR, 1.0)
        times += (token_s * spread * slow).tolist()
        powers.append(board.read()[0])
    record, power = _record(np.array(times)), _mean(powers)
    inverse = {"median": 1 / record["median"], "q05": 1 / record["q95"], "q95": 1 / record["q05"]}
    values = {
        "decode_s": record,
        "tokens_per_s": {**record, **inverse},
        "power_w": power,
        "energy_j_per_token": _energy(power, passed_s / n_tokens),
        "memory_byte": _output(work.prediction.memory_byte, dice, 0.0),
    }
    return values, {"power_covers": board.board.power_rail or "the whole board, assumed", "quiet_share": 1.0}


def _quality(board: SimulatedBoard, work: Work, dice: np.random.Generator) -> Generator[Step, None, Values]:
    """Take the time of a look at accuracy; the engine says what it finds."""
    n = math.ceil(QUALITY_S / STEP_S)
    for i in range(n):
        yield Step(1.0, i / n, "comparing with the reference (simulated)")
    absent = {"absent": "a simulated board reads no text"}
    return {
        "top1_agreement": _share(work.prediction.top1_agreement, dice),
        "perplexity_ratio": _output(work.prediction.perplexity_ratio, dice, 0.003, least=1.0),
        "perplexity": absent,
        "mean_kl": absent,
    }, {}


def _share(output: Output, dice: np.random.Generator) -> dict[str, Any]:
    """Return the share of the scored tokens that agree, each as likely as the engine says, as a simulated record."""
    if not isinstance(output, Estimate):
        return {"absent": output.reason}
    share = int(dice.binomial(N_SCORED, float(output.median))) / N_SCORED
    off = 1.645 * math.sqrt(share * (1.0 - share) / N_SCORED)
    low, high = max(share - off, 0.0), min(share + off, 1.0)
    return {"median": share, "q05": low, "q95": high, "n": N_SCORED, "provenance": "simulated"}


_RUNS = {"ttft": _prompt, "decode": _decode, "quality": _quality}


def _conditions(board: SimulatedBoard) -> dict[str, Any]:
    return {"simulated": True, "seed": board.seed}


def _ended(board: SimulatedBoard) -> dict[str, Any]:
    """Return what the board was like at the end of a run, as a real one reports it."""
    clock_hz, temp_c = board.clock_hz, round(board.temp_c, 2)
    throttle = "none" if board.unthrottled else f"throttled to {clock_hz / 1e9:.2f} GHz"
    return {"temp_c": temp_c, "clock_hz": clock_hz, "throttle": throttle}


def _record(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    low, middle, high = (float(v) for v in np.quantile(values, (0.05, 0.5, 0.95)))
    return {"median": middle, "q05": low, "q95": high, "n": len(values), "provenance": "simulated"}


def _output(output: Output, dice: np.random.Generator, log_sd: float, *, least: float = 0.0) -> dict[str, Any]:
    """Return the predicted value with measurement noise, as a simulated record."""
    if not isinstance(output, Estimate):
        return {"absent": output.reason}
    value = float(output.median) * math.exp(log_sd * float(dice.standard_normal()))
    factor = math.exp(1.645 * log_sd)
    low, middle, high = (max(v, least) for v in (value / factor, value, value * factor))
    return {"median": middle, "q05": low, "q95": high, "n": 1, "provenance": "simulated"}
