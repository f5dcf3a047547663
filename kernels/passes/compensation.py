"""Drift compensation of quantised activations: the dual loop, and error feedback; one pass each by the C library.

``x' = x - a (mean - target) - (1 - a) (x - step round(x / step))``: the outer loop takes a share a of the drift away,
the inner one what rounding adds. Halves round to even.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from kernels.native.library import address, library


class DualLoop:
    """The dual loop over successive activations, in place.

    Parameters
    ----------
    target_mean : float
        The mean that they should have.
    gain : float
        Gain a of the outer loop, 0 < a < 2: the drift falls by (1 - a) a step.
    step : float
        Width of the quantisation grid, > 0; values stay below 2**22 steps.
    """

    def __init__(self, target_mean: float, gain: float, step: float = 1.0) -> None:
        if not 0 < gain < 2:
            raise ValueError(f"gain: got {gain}, expected 0 < gain < 2")
        if not step > 0:
            raise ValueError(f"step: got {step}, expected more than 0")
        self.target_mean, self.gain, self.step = target_mean, gain, step
        self.mean: float | None = None
        """Mean of what came out last."""

    def apply(self, x: Tensor, out: Tensor | None = None, mean: float | None = None) -> Tensor:
        """Compensate one step's activations.

        Parameters
        ----------
        x : Tensor
            fp32, any shape, contiguous.
        out : Tensor, optional
            Takes the result; x itself when None.
        mean : float, optional
            Mean of x where it is known (as of the step before); else it is taken first, another pass.

        Returns
        -------
        Tensor
            `out`.
        """
        out = x if out is None else out
        known = float(x.mean(dtype=torch.float64)) if mean is None else mean
        offset = self.gain * (known - self.target_mean)
        found = _library(x, out)
        if found is not None:
            total = found.trilemma_compensate(
                _pointer(x),
                _pointer(out),
                ctypes.c_int64(x.numel()),
                *_floats(self.step, self.gain, offset),
                _threads(),
            )
            self.mean = total / x.numel()
            return out
        grid = x.div(self.step).round_().mul_(self.step)
        torch.lerp(grid, x, self.gain, out=out).sub_(offset)
        self.mean = float(out.mean(dtype=torch.float64))
        return out


def feed_back(x: Tensor, error: Tensor, step: float, out: Tensor | None = None) -> Tensor:
    """Round to a grid and carry the rounding error to the next call, value by value.

    ``y = step round((x + e) / step)``, ``e <- x + e - y``: over any number of calls the sum of the outputs differs from
    that of the inputs by the error that is left, at most half a step.

    Parameters
    ----------
    x : Tensor
        fp32, any shape, contiguous.
    error : Tensor
        Of the same shape: the error carried, changed in place; zeros at first.
    step : float
        Width of the grid, > 0.
    out : Tensor, optional
        Takes the result; x itself when None.
    """
    if not step > 0:
        raise ValueError(f"step: got {step}, expected more than 0")
    if error.shape != x.shape or error.dtype != x.dtype:
        raise ValueError(f"error: got {tuple(error.shape)} of {error.dtype}, expected {tuple(x.shape)} of {x.dtype}")
    out = x if out is None else out
    found = _library(x, out, error)
    if found is not None:
        found.trilemma_feed_back(*map(_pointer, (x, error, out)), ctypes.c_int64(x.numel()), *_floats(step), _threads())
        return out
    error.add_(x)
    torch.div(error, step, out=out).round_().mul_(step)
    error.sub_(out)
    return out


def _library(*tensors: Tensor) -> ctypes.CDLL | None:
    """Return the library where it can work on these tensors."""
    found = library()
    if found is None or any(t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors):
        return None
    if any(t.shape != tensors[0].shape or not t.is_contiguous() for t in tensors):
        raise ValueError("out: got another shape than x or strides, expected the same shape, contiguous")
    found.trilemma_compensate.restype = ctypes.c_double
    return found


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(address(tensor))


def _floats(*values: float) -> list[ctypes.c_float]:
    return [ctypes.c_float(value) for value in values]


def _threads() -> int:
    return torch.get_num_threads()
