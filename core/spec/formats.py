"""Formats of weights and of the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCTS = ("", "fp8", "fp4")
"""Number format of the products: "" for 16 bits, or a small float."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A storage format of weights. `bits_per_weight` includes scales and zero points."""

    key: str
    name: str
    bits_per_weight: float
    head_bits_per_weight: float
    needs_unpacking: bool  # formats of 4 to 6 bits: their unpacking costs rho
    importance_matrix: bool = False
    accuracy_only: bool = False  # no runtime has a kernel for it: only its accuracy is predicted
    products: str = ""  # one of `PRODUCTS`: activations are rounded to it too, for matrix units that multiply it
    source: str = ""


@dataclass(frozen=True, slots=True)
class KvFormat:
    """A storage format of the KV cache. `bits_per_value` includes scales."""

    key: str
    name: str
    bits_per_value: float
    source: str = ""
