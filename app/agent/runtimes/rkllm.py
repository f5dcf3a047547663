"""Rockchip's RKLLM demo: one prompt in, the table of its stages out."""

from __future__ import annotations

import re
from typing import Any, Dict, Pattern

from app.agent.runtimes import outcome
from app.agent.runtimes import prompt as prompts
from app.agent.runtimes.command import run_to_end
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.outcome import Failed, Run
from app.agent.runtimes.streams import MIN_TOKENS, N_PREDICT
from app.agent.runtimes.values import MOST

NO_WINDOW = "RKLLM's demo loads the model inside its own run, so a window of its power would not be that of the tokens"
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_ROW = re.compile(
    rf"\b(Prefill|Generate)[ \t|/]+{_NUMBER}[ \t|/]+([0-9]+)\b(?:[ \t|/]+{_NUMBER})?(?:[ \t|/]+{_NUMBER})?"
)
_VERSION = re.compile(r"rkllm-runtime version: *([^\s,]{1,40})")
_WEIGHTS = re.compile(r"model_dtype: *([^\s,]{1,40})")
_MEMORY = re.compile(rf"Memory Usage \((GB|MB)\)\s+(?:I rkllm:\s*[-\s]*)?{_NUMBER}")


def parse(text: str) -> Dict[str, float]:
    """Return ``prefill_s``, ``n_prompt``, ``generate_s``, ``n_generated``, ``memory_byte``, as far as they are there.

    With several tables the last one counts.
    """
    found: Dict[str, float] = {}
    for stage, total_ms, n_tokens, _, _ in _ROW.findall(text):
        names = ("prefill_s", "n_prompt") if stage == "Prefill" else ("generate_s", "n_generated")
        found.update({names[0]: float(total_ms) * 1e-3, names[1]: float(n_tokens)})
    memory = _MEMORY.findall(text)
    if memory:
        found["memory_byte"] = float(memory[-1][1]) * (1e9 if memory[-1][0] == "GB" else 1e6)
    return found


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point with the demo: the prompt is typed into it, then "exit"."""
    n_char = int(run.context_tokens * prompts.TOKENS_A_WORD * 3.5)
    text = prompts.text(n_char)[:n_char].replace("\n", " ")
    values = {"context": run.context_tokens + N_PREDICT + 64, "n_predict": N_PREDICT}
    run.progress(0.1, f"{entry.argv[0]}: a prompt of about {run.context_tokens} tokens")
    command = run_to_end(entry.command(values), run, entry.timeout_s, {"RKLLM_LOG_LEVEL": "1"}, f"{text}\nexit\n")
    printed = command.output.decode("utf-8", "replace") + "\n" + "\n".join(command.words())
    table = parse(printed)
    if "prefill_s" not in table or "generate_s" not in table:
        ended = "" if command.status == 0 else f" ({command.why_ended()})"
        raise Failed(f"{command.name} printed no table of Prefill and Generate{ended}: it needs RKLLM 1.1 or newer")
    if not all(value < MOST for value in table.values()):
        raise Failed(f"{command.name} printed a number too large to be measured")
    n_generated = int(table["n_generated"])
    if "decode" in run.what and n_generated < MIN_TOKENS:
        raise Failed(f"{command.name} ended after {n_generated} tokens, expected at least {MIN_TOKENS}")
    return _body(entry, run, table, _last(_VERSION, printed), _last(_WEIGHTS, printed))


def _last(pattern: Pattern[str], printed: str) -> str:
    return str((pattern.findall(printed) or [""])[-1])


def _body(entry: RuntimeEntry, run: Run, table: Dict[str, float], version: str, weights: str) -> Dict[str, Any]:
    body = outcome.blank(entry, run.what)
    fields, notes = outcome.applied(entry, run, {"weights": weights})
    fields["context_tokens"] = table["n_prompt"]
    if "ttft" in run.what:
        body["ttft_s"] = outcome.record([table["prefill_s"]])
        notes.append("Time to first token is RKLLM's prefill of a single run, so its spread is not known.")
    if "decode" in run.what:
        body["decode_s"] = outcome.record([table["generate_s"] / table["n_generated"]])
        body["tokens_per_s"] = outcome.speed_of(body["decode_s"])
        notes.append("The time of a token is the mean over a run; RKLLM does not tell each one.")
    if "memory_byte" in table:
        body["memory_byte"] = outcome.record([table["memory_byte"]])
    body["applied"], body["notes"] = fields, notes
    body["conditions"] = {"runtime": "rkllm", "version": version, "no_window": NO_WINDOW}
    return body
