"""Common part of streaming servers: repeats of one request, token times in our clock, and their result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from app.agent.energy import request_windows
from app.agent.runtimes import outcome
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.interrupts import interrupt_record, interrupt_ticks
from app.agent.runtimes.outcome import Failed, Refused, Run, Timeline

N_PREDICT = 48
MIN_TOKENS = 8
ENOUGH_S, MAX_REPEATS = 2.0, 5
BAD_REQUEST = (400, 422)
FEW_PIECES = 0.9  # of a piece a token
MAX_STALL_S, MAX_DISAGREEMENT = 0.25, 0.25


@dataclass
class Answer:
    """One request that a server has answered."""

    timeline: Timeline
    n_prompt: int  # tokens of the prompt, as the server counts
    n_generated: int
    told: Dict[str, Any] = field(default_factory=dict)  # the server's own figures, SI
    prefill_s: float = float("nan")  # as the server says
    notes: List[str] = field(default_factory=list)  # sentences of this request
    interrupts: Tuple[int, int] = (-1, -1)  # ticks of the machine in interrupts before and behind it


def adapted(
    entry: RuntimeEntry, options: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Answer]
) -> Tuple[Answer, Dict[str, Any], List[str]]:
    """Ask with options that a server may refuse.

    Returns
    -------
    answer
        Of the request that the server took.
    options
        Those it took. One that its refusal names is left out first, else the first.
    notes
        Its words for each that it refused.

    Raises
    ------
    Refused
        It refuses the request without them too, or for another reason.
    """
    left = dict(options)
    notes: List[str] = []
    while True:
        try:
            return ask(left), left, notes
        except Refused as refusal:
            named = [name for name in left if name in refusal.words]
            if not left or not (named or refusal.status in BAD_REQUEST):
                raise
            name = (named or list(left))[0]
            del left[name]
            notes.append(f"{entry.where} refused {name} ({refusal.words or refusal.status}): it was left out.")


def n_predict(run: Run) -> int:
    """Return the number of tokens to request."""
    return N_PREDICT if "decode" in run.what else 1


def repeat(entry: RuntimeEntry, run: Run, ask: Callable[[int], Answer]) -> List[Answer]:
    """Ask until `ENOUGH_S` have been measured, `MAX_REPEATS` times at most; `ask` takes the number of the repeat."""
    answers: List[Answer] = []
    spent_s, wrong = 0.0, ""
    for i in range(MAX_REPEATS):
        run.check()
        done = min(0.95, 0.2 + 0.75 * spent_s / ENOUGH_S)
        run.progress(done, f"{entry.kind}: a prompt of {run.context_tokens} tokens, run {i + 1}")
        before = interrupt_ticks()
        answer = ask(i)
        answer.interrupts = before, interrupt_ticks()
        if not answer.timeline.token_s:
            raise Failed(f"{entry.where} generated nothing")
        if "decode" in run.what and answer.n_generated < MIN_TOKENS:
            raise Failed(f"{entry.where} ended after {answer.n_generated} tokens, expected at least {MIN_TOKENS}")
        if "decode" in run.what and len(answer.timeline.token_s) < 2:
            raise Failed(f"{entry.where} sent its {answer.n_generated} tokens in one piece: they have no times")
        spent_s += answer.timeline.end_s - answer.timeline.start_s
        wrong = disturbed(answer)
        if not wrong:
            answers.append(answer)
            if spent_s >= ENOUGH_S:
                break
    if not answers:
        raise Failed(f"{wrong}: the machine is too busy to measure {entry.kind}")
    return answers


def disturbed(answer: Answer) -> str:
    """Return the reason that token times are not the server's own, or "".

    Tokens that queue for a program without processor time arrive at once; their gaps carry no information.
    """
    timeline = answer.timeline
    if timeline.stall_s > MAX_STALL_S:
        return f"the agent did not get to run for {timeline.stall_s:.1f} s while the tokens came"
    told_s = answer.told.get("server_decode_s")
    if told_s is None or answer.n_generated < MIN_TOKENS:
        return ""
    seen_s = (timeline.token_s[-1] - timeline.token_s[0]) / (answer.n_generated - 1)
    if abs(seen_s - told_s) <= MAX_DISAGREEMENT * told_s:
        return ""
    return f"tokens arrived every {seen_s * 1e3:.3g} ms and the server says {told_s * 1e3:.3g} ms"


def token_times_s(answer: Answer) -> List[float]:
    """Return the time of each token after the first, or their mean where pieces of text and tokens do not agree."""
    timeline = answer.timeline
    if timeline.token_count[-1] == answer.n_generated:
        return timeline.gaps_s()
    return [(timeline.token_s[-1] - timeline.token_s[0]) / (answer.n_generated - 1)]


def result(
    entry: RuntimeEntry,
    run: Run,
    answers: Sequence[Answer],
    known: Mapping[str, str],
    conditions: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Dict[str, Any]:
    """Return the result of a measured point; `notes` are those of how it was asked for."""
    last = answers[-1]
    body = outcome.blank(entry, run.what)
    fields, sentences = outcome.applied(entry, run, known)
    notes = [*notes, *last.notes, *sentences]
    if last.n_prompt != run.context_tokens:
        fields["context_tokens"] = float(last.n_prompt)
        notes.append(f"The prompt had {last.n_prompt} tokens: {entry.kind} takes text, whose tokens it counts itself.")
    timeline = last.timeline
    more: Dict[str, Any] = {}
    if "ttft" in run.what:
        body["ttft_s"] = outcome.record([a.timeline.token_s[0] - a.timeline.start_s for a in answers])
        if len(answers) == 1:
            notes.append("Time to first token is from a single run, so its spread is not known.")
    if "decode" in run.what:
        body["decode_s"] = outcome.record([gap for answer in answers for gap in token_times_s(answer)])
        body["tokens_per_s"] = outcome.speed_of(body["decode_s"])
        n_pieces = len(timeline.token_s)
        if n_pieces < FEW_PIECES * last.n_generated:
            notes.append(f"{last.n_generated} tokens came in {n_pieces} pieces: the time of a token is a mean.")
        more = request_windows(timeline.start_s, timeline.token_s[0], timeline.token_s[-1], last.n_generated)
    body["spans"] = timeline.spans(last.prefill_s)
    body["request_stages_s"] = {  # within the spans
        "buffer_write_s": outcome.record([a.timeline.buffer_write_s for a in answers]),
        "peripheral_s": interrupt_record([a.interrupts for a in answers]),
    }
    body["applied"], body["notes"] = fields, notes
    body["conditions"] = {"runtime": entry.kind, **conditions, **last.told, **more, "runs": len(answers)}
    return body
