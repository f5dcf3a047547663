"""Calls of the command line with arguments that nobody means: drawn by a number, made in this process, judged.

    python -m tests.app.cli.bad_calls 10000        draws so many, prints what is wrong with any, and the counts

A call ends with 0, 1 or 2; says what is wrong in one sentence (behind the usage, where the parser says it); prints JSON
that every reader takes where it was asked for; no hidden character reaches a stream; nothing takes `LONGEST_S`.
"""

import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from app.cli import COMMANDS, GROUPS, _parsers, main
from core.catalogue.text_files import HIDDEN

LONGEST_S = 20.0
NAMES = [(name,) for name in (*COMMANDS, "bench")] + [(group, name) for group in GROUPS for name in GROUPS[group][1]]
NUMBERS = [
    *(
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e308",
        "-1e308",
        "5e-324",
        "-5e-324",
        "1e999",
        "-0",
        "0",
        "-1",
        "1e-300",
        "1e300",
    ),
    *("", " ", "9" * 400, "9" * 5000, "-" + "9" * 400, "0." + "0" * 400 + "1", "٣", "½", "१२", "1_000", "0x10", "1,5"),
    *(
        "1e308GB/s",
        "1e308 GB/s",
        "5e-324W",
        "1e308h",
        "1e400 s",
        "nan W",
        "inf GB/s",
        "0 GB/s",
        "-0 W",
        "1 parsec",
        "1e9",
    ),
    *("3.7", "1024", "0.5", "15 W", "51.2 GB/s", "2", "10", "30 %", "1e18", "4294967296", "18446744073709551616"),
]
TEXTS = [
    *("\x1b[2J", "\x9b31m", "\u202egnp.exe", "a\nb", "a\rb", "a\tb", "\udcff", "\ud800", "a\0b", "\u2028", "\ufeff"),
    *(
        "x" * 5000,
        "--",
        "-",
        "%s",
        "%(prog)s",
        "{}",
        "{0}",
        "null",
        "true",
        "[1]",
        "'",
        '"',
        "\\",
        "`id`",
        "$(id)",
        "*",
    ),
    *("alpha=0:1:1e-300", "alpha=0:1e308:1", "alpha=nan", "alpha=", "=", "alpha=0:0.9:0", "board=../x", "beta=1,2"),
    *(
        "weights=int4,int8",
        "context=1:1e9:1",
        "decode,ttft",
        "latency,power",
        "a,,b",
        ",",
        "sim:toaster",
        "user@",
        "tls:",
    ),
    *(
        "this",
        "rk3588",
        "raspberry_pi_5",
        "int4",
        "q4_k_m",
        "bf16",
        "llamacpp_cpu",
        "qwen2.5-1.5b",
        "15w",
        "max",
        "measured",
    ),
    *("offset", "drift", "industrial", "v2x", "decode_time", "li_ion_21700", "a1", "1", "this machine", "sinks_recent"),
]
FILES = {
    "empty": "",
    "text.txt": "some words\n",
    "escape.csv": "board_key,compute,runtime,model,quant,decode_ms_per_tok\n\x1b[31mx,cpu,r\x9bt,m\u202e,Q4_0,10\n",
    "table.csv": "board_key,compute,runtime,model,quant,decode_ms_per_tok\nrk3588,npu,rkllm,qwen2-1.5b,w8a8,60\n",
    "many.csv": "board_key,compute,runtime,model,quant,decode_ms_per_tok\nb,cpu,r,m,Q4_0,10,11\nb,cpu,r,m,Q4_0,nan\n",
    "power.csv": "time_s,power_w,temp_c\n0,1,20\n1,inf,21\n2,1e308,-0\n",
    "front.csv": "accuracy_frac,latency_s,energy_j\n0.9,5e-324,1e308\n",
    "nan.json": '[{"n_prompt":NaN,"n_gen":128,"samples_ns":[1e9]}]',
    "deep.json": "[" * 100_000,
    "surrogate.json": '[{"model_type":"\\ud800","n_gen":9,"n_prompt":0,"samples_ns":[1e9],"cpu_info":"\\udfff\\0"}]',
    "wrong.toml": 'name = "\\u001b[2J"\nvalue = nan\n',
    "tasks.toml": '[[task]]\nname = "a"\ncost_s = 5e-324\nperiod_s = inf\n',
    "ints.toml": "n_workers = " + "9" * 400 + "\n",
    "model.gguf": "GGUF\x03",
    "night.trilemma": "no recording",
}
HARMLESS = {  # of commands that would open a window, serve, measure or ask a board: words with which they cannot
    ("gui",): ["--seconds", "-1"],
    ("attach",): ["--board-as", "toaster"],
    ("agent",): ["--bind", "1"],
    ("simulate-board",): ["--board", "toaster"],
    ("pair",): ["--no-such-option"],
    ("record",): ["--seconds", "-1"],
    ("bench",): ["--no-such-option"],
    **{
        (name,): ["--attach", "none.trilemma"]
        for name in ("measure", "calibrate", "compensate", "quality", "parameters", "doctor")
    },
}
"""What makes sure that a call of a command is a bad one."""


class TooLongError(BaseException):
    """A call has taken `LONGEST_S`."""


def calls(n, seed):
    """Yield the words of `n` calls; all commands come in turn."""
    rng = random.Random(seed)
    actions = {name: [a for a in _parsers(name)[1]._actions if a.dest not in ("help", "worker")] for name in NAMES}
    for i in range(n):
        name = NAMES[i % len(NAMES)]
        yield [*name, *_arguments(rng, actions[name]), *HARMLESS.get(name, [])]


def _arguments(rng, actions):
    options = [action for action in actions if action.option_strings]
    words = []
    for action in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 1, 2]))):
        flag = rng.choice(action.option_strings)
        if action.nargs == 0:
            words.append(flag)
        elif rng.random() < 0.3:
            words.append(f"{flag}={_value(rng, action)}")
        else:
            words += [flag, _value(rng, action)]
    for action in actions:
        if not action.option_strings:
            n_values = rng.choice([0, 1, 1, 1, 2]) if action.nargs in ("*", "+", "?") else rng.choice([0, 1, 1, 1, 1])
            words += [_value(rng, action) for _ in range(n_values)]
    if rng.random() < 0.5 and "--json" not in words:
        words.append("--json")
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words) + 1), rng.choice(TEXTS))
    if rng.random() < 0.1:
        rng.shuffle(words)
    return words


def _value(rng, action):
    if action.choices and rng.random() < 0.5:
        return str(rng.choice(list(action.choices)))
    kinds = [NUMBERS, TEXTS, [*FILES, "folder", "none/x", "/dev/zero", "/dev/null", "/dev/full", "none.toml"]]
    weights = (1, 2, 4) if "FILE" in str(action.metavar) or "CSV" in str(action.metavar) else (3, 3, 1)
    return rng.choice(rng.choices(kinds, weights)[0])


def made(words):
    """Return the exit status, the standard output and the standard error of a call in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as ended:
            status = ended.code or 0
    return status, out.getvalue(), err.getvalue()


def wrong_with(words):
    """Return what is wrong with the way that a call ends, and its exit status; "" where nothing is."""

    def too_long(*_):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        status, out, err = made(words)
    except TooLongError:
        return f"took {LONGEST_S:g} s", None
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc(limit=-4), None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return _wrong(status, out, err, as_json="--json" in words), status


def _wrong(status, out, err, *, as_json):
    said = [line for line in err.splitlines() if not line.startswith(("usage: ", " "))]
    if status not in (0, 1, 2):
        return f"exit status {status}"
    if "Traceback" in err:
        return "a traceback"
    if status and not out and len(said) != 1:
        return f"{len(said)} sentences: {said}"
    if hidden := HIDDEN.search(out + err) or ("\r" in out + err and "a carriage return"):
        return f"hidden characters: {hidden}"
    if as_json and status == 0 and out and not out.startswith(("usage", "# ")):
        try:
            json.loads(out, parse_constant=_refuse)
        except ValueError as error:
            return f"no JSON: {error}: {out[:200]}"
    return ""


def _refuse(token):
    raise ValueError(f"{token} is none of JSON's numbers")


@contextlib.contextmanager
def folder_of_files():
    """Change into a folder with `FILES`, which is the data folder too."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        Path("folder").mkdir()
        before = os.environ.get("TRILEMMA_DATA_DIR")
        os.environ["TRILEMMA_DATA_DIR"] = str(Path(folder) / "data")
        try:
            yield
        finally:
            del os.environ["TRILEMMA_DATA_DIR"]
            os.environ.update({} if before is None else {"TRILEMMA_DATA_DIR": before})


def report(n, seed=0):
    """Make the calls and return what is wrong, with the words, and the numbers by command and exit status."""
    found, counts = [], Counter()
    with folder_of_files():
        for words in calls(n, seed):
            what, status = wrong_with(words)
            counts[words[0] if words[0] not in GROUPS else " ".join(words[:2]), status] += 1
            if what:
                found.append((words, what))
    return found, counts


if __name__ == "__main__":
    began_s = time.monotonic()
    wrong, numbers = report(int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]))
    for words, what in wrong:
        print([word if len(word) < 100 else f"{word[:20]}...({len(word)})" for word in words], what, sep="\n  ")
    for (name, status), n in sorted(numbers.items(), key=str):
        print(f"{name:24} {status}: {n}")
    print(f"{len(wrong)} wrong of {sum(numbers.values())} in {time.monotonic() - began_s:.0f} s")
