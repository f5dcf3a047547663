"""The temperature field of a plate (board or spreader), for the heat map; a ladder (`core.physics.thermal`) is the
live model.

A thin plate conducts in its plane and loses heat to the ambient over its face:
``rho c d dT/dt = k d (T_xx + T_yy) + q - h T`` with T the rise over the ambient and insulated edges. Backward Euler on
a grid of square cells: stable for any step, never below the coolest or above what the sources allow, and it conserves
energy exactly as it is written. The explicit form is here for its limit and its known decay.

References
----------
docs/physics.md, M8; quantities, B06.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Floats = NDArray[np.float64]


def diffusivity_m2_s(conductivity_w_mk: Array, density_kg_m3: Array, heat_j_kgk: Array) -> Array:
    """Thermal diffusivity, ``k / (rho c)`` [m^2/s]; all arguments > 0 [W/(m K), kg/m^3, J/(kg K)]."""
    for name, value in (
        ("conductivity_w_mk", conductivity_w_mk),
        ("density_kg_m3", density_kg_m3),
        ("heat_j_kgk", heat_j_kgk),
    ):
        check_range(name, value, 0.0, open_low=True)
    return np.asarray(conductivity_w_mk) / (np.asarray(density_kg_m3) * heat_j_kgk)


def largest_explicit_step_s(spacing_m: Array, diffusivity: Array, n_dims: int = 2) -> Floats:
    """Longest stable step of the explicit scheme, ``dx^2 / (2 n alpha)`` [s]; `diffusivity` alpha > 0 [m^2/s]."""
    check_range("spacing_m", spacing_m, 0.0, open_low=True)
    check_range("diffusivity", diffusivity, 0.0, open_low=True)
    check_range("n_dims", n_dims, 1, 3)
    return np.asarray(np.square(spacing_m) / (2 * n_dims * np.asarray(diffusivity)))


def explicit_step(field_k: ArrayLike, step_ratio: float) -> Floats:
    """One explicit step of a field (ny, nx) [K] whose border is held; `step_ratio` ``alpha dt / dx^2`` in (0, 1/4]."""
    check_range("step_ratio", step_ratio, 0.0, 0.25, open_low=True)
    t = np.array(field_k, float)
    t[1:-1, 1:-1] += step_ratio * (t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2] - 4 * t[1:-1, 1:-1])
    return t


def explicit_mode_factor(n_cells: int, step_ratio: float) -> float:
    """Factor by which one explicit step shrinks the slowest mode of a square of `n_cells` cells a side, border held."""
    return float(1 - 8 * step_ratio * np.sin(np.pi / (2 * n_cells)) ** 2)


@dataclass(frozen=True, slots=True)
class Plate:
    """A plate of square cells: shape (ny, nx), and what one cell stores, conducts to a neighbour and loses.

    Attributes
    ----------
    shape : (ny, nx) cells, at least 2 each way.
    cell_m : Side of a cell, > 0 [m].
    thickness_m : > 0 [m].
    conductivity_w_mk : In the plane, > 0 [W/(m K)].
    volumetric_heat_j_m3k : rho c, > 0 [J/(m^3 K)].
    loss_w_m2k : Heat loss to the ambient over both faces together, > 0 [W/(m^2 K)].
    """

    shape: tuple[int, int]
    cell_m: float
    thickness_m: float
    conductivity_w_mk: float
    volumetric_heat_j_m3k: float
    loss_w_m2k: float

    def __post_init__(self) -> None:
        check_range("shape", self.shape, 2)
        for name in ("cell_m", "thickness_m", "conductivity_w_mk", "volumetric_heat_j_m3k", "loss_w_m2k"):
            check_range(name, getattr(self, name), 0.0, open_low=True)

    @property
    def cell_heat_j_k(self) -> float:
        """Heat capacity of a cell [J/K]."""
        return self.volumetric_heat_j_m3k * self.cell_m**2 * self.thickness_m

    @property
    def cell_loss_w_k(self) -> float:
        """Conductance of a cell to the ambient [W/K]."""
        return self.loss_w_m2k * self.cell_m**2


class FieldSolver:
    """Backward Euler for one plate and one step length; the sparse factor is made once.

    Parameters
    ----------
    plate : Plate
    step_s : Length of a step, > 0 [s]; infinity solves for the steady field.
    """

    def __init__(self, plate: Plate, step_s: float) -> None:
        from scipy.sparse import eye_array, kron
        from scipy.sparse.linalg import splu

        check_range("step_s", step_s, 0.0, open_low=True)
        ny, nx = plate.shape
        neighbour_w_k = plate.conductivity_w_mk * plate.thickness_m  # between square cells the side cancels
        laplacian = kron(eye_array(ny), _chain(nx)) + kron(_chain(ny), eye_array(nx))
        self._plate = plate
        self._storage_w_k = plate.cell_heat_j_k / step_s
        own = plate.cell_loss_w_k + self._storage_w_k
        self._factor = splu((neighbour_w_k * laplacian + own * eye_array(ny * nx)).tocsc())

    def step(self, rise_k: ArrayLike, source_w: ArrayLike) -> Floats:
        """Rises (ny, nx) after one step from `rise_k` under constant sources (ny, nx) [W per cell]."""
        right = np.broadcast_to(np.asarray(rise_k, float), self._plate.shape) * self._storage_w_k
        right = right + np.broadcast_to(np.asarray(source_w, float), self._plate.shape)
        return np.asarray(self._factor.solve(right.ravel()).reshape(self._plate.shape))


def _chain(n: int) -> Any:
    """Laplacian of n cells in a row with insulated ends (sparse, positive)."""
    from scipy.sparse import diags_array

    ends = np.full(n, 2.0)
    ends[[0, -1]] = 1.0
    return diags_array([np.full(n - 1, -1.0), ends, np.full(n - 1, -1.0)], offsets=[-1, 0, 1])


def steady_field_k(plate: Plate, source_w: ArrayLike) -> Floats:
    """Steady rises (ny, nx) [K] under constant sources (ny, nx) [W per cell]."""
    return FieldSolver(plate, np.inf).step(0.0, source_w)
