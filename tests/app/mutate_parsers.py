"""Damage the outputs of sensor tools at random and parse them: nothing may raise, be invented or take long.

``python tests/app/mutate_parsers.py --n 1000000`` runs the whole figure, by default over all parsers; the tests run a
part of it. What is checked of each result: values are NaN or finite and come from a number that stands in the text,
units are known ones. How long the slowest took, and 64 KiB of the same few characters, is printed.
"""

import argparse
import json
import math
import random
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.agent.sensors import cnmon, devfreq, horizon, npu_smi, nvidia, pi, powermetrics, rknpu, tegrastats  # noqa: E402

SAMPLES = ROOT / "tests" / "data" / "sensors"
UNITS = {"byte", "frac", "Hz", "degC", "W", "V", "A", "1"}
SCALES = (1, 1e-3, 1e-6, 1e3, 1e6, 0.01, 0.001, 1024, 1024**2, 1024**3)
TOKENS = ("off", "-256C", "[N/A]", "%", "@", "/", ",", "-", "NA", "1e9", "0x", "nan", "inf", "9" * 40, "\0", "41,5")
DERIVED = re.compile(r"board\.power_w|.*\.power_w|throttle\..*")  # of the Pi: products, a sum, bits
FLOOD_CHAR = 65536
JUNK = [
    "a b ",
    "x",
    "[1,",
    "0%@1,",
    "a@1C/",
    "RAM 1/",
    " ",
    "VDD_IN 1/2 ",
    "1 | ",
    "\n",
    "| 0 ",
    "A Power: 1 mW\n",
    ": ",
]


def nvidia_parse(text):
    table = nvidia.Table()
    lines = text.split("\n")
    for line in lines[:-1]:
        table.parse(line)
    return table.parse(lines[-1])


PARSERS = {
    "tegrastats": (tegrastats.parse, "lines"),
    "nvidia": (nvidia_parse, "header"),
    "npu_smi": (npu_smi.parse, "whole"),
    "cnmon": (cnmon.parse, "whole"),
    "horizon": (horizon.parse, "whole"),
    "powermetrics": (powermetrics.parse, "whole"),
    "pmic": (pi.parse_pmic, "whole"),
    "throttled": (pi.parse_throttled, "lines"),
    "rknpu": (rknpu.parse, "lines"),
    "devfreq": (devfreq.parse_load, "lines"),
}


def samples(name):
    text = (SAMPLES / f"{name}.txt").read_text()
    how = PARSERS[name][1]
    if how == "whole":
        return [text]
    lines = text.splitlines()
    return lines if how == "lines" else [f"{lines[0]}\n{line}" for line in lines]


def mutate(text, rng, others):
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 1, 2, 5, 30)))
        kind = rng.randrange(8)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x3000)))) + text[end:]
        elif kind == 2:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif kind == 3:
            text = text[:at] + text[at:end] * rng.choice((2, 3, 40)) + text[end:]
        elif kind == 4:
            text = text[:at]
        elif kind == 5:
            other = rng.choice(others)
            text = text[:at] + other[rng.randrange(len(other) + 1) :]
        elif kind == 6:
            text = re.sub(r"\d", lambda m: rng.choice("0123456789,."), text, count=rng.randrange(1, 4))
        else:
            words = text.split(" ")
            rng.shuffle(words)
            text = " ".join(words)
    return text


def why_wrong(name, text, parsed):
    """Return what a result claims that the text does not say; "" when nothing."""
    plain = "".join(text.split())
    for key, (value, unit, raw) in parsed.values.items():
        if unit not in UNITS or not key or not isinstance(value, float):
            return f"{key}: unit {unit}, value {value!r}"
        if math.isinf(value):
            return f"{key}: infinite"
        if "".join(raw.split()) not in plain:
            return f"{key}: {raw!r} is not in the text"
        if math.isnan(value) or (name in ("pmic", "throttled") and DERIVED.fullmatch(key)):
            continue
        if unit == "frac" and name != "cnmon" and name != "powermetrics" and not 0 <= value <= 1:
            return f"{key}: a share of {value}"
        numbers = [float(found) for found in re.findall(r"-?(?:\d+(?:\.\d+)?|\.\d+)", raw)]
        numbers += [abs(x) for x in numbers]
        made = any(math.isclose(x * scale, value, rel_tol=1e-9, abs_tol=1e-300) for x in numbers for scale in SCALES)
        if not made and not (name == "rknpu" and value == 1.0):
            return f"{key}: {value} is not in {raw!r}"
    return ""


def floods(sound):
    """Return texts of `FLOOD_CHAR` characters that repeat a few: what expressions that backtrack are slow at."""
    return [(junk * (1 + FLOOD_CHAR // len(junk)))[:FLOOD_CHAR] for junk in [*JUNK, sound, sound.replace("\n", " ")]]


def flood_s(name):
    """Return the CPU time of the flood that takes longest, the best of 7 times."""
    parse, slowest_s = PARSERS[name][0], 0.0
    for text in floods((SAMPLES / f"{name}.txt").read_text()):
        took_s = []
        for _ in range(7):
            began_s = time.thread_time()
            parse(text)
            took_s.append(time.thread_time() - began_s)
        slowest_s = max(slowest_s, min(took_s))
    return slowest_s


def run(name, n, seed):
    rng = random.Random(f"{name} {seed}")
    parse = PARSERS[name][0]
    sound = samples(name)
    n_fields, slowest_s = 0, 0.0
    for i in range(n):
        text = mutate(rng.choice(sound), rng, sound)
        began_s = time.thread_time()
        try:
            parsed = parse(text)
        except Exception as error:
            raise SystemExit(f"{name}, seed {seed}, {i}: {error!r} for {text!r}") from error
        slowest_s = max(slowest_s, (time.thread_time() - began_s) * min(1.0, 65536 / max(len(text), 1)))
        wrong = why_wrong(name, text, parsed)
        if wrong:
            raise SystemExit(f"{name}, seed {seed}, {i}: {wrong} for {text!r}")
        n_fields += len(parsed.values)
    return {"n": n, "n_fields": n_fields, "slowest_ms": 1e3 * slowest_s, "flood_ms": 1e3 * flood_s(name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="mutations, over all chosen parsers together")
    parser.add_argument("--only", choices=PARSERS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chosen = args.only or list(PARSERS)
    print(json.dumps({name: run(name, args.n // len(chosen), args.seed) for name in chosen}, indent=1))


if __name__ == "__main__":
    main()
