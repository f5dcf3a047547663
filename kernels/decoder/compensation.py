"""Compensation of a quantised decoder against the file in fp32: offsets by the outer loop, rounding by the inner one.

Both look at activations on a text of their own, apart from the text that accuracy is measured on. The outer loop finds
per-channel offsets of what the output layer of attention and the last layer of the feed-forward add to the residual
stream (`kernels.passes.offsets`), the inner one packs the weights with error feedback (`kernels.native.rounding`).
"""

from __future__ import annotations

import functools
import pydoc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.decoder.transformer import Decoder, Observer
from kernels.decoder.weights import ModelFile
from kernels.native.rounding import Rounding, nearest, with_feedback
from kernels.passes.offsets import GAIN, OffsetLoop
from kernels.passes.statistics import SlidingStatistics

KINDS = ("none", "offsets", "feedback", "both")
"""Compensations of an operating point: none, the outer loop, the inner loop, both."""
OUTPUTS = ("out", "down")
"""Matrices whose outputs get offsets."""
CHUNK_TOKENS = 512
CHUNKS_PER_ROUND = 4
MOMENT_CHUNKS = 8
_MOMENT_BYTE = 1 << 30
_MODULES = (
    *("argparse", "datetime", "statistics", "logging", "decimal", "random"),
    *("threading", "pathlib", "json", "subprocess", "collections", "unittest.mock"),
)
_MODULE_CHARACTERS = 6000
_TENSORS = {"attn_q": "qkv", "attn_output": "out", "ffn_gate": "gate_up", "ffn_down": "down"}

Report = Callable[[float, str], None]


def has_offsets(kind: str) -> bool:
    """Return whether a compensation adds offsets."""
    return kind in ("offsets", "both")


def has_feedback(kind: str) -> bool:
    """Return whether a compensation rounds weights with error feedback."""
    return kind in ("feedback", "both")


def calibration_text() -> str:
    """Return the text that activations are observed on: reference pages of modules of the standard library."""
    return "\n\n".join(pydoc.plain(pydoc.render_doc(name))[:_MODULE_CHARACTERS] for name in _MODULES)


def in_chunks(tokens: Tensor, longest: int) -> list[Tensor]:
    """Return a text in whole chunks of `CHUNK_TOKENS`, or of the longest context if that is shorter."""
    size = min(CHUNK_TOKENS, longest)
    if len(tokens) < size:
        raise ValueError(f"tokens: got a text of {len(tokens)} tokens, expected at least {size}")
    return [tokens[first : first + size] for first in range(0, len(tokens) - size + 1, size)]


@dataclass(frozen=True, slots=True)
class Made:
    """Offsets that the outer loop found, fp32 [n_layers, 2, hidden_size], and the drift of each round."""

    offsets: Tensor
    gain: float
    drifts: list[float]  # root mean square over channels, in standard deviations of each


def make_offsets(
    run: Decoder, reference: Decoder, chunks: Sequence[Tensor], report: Report, gain: float = GAIN
) -> Made:
    """Find the offsets that bring the mean activations of a decoder to those of the reference.

    Parameters
    ----------
    run, reference : Decoder
        The decoder without offsets, and the one whose means are the target.
    chunks : sequence of Tensor
        The text; each round takes other chunks while there are any.
    report : callable
        Called with the share done, 0..1, and a sentence; may raise to stop.
    gain : float
        Gain of the loop, 0 <= gain < 2.
    """
    shape = run.shape
    size = shape.n_layers, len(OUTPUTS), shape.hidden_size
    loop = OffsetLoop(shape.n_layers * len(OUTPUTS) * shape.hidden_size, gain)
    n_round = min(CHUNKS_PER_ROUND, len(chunks))
    drift, target = (SlidingStatistics(n_round * len(chunks[0])) for _ in range(2))
    text = spread(chunks)
    while not loop.done:
        present = run.with_offsets(loop.offsets.view(size), "on trial")
        for index in range(n_round):
            done = len(loop.drifts) + index / n_round
            words = f"round {len(loop.drifts) + 1} of the outer loop: comparing activations"
            tick = functools.partial(report, done / (done + 4.0), words)
            chunk = next(text)
            expected = _outputs(reference, chunk, tick)
            drift.add(_outputs(present, chunk, tick) - expected)
            target.add(expected)
        loop.update(drift.mean, target.variance.sqrt())
    return Made(loop.best.float().view(size), gain, loop.drifts)


def fed_back(file: ModelFile, weights: str, reference: Decoder, chunks: Sequence[Tensor], report: Report) -> Decoder:
    """Pack the weights of a file with error feedback for the inputs that the reference has on a text.

    Layers are packed in groups whose second moments fit into `_MOMENT_BYTE`; the text is processed once for each.
    """
    text = spread(chunks)
    seen = [next(text) for _ in range(min(MOMENT_CHUNKS, len(chunks)))]
    shape = file.shape
    inner = shape.intermediate_size
    layer_byte = 4 * (2 * shape.hidden_size**2 + (shape.n_heads * shape.head_dim) ** 2 + inner**2)
    n_group = max(1, _MOMENT_BYTE // layer_byte)
    moments: dict[tuple[int, str], Tensor] = {}

    def rounding_of(tensor: str) -> Rounding:
        _, layer, kind, *_ = [*tensor.split("."), "", ""]
        if kind not in _TENSORS:
            return nearest
        index = int(layer)
        if (index, "down") not in moments:
            moments.clear()
            moments.update(second_moments(reference, seen, range(index, index + n_group), report))
        return with_feedback(moments[index, _TENSORS[kind]])

    made = Decoder(
        file, weights, lambda done: report(done, "packing weights with error feedback"), rounding_of=rounding_of
    )
    made.key = f"{weights} feedback"
    return made


@torch.inference_mode()
def second_moments(
    decoder: Decoder, chunks: Sequence[Tensor], layers: range, report: Report
) -> dict[tuple[int, str], Tensor]:
    """Return the second moment of the inputs of each matrix of some layers, fp32 [n_in, n_in], by layer and name."""
    found: dict[tuple[int, str], Tensor] = {}

    def see(index: int, name: str, x: Tensor, _: Tensor) -> None:
        if index in layers:
            moment = found.setdefault((index, name), torch.zeros(x.shape[1], x.shape[1]))
            moment.addmm_(x.float().T, x.float())

    n = sum(map(len, chunks))
    share = layers.start / decoder.shape.n_layers
    for chunk in chunks:
        with _observed(decoder, see):
            decoder.extend(
                chunk,
                0,
                decoder.new_cache(len(chunk), "fp32"),
                progress=lambda _: report(share, "observing the inputs of the layers"),
            )
    for moment in found.values():
        moment.div_(n)
    return found


def spread(chunks: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield chunks from all over a text again and again: neighbours are of different pages."""
    stride = max(1, len(chunks) // CHUNKS_PER_ROUND)
    while True:
        for first in range(stride):
            yield from chunks[first::stride]


@torch.inference_mode()
def _outputs(decoder: Decoder, chunk: Tensor, tick: Callable[[], None]) -> Tensor:
    """Return what the matrices of `OUTPUTS` give on a chunk, fp32 [n, channels]; `tick` is called before each layer."""
    shape = decoder.shape
    found = torch.empty(len(chunk), shape.n_layers, len(OUTPUTS), shape.hidden_size)

    def see(index: int, name: str, _: Tensor, y: Tensor) -> None:
        if name in OUTPUTS:
            found[:, index, OUTPUTS.index(name)] = y

    with _observed(decoder, see):
        decoder.extend(chunk, 0, decoder.new_cache(len(chunk), "fp32"), progress=lambda _: tick())
    return found.view(len(chunk), -1)


@contextmanager
def _observed(decoder: Decoder, observer: Observer) -> Iterator[None]:
    decoder.observer = observer
    try:
        yield
    finally:
        decoder.observer = None
