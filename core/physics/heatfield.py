"""Temperature field of a plate (board or spreader) for the heat map; the live model is `core.physics.thermal`.

A thin plate conducts in its plane and loses heat to the ambient over its face:
``rho c d dT/dt = k d (T_xx + T_yy) + q - h T`` with T the rise over the ambient and insulated edges. Backward Euler on
a grid of square cells: stable for any step, never below the coolest or above what the sources allow, and it conserves
energy. The explicit form serves to show its limit and its known decay.

References
----------
.. [1] docs/physics.md M8
.. [2] docs/articles.md B06
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
    """Return the thermal diffusivity of a material, ``alpha = k / (rho c)``.

    Parameters
    ----------
    conductivity_w_mk : float or ndarray
        Thermal conductivity k [W/(m K)], > 0.
    density_kg_m3 : float or ndarray
        Density rho [kg/m^3], > 0.
    heat_j_kgk : float or ndarray
        Specific heat c [J/(kg K)], > 0.

    Returns
    -------
    float or ndarray
        Diffusivity [m^2/s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(diffusivity_m2_s(148.0, 2330.0, 712.0)) * 1e5, 6)
    8.921252
    """
    for name, value in (
        ("conductivity_w_mk", conductivity_w_mk),
        ("density_kg_m3", density_kg_m3),
        ("heat_j_kgk", heat_j_kgk),
    ):
        check_range(name, value, 0.0, open_low=True)
    return np.asarray(conductivity_w_mk) / (np.asarray(density_kg_m3) * heat_j_kgk)


def largest_explicit_step_s(spacing_m: Array, diffusivity: Array, n_dims: int = 2) -> Floats:
    """Return the longest stable step of the explicit scheme, ``dx^2 / (2 n alpha)``.

    Parameters
    ----------
    spacing_m : float or ndarray
        Side dx of a cell [m], > 0.
    diffusivity : float or ndarray
        Thermal diffusivity alpha [m^2/s], > 0.
    n_dims : int
        Dimensions n [1], 1 to 3.

    Returns
    -------
    ndarray
        Length of the step [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(largest_explicit_step_s(1e-3, 8.921251869e-5)) * 1e3, 4)
    2.8023
    """
    check_range("spacing_m", spacing_m, 0.0, open_low=True)
    check_range("diffusivity", diffusivity, 0.0, open_low=True)
    check_range("n_dims", n_dims, 1, 3)
    return np.asarray(np.square(spacing_m) / (2 * n_dims * np.asarray(diffusivity)))


def explicit_step(field_k: ArrayLike, step_ratio: float) -> Floats:
    """Return a field after one explicit step, its border held.

    ``T' = T + r (T_north + T_south + T_east + T_west - 4 T)``

    Parameters
    ----------
    field_k : array_like, shape (ny, nx)
        Rises over the ambient [K].
    step_ratio : float
        Ratio ``r = alpha dt / dx^2`` [1], above 0 to 1/4.

    Returns
    -------
    ndarray, shape (ny, nx)
        Rises after the step [K].

    Raises
    ------
    ValueError
        `step_ratio` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(explicit_step([[0, 0, 0], [0, 1, 0], [0, 0, 0]], 0.2)[1, 1]), 9)
    0.2
    """
    check_range("step_ratio", step_ratio, 0.0, 0.25, open_low=True)
    t = np.array(field_k, float)
    t[1:-1, 1:-1] += step_ratio * (t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2] - 4 * t[1:-1, 1:-1])
    return t


def explicit_mode_factor(n_cells: int, step_ratio: float) -> float:
    """Return the factor by which one explicit step shrinks the slowest mode of a square with its border held.

    ``G = 1 - 8 r sin^2(pi / (2 n))``

    Parameters
    ----------
    n_cells : int
        Cells n a side [1], >= 1.
    step_ratio : float
        Ratio ``r = alpha dt / dx^2`` [1], above 0 to 1/4.

    Returns
    -------
    float
        Factor a step [1].

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(explicit_mode_factor(32, 0.2) ** 100, 6)
    0.679794
    """
    return float(1 - 8 * step_ratio * np.sin(np.pi / (2 * n_cells)) ** 2)


@dataclass(frozen=True, slots=True)
class Plate:
    """A plate of square cells: their number, and what one cell stores, conducts and loses.

    Attributes
    ----------
    shape : tuple of int
        Cells (ny, nx), at least 2 each way.
    cell_m : float
        Side of a cell [m], > 0.
    thickness_m : float
        Thickness of the plate [m], > 0.
    conductivity_w_mk : float
        Conductivity in the plane [W/(m K)], > 0.
    volumetric_heat_j_m3k : float
        Heat capacity per volume, rho c [J/(m^3 K)], > 0.
    loss_w_m2k : float
        Heat loss to the ambient over both faces together [W/(m^2 K)], > 0.
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
        """Return the heat capacity of a cell [J/K]."""
        return self.volumetric_heat_j_m3k * self.cell_m**2 * self.thickness_m

    @property
    def cell_loss_w_k(self) -> float:
        """Return the conductance of a cell to the ambient [W/K]."""
        return self.loss_w_m2k * self.cell_m**2


class FieldSolver:
    """Backward Euler for one plate and one length of step; the sparse factor is computed once.

    Parameters
    ----------
    plate : Plate
        The plate.
    step_s : float
        Length of a step [s], > 0; infinity solves for the steady field.

    Raises
    ------
    ValueError
        `step_s` is not above 0.
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
        """Return the rises after one step under constant sources.

        Parameters
        ----------
        rise_k : array_like, shape (ny, nx)
            Rises at the start [K].
        source_w : array_like, shape (ny, nx)
            Heat put into each cell [W].

        Returns
        -------
        ndarray, shape (ny, nx)
            Rises at the end of the step [K].
        """
        right = np.broadcast_to(np.asarray(rise_k, float), self._plate.shape) * self._storage_w_k
        right = right + np.broadcast_to(np.asarray(source_w, float), self._plate.shape)
        return np.asarray(self._factor.solve(right.ravel()).reshape(self._plate.shape))


def _chain(n: int) -> Any:
    """Return the Laplacian of n cells in a row with insulated ends (sparse, positive)."""
    from scipy.sparse import diags_array

    ends = np.full(n, 2.0)
    ends[[0, -1]] = 1.0
    return diags_array([np.full(n - 1, -1.0), ends, np.full(n - 1, -1.0)], offsets=[-1, 0, 1])


def steady_field_k(plate: Plate, source_w: ArrayLike) -> Floats:
    """Return the steady temperature field of a plate.

    ``k d laplacian(T) + q - h T = 0`` with T the rise over the ambient and insulated edges.

    Parameters
    ----------
    plate : Plate
        The plate.
    source_w : array_like, shape (ny, nx)
        Heat put into each cell [W].

    Returns
    -------
    ndarray, shape (ny, nx)
        Rises over the ambient [K].

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> plate = Plate((4, 4), 0.01, 0.001, 200.0, 2.4e6, 20.0)
    >>> np.round(steady_field_k(plate, np.full((4, 4), 0.01)), 6).tolist()[0]
    [5.0, 5.0, 5.0, 5.0]
    """
    return FieldSolver(plate, np.inf).step(0.0, source_w)
