"""Accuracy of an operating point: language modelling over windows of a text, and retrieval of needles in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.accuracy.metrics import Scored, Window, pooled, share_record
from kernels.accuracy.retrieval import N_NEEDLES, QUESTION_TOKENS, Answered, Haystack, ask, haystack
from kernels.attention.statistics import attention_statistics
from kernels.cache.byte_lru import Memo
from kernels.cache.contiguous import KvCache
from kernels.cache.prepared import Prompts, Step
from kernels.decoder.transformer import Decoder, Prefilled
from kernels.eviction import prune
from kernels.eviction.reselect import ReselectingCache
from kernels.point import Point

N_SCORED = 256
"""Tokens behind the context that accuracy is measured on, in each window."""
MAX_WINDOWS = 32
KEEP_SHARES = tuple(share / 20 for share in range(1, 21))
"""Shares of the tokens kept at which the attention mass that they hold is told."""
_REFERENCE_BYTE = 1 << 30
_SCORED_CHUNK = 128

Values = tuple[dict[str, Any], dict[str, Any], list[str]]
"""Records by quantity, conditions, notes."""


class AccuracyEvaluator:
    """Measures accuracy relative to the file in fp32 without pruning.

    Parameters
    ----------
    prompts : Prompts
    """

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._references: Memo[tuple[int, int], Scored] = Memo(_REFERENCE_BYTE, lambda scored: scored.log_probs.nbytes)
        self._haystacks: dict[tuple[int, int], Haystack] = {}
        self._attention: dict[tuple[int, int], dict[str, Tensor]] = {}

    def quality(self, point: Point, n_windows: int, step: Step) -> Values:
        """Measure perplexity, its ratio, divergence and top-1 agreement over windows spread evenly over the text."""
        n_context = self._n_context(point)
        starts, windows = self._starts(n_context, n_windows), self.windows([point], n_windows, step)[0]
        note = (
            f"Accuracy is relative to the file {self._prompts.file.path.name} run in fp32 without pruning, "
            f"over {N_SCORED} tokens behind a context of {n_context}"
            + (f" in each of {n_windows} windows of the text" if n_windows > 1 else "")
            + f"; its weights are {self._prompts.file.format_summary}."
        )
        conditions = {
            "n_scored_tokens": N_SCORED * n_windows,
            "quality_windows": n_windows,
            "quality_context_tokens": n_context,
        }
        return {**pooled(windows), "attention": self._retained(starts, n_context)}, conditions, [note]

    def windows(self, points: Sequence[Point], n_windows: int, step: Step) -> list[list[Window]]:
        """Compare runs of points of one context with the reference over windows of the text: by point, then window."""
        n_context = self._n_context(points[0])
        found: list[list[Window]] = [[] for _ in points]
        for index, start in enumerate(self._starts(n_context, n_windows)):
            mine = part(step, index / n_windows, 1 / n_windows)
            reference = self._reference(start, n_context, part(mine, 0, 0.6))
            for which, point in enumerate(points):
                own = part(mine, 0.6 + 0.4 * which / len(points), 0.4 / len(points))
                run = reference if point.is_reference else self._scored(point, start, n_context, own)
                found[which].append(Window.of(run, reference))
        return found

    def _n_context(self, point: Point) -> int:
        return min(point.context_tokens, self._prompts.file.shape.max_context_tokens - N_SCORED)

    def attention(self, point: Point, step: Step) -> Values:
        """Measure where the model attends to at the end of the point's context, unpruned, head by head."""
        decoder = self._prompts.decoder(point.weights, step, point.compensation, point.activation_keep)
        n_context = min(point.context_tokens, len(self._prompts.text))
        prefilled = self._prompts.processed(decoder, point.kv, "text 0", self._prompts.text[:n_context], step)
        record = attention_statistics(prefilled).as_record()
        return {"attention_by_head": _rounded(record)}, {"attention_context_tokens": n_context}, []

    def _retained(self, starts: Sequence[int], n_context: int) -> dict[str, Any]:
        """Return the attention mass that the heaviest tokens hold, by the share kept, with the sparsity and the entropy
        of the mass over positions: means over heads and windows.
        """
        each = [self._attention[start, n_context] for start in starts]
        means = {name: torch.stack([one[name] for one in each]).mean(0).tolist() for name in each[0]}
        return {
            "n_tokens": n_context,
            "keep_shares": list(KEEP_SHARES),
            **means,
            "n_windows": len(starts),
            "provenance": "measured",
        }

    def retrieval(self, point: Point, n_haystacks: int, step: Step) -> Values:
        """Measure how many needles are found, `N_NEEDLES` in each haystack, the cache pruned before the question."""
        n_context = min(point.context_tokens, self._prompts.file.shape.max_context_tokens - QUESTION_TOKENS)
        found = [
            self._answered(point, n_context, index, part(step, index / n_haystacks, 1 / n_haystacks))
            for index in range(n_haystacks)
        ]
        values = {
            "retrieval_accuracy": share_record([answered.chosen for answered in found]),
            "retrieval_greedy": share_record([answered.greedy for answered in found]),
        }
        by_depth = torch.stack([torch.stack([a.depth_frac, a.chosen], 1) for a in found]).mean(0)
        conditions = {
            "retrieval_needles": N_NEEDLES * n_haystacks,
            "retrieval_chance": 1 / N_NEEDLES,
            "retrieval_by_depth": [[round(x, 4) for x in row] for row in by_depth.tolist()],  # depth, share found
        }
        return values, conditions, []

    def _starts(self, n_context: int, n_windows: int) -> list[int]:
        """Return the first tokens of disjoint windows: the first at 0, the last at the end of the text."""
        n, length = n_context + N_SCORED, len(self._prompts.text)
        if n * n_windows > length:
            raise ValueError(
                f"n_windows: got {n_windows}, expected at most {length // n}, of {n} tokens each, in a text of {length}"
            )
        return [index * (length - n) // max(n_windows - 1, 1) for index in range(n_windows)]

    def _reference(self, start: int, n_context: int, step: Step) -> Scored:
        reference = self._references.get((start, n_context))
        if reference is None:
            point = Point("fp32", "fp32", n_context, 0.0, "sinks_recent", "compacted")
            reference = self._scored(point, start, n_context, step)
            self._references.put((start, n_context), reference)
            text = self._prompts.text[start : start + n_context]
            prefilled = self._prompts.processed(
                self._prompts.decoder("fp32", step), "fp32", f"text {start}", text, step
            )
            found = attention_statistics(prefilled, KEEP_SHARES)
            self._attention[start, n_context] = {
                "retained_mass": torch.tensor(found.retained_mass_kv).mean((0, 1)),
                "sparse_share": torch.tensor(found.sparse_share).mean(),
                "entropy_nat": torch.tensor(found.entropy_nat).mean(),
            }
        return reference

    def _scored(self, point: Point, start: int, n_context: int, step: Step) -> Scored:
        """Predict the tokens behind a context with a point's formats, the context's cache pruned as the point says."""
        text = self._prompts.text[start : start + n_context + N_SCORED]
        decoder = self._prompts.decoder(point.weights, step, point.compensation, point.activation_keep)
        prefilled = self._prompts.processed(decoder, point.kv, f"text {start}", text[:n_context], step)
        following = text[n_context:]
        logits = [prefilled.logits[None]]
        if point.reselect_tokens and point.alpha:
            choosing = self._choosing(point, decoder, prefilled)
            return Scored.from_logits(
                torch.cat(logits + _decoded(decoder, choosing, n_context, following, step)), following
            )
        cache = prune.prune(
            prefilled,
            point.alpha,
            point.policy,
            point.layout,
            lambda n: decoder.new_cache(n, point.kv, point.kv_layout),
            room=N_SCORED,
            weights=point.score_weights,
        )
        if point.kv == "int4":  # keys of a page stay unrounded until it is full; in a chunk they would be read rounded
            logits += _decoded(decoder, cache, n_context, following, step)
            return Scored.from_logits(torch.cat(logits), following)
        for first in range(0, N_SCORED - 1, _SCORED_CHUNK):
            chunk = following[first : min(first + _SCORED_CHUNK, N_SCORED - 1)]

            def layer_done(share: float, first: int = first, n: int = len(chunk)) -> None:
                step(0.7 + 0.3 * (first + share * n) / N_SCORED, "predicting the text behind the context")

            logits.append(decoder.extend(chunk, n_context + first, cache, all_logits=True, progress=layer_done)[0])
        return Scored.from_logits(torch.cat(logits), following)

    @staticmethod
    def _choosing(point: Point, decoder: Decoder, prefilled: Prefilled) -> ReselectingCache:
        """Return a cache that re-selects tokens at the interval of the point."""
        return ReselectingCache(
            prefilled,
            point.alpha,
            point.policy,
            point.layout,
            lambda n: decoder.new_cache(n, point.kv, point.kv_layout),
            point.reselect_tokens,
            room=N_SCORED,
            weights=point.score_weights,
        )

    def _answered(self, point: Point, n_context: int, index: int, step: Step) -> Answered:
        hidden = self._haystacks.get((n_context, index))
        if hidden is None:
            length = len(self._prompts.text)
            filler = self._prompts.text.roll(-(index * length // MAX_WINDOWS))
            hidden = haystack(self._prompts.tokenizer, filler, n_context, index)
            self._haystacks[n_context, index] = hidden
        decoder = self._prompts.decoder(point.weights, step, point.compensation, point.activation_keep)
        prefilled = self._prompts.processed(decoder, point.kv, f"needles {index}", hidden.tokens, step)
        cache = prune.prune(
            prefilled,
            point.alpha,
            point.policy,
            point.layout,
            lambda n: decoder.new_cache(n, point.kv, point.kv_layout),
            room=QUESTION_TOKENS,
            weights=point.score_weights,
        )
        return ask(decoder, hidden, cache, lambda done: step(0.7 + 0.3 * done, "asking for what the text hides"))


def _decoded(decoder: Decoder, cache: KvCache, position: int, following: Tensor, step: Step) -> list[Tensor]:
    """Predict token by token, as generating does."""
    logits = []
    for index, token in enumerate(following[:-1].tolist()):
        step(0.7 + 0.3 * index / N_SCORED, "predicting the text behind the context token by token")
        logits.append(decoder.decode(token, position + index, cache)[None].clone())
    return logits


def _rounded(value: Any) -> Any:
    """Return a record with its numbers to four digits: what is exact to a per cent need not fill the wire."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def part(step: Step, first: float, share: float) -> Step:
    """Return the callback of a part of a measurement, from `first` on, with a share of it."""
    return lambda done, text: step(first + share * done, text)
