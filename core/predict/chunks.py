"""Concatenation of predictions that are computed chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.spec import Estimate, Prediction


def joined(parts: Iterator[Prediction], size: int, shape: tuple[int, ...]) -> Prediction:
    """Concatenate the predictions of consecutive chunks and reshape them.

    Each chunk is copied while it is in the processor's cache, before the next one is computed. All floats share one
    allocation, for which the system uses large pages.

    Parameters
    ----------
    parts : iterator of Prediction
        At least one.
    size : int
        Points of each chunk; the last one may have fewer.
    shape : tuple of int
        Shape of the result.
    """
    first, n = next(parts), math.prod(shape)
    rows = iter(np.empty((sum(piece.dtype == float for piece in _arrays(first)), n)))
    joined: Prediction = _mapped(first, lambda piece: next(rows) if piece.dtype == float else np.empty(n, piece.dtype))
    outside = dict[str, None]()
    for i, part in enumerate(chain([first], parts)):
        for whole, piece in zip(_arrays(joined), _arrays(part), strict=True):
            whole[i * size : i * size + piece.size] = piece
        outside |= dict.fromkeys(part.outside)
    shaped: Prediction = _mapped(joined, lambda whole: whole.reshape(shape))
    return replace(shaped, outside=tuple(outside))


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a prediction, or of a part of one, in a fixed order."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Prediction | Estimate):
        for f in fields(value):
            yield from _arrays(getattr(value, f.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _arrays(each)


def _mapped(value: Any, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    """Return a prediction, or a part of one, with a function applied to each of its arrays."""
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, Prediction | Estimate):
        return replace(value, **{f.name: _mapped(getattr(value, f.name), function) for f in fields(value)})
    if isinstance(value, dict):
        return {key: _mapped(each, function) for key, each in value.items()}
    return value
