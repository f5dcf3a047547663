"""Formats of weights and of the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCTS = ("", "fp8", "fp4")
"""What a format's products are of: 16 bits, or small floats."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored. `bits_per_weight` includes scales and zero points."""

    key: str
    name: str
    bits_per_weight: float
    head_bits_per_weight: float
    needs_unpacking: bool  # 4..6-bit formats pay rho
    importance_matrix: bool = False
    accuracy_only: bool = False  # no runtime has a kernel for it: it has no speed
    products: str = ""  # one of `PRODUCTS`: activations are rounded to it too, for matrix units that take it
    source: str = ""


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How the KV cache is stored. `bits_per_value` includes scales."""

    key: str
    name: str
    bits_per_value: float
    source: str = ""
