"""``trilemma bench decoder [--against-llama]``: end-to-end decode, interleaved with llama.cpp."""

from __future__ import annotations

from typing import Any

from app.cli.bench.own_process import in_own_process
from app.cli.shared.output import UserError, print_table
from app.cli.shared.progress import ProgressLine

QUICK_CONTEXTS = (256, 2048)


def measure_decoder(against_llama: bool, quick: bool, context: int | None = None) -> dict[str, Any]:
    """Time tokens of the installed model in int4 in a process of its own.

    Parameters
    ----------
    against_llama : bool
        Time llama.cpp (llama-cpp-python) on the same file and threads, in turn with ours, and compare perplexities.
    quick : bool
        Leave the longest context out, whose prompt takes minutes.
    context : int, optional
        Only this one.

    Returns
    -------
    dict
        As `kernels.bench.against_llama.race` says.
    """

    def measure() -> Any:
        from kernels.bench.against_llama import CONTEXTS, race

        with ProgressLine() as line:
            contexts = [context] if context else QUICK_CONTEXTS if quick else CONTEXTS
            return race(contexts, against_llama, progress=line.show)

    if context is not None and context < 2:
        raise UserError(f"context: got {context}, expected at least 2")
    options = [*(["--against-llama"] if against_llama else []), *(["--quick"] if quick else [])]
    options += [] if context is None else ["--context", str(context)]
    found: dict[str, Any] = in_own_process(["bench", "decoder", *options], measure)
    return found


def show_decoder(found: dict[str, Any]) -> None:
    """Print decode times, perplexities and conditions."""
    rows = [("WHO", "CONTEXT", "MS A TOKEN", "5 %", "95 %", "TOKENS/S", "TOKENS TIMED")]
    for row in found["rows"]:
        ms = [f"{1e3 * row['decode_s'][key]:.2f}" for key in ("median", "q05", "q95")]
        speed = f"{1 / row['decode_s']['median']:.1f}"
        rows.append((row["who"], str(row["context_tokens"]), *ms, speed, str(row["decode_s"]["n"])))
    print_table(rows)
    if "perplexity" in found:
        ours, theirs = found["perplexity"]["ours"], found["perplexity"]["llama.cpp"]
        print(f"\nPerplexity {ours:.4f}, llama.cpp {theirs:.4f}, ratio {ours / theirs:.4f}.")
    print("\nConditions: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in found["conditions"].items()) + ".")
