"""The C library as Python sees it: its structures, and how it is called."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from kernels.native.build import Build, build

FORMATS = {"fp32": 0, "bf16": 1, "fp16": 2, "int8": 3, "int4": 4}
"""Numbers of the formats in native.h."""
FLOAT_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

LAYER_ARRAYS = (
    "attention_norm",
    "feed_forward_norm",
    "post_attention_norm",
    "post_feed_forward_norm",
    "head_norms",
    "rotations",
)
"""What a layer has besides its products, in the order of decoder.c."""
_SIZES = ("n_layers", "hidden_size", "intermediate_size", "n_heads", "n_kv_heads", "head_dim", "activation")


class LinearStruct(ctypes.Structure):
    """`linear_t`."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("format", ctypes.c_int32),
        ("group", ctypes.c_int32),
        ("n_in", ctypes.c_int32),
        ("n_out", ctypes.c_int32),
    )


class LayerStruct(ctypes.Structure):
    """`layer_t`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in LAYER_ARRAYS),
        *((name, LinearStruct) for name in ("qkv", "out", "gate_up", "down")),
    )


class DecoderStruct(ctypes.Structure):
    """`decoder_t`."""

    _fields_ = (
        ("layers", ctypes.POINTER(LayerStruct)),
        ("norm", ctypes.c_void_p),
        ("head", LinearStruct),
        *((name, ctypes.c_int32) for name in _SIZES),
        ("rms_eps", ctypes.c_float),
        ("q_scale", ctypes.c_float),
    )


@functools.cache
def _loaded() -> tuple[ctypes.CDLL | None, Build]:
    found = build()
    if found.path is None:
        return None, found
    try:
        library = ctypes.CDLL(str(found.path))
    except OSError as error:
        return None, Build(None, absent=f"{found.path}: cannot be loaded ({error})")
    library.trilemma_scratch_floats.restype = ctypes.c_int64
    for name in ("trilemma_linear", "trilemma_rows", "trilemma_rounded", "trilemma_decode"):
        getattr(library, name).restype = None
    return library, found


def library() -> ctypes.CDLL | None:
    """Return the library, built and loaded at the first call; None where there is none."""
    return _loaded()[0]


def status() -> Build:
    """Return the loaded library, or the reason that there is none."""
    return _loaded()[1]


def available() -> bool:
    """Return True if the library is loaded."""
    return library() is not None


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a contiguous tensor on the CPU."""
    if tensor is None:
        return None
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(f"tensor: got {tuple(tensor.shape)} on {tensor.device}, expected contiguous on the CPU")
    return tensor.data_ptr()


def multiply(linear: LinearStruct, x: Tensor, y: Tensor) -> None:
    """Multiply rows x [n, n_in] fp32 into y [n, n_out] fp32."""
    loaded = library()
    assert loaded is not None
    loaded.trilemma_linear(
        ctypes.byref(linear),
        ctypes.c_void_p(address(x)),
        ctypes.c_int(len(x)),
        ctypes.c_void_p(address(y)),
        ctypes.c_int(torch.get_num_threads()),
    )


def unpack_rows(linear: LinearStruct, index: Tensor | int, out: Tensor) -> None:
    """Fill `out` [n, n_in] fp32 with rows of the weights: those of an int64 index [n], or n from a number on."""
    loaded = library()
    assert loaded is not None
    listed = isinstance(index, Tensor)
    low, high = (int(index.min()), int(index.max())) if isinstance(index, Tensor) else (index, index + len(out) - 1)
    if not 0 <= low <= high < linear.n_out:
        raise IndexError(f"index: got {low} to {high}, expected 0 to {linear.n_out - 1}")
    loaded.trilemma_rows(
        ctypes.byref(linear),
        ctypes.c_void_p(address(index.contiguous()) if isinstance(index, Tensor) else None),
        ctypes.c_int64(0 if listed else low),
        ctypes.c_int(len(out)),
        ctypes.c_void_p(address(out)),
        ctypes.c_int(torch.get_num_threads()),
    )


def round_rows(linear: LinearStruct, x: Tensor) -> Tensor:
    """Round activations x [n, n_in] fp32 as the products with these weights do."""
    loaded = library()
    assert loaded is not None
    out = torch.empty_like(x)
    loaded.trilemma_rounded(
        ctypes.byref(linear),
        ctypes.c_void_p(address(x)),
        ctypes.c_int(len(x)),
        ctypes.c_void_p(address(out)),
        ctypes.c_int(torch.get_num_threads()),
    )
    return out
