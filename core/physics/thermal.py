"""Heat: exact steps of ladders, step responses, and thermal runaway by leakage.

A board is a ladder (Cauer network) of heat capacities, die first, joined by thermal resistances, the last one to the
ambient: ``C_1 T_1' = P - (T_1 - T_2)/R_1``, ..., ``C_n T_n' = (T_{n-1} - T_n)/R_{n-1} - (T_n - T_a)/R_n``. Its modes
are those of a symmetric tridiagonal matrix, so a step of any length is exact for power that is constant within it. Seen
from the die the same board is a sum of exponentials (Foster network), which is what a sensor can be fitted to.

Temperatures here are rises over the ambient [K] unless the name ends in `temp_c`.

References
----------
.. [1] docs/physics.md M8
.. [2] docs/physics.md M6, leakage ``P_l exp(b (T - T_0))``
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ladder:
    """A Cauer ladder of n nodes, die first.

    Attributes
    ----------
    capacity_j_k : tuple of float
        Heat capacity C of each node [J/K], > 0.
    resistance_k_w : tuple of float
        Thermal resistance R behind each node [K/W], > 0; the last one to the ambient.
    """

    capacity_j_k: tuple[float, ...]
    resistance_k_w: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.capacity_j_k or len(self.capacity_j_k) != len(self.resistance_k_w):
            raise ValueError(
                f"resistance_k_w has {len(self.resistance_k_w)} entries, expected one for each of the "
                f"{len(self.capacity_j_k)} nodes (at least one)"
            )
        check_range("capacity_j_k", self.capacity_j_k, 0.0, open_low=True)
        check_range("resistance_k_w", self.resistance_k_w, 0.0, open_low=True)


@dataclass(frozen=True, slots=True)
class Modes:
    """A ladder seen through its modes, the fastest first.

    Each mode is a first-order lag of the power at the die. Node temperatures are ``node_share @ (mode states)``; the
    first row of `node_share` is all ones, so the die is their sum.

    Attributes
    ----------
    resistance_k_w : ndarray, shape (n,)
        Gain of each mode [K/W].
    tau_s : ndarray, shape (n,)
        Time constant of each mode [s].
    node_share : ndarray, shape (n nodes, n modes)
        Rise of each node per rise of the die in each mode [1].
    """

    resistance_k_w: Floats
    tau_s: Floats
    node_share: Floats


def modes(ladder: Ladder) -> Modes:
    """Return the modes of a ladder, from the symmetric matrix ``C^(-1/2) G C^(-1/2)``.

    Parameters
    ----------
    ladder : Ladder
        The ladder.

    Returns
    -------
    Modes
        Gains [K/W], time constants [s] and shapes [1].

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> np.round(modes(Ladder((2.0, 60.0), (1.5, 3.0))).tau_s, 4).tolist()
    [2.9017, 186.0983]
    """
    root = np.sqrt(np.asarray(ladder.capacity_j_k))
    conductance = 1 / np.asarray(ladder.resistance_k_w)
    diagonal = conductance + np.concatenate([[0.0], conductance[:-1]])
    matrix = np.diag(diagonal) - np.diag(conductance[:-1], 1) - np.diag(conductance[:-1], -1)
    rate, vector = np.linalg.eigh(matrix / np.outer(root, root))
    rate, vector = rate[::-1], vector[:, ::-1]
    node = vector / root[:, None]
    return Modes(node[0] ** 2 / rate, 1 / rate, node / node[0])


def zoh(ladder: Ladder, step_s: float) -> tuple[Floats, Floats]:
    """Return the exact step of a ladder for constant power, ``x(t + h) = A x(t) + B P`` with x the rises of the nodes.

    Parameters
    ----------
    ladder : Ladder
        The ladder.
    step_s : float
        Length h of the step [s], > 0; any length is stable.

    Returns
    -------
    tuple of ndarray
        A [1], shape (n, n), and B [K/W], shape (n,).

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> transition, gain = zoh(Ladder((2.0, 60.0), (1.5, 3.0)), 100.0)
    >>> np.round(10.0 * gain, 4).tolist()
    [26.9018, 12.1935]
    """
    check_range("step_s", step_s, 0.0, open_low=True)
    m = modes(ladder)
    decay = np.exp(-step_s / m.tau_s)
    transition = m.node_share @ np.diag(decay) @ np.linalg.inv(m.node_share)
    return transition, m.node_share @ (m.resistance_k_w * -np.expm1(-step_s / m.tau_s))


def largest_explicit_step_s(ladder: Ladder) -> float:
    """Return the longest stable step of explicit Euler, twice the fastest time constant.

    Parameters
    ----------
    ladder : Ladder
        The ladder.

    Returns
    -------
    float
        Length of the step [s].

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> round(largest_explicit_step_s(Ladder((2.0, 60.0), (1.5, 3.0))), 4)
    5.8034
    """
    return float(2 * modes(ladder).tau_s[0])


def respond(ladder: Ladder, power_w: ArrayLike, step_s: float, start_k: ArrayLike = 0.0) -> Floats:
    """Return the rises of all nodes at the end of each step of a power series.

    ``C_1 T_1' = P - (T_1 - T_2) / R_1``, ..., ``C_n T_n' = (T_{n-1} - T_n) / R_{n-1} - (T_n - T_a) / R_n``, exact for
    power that is constant within a step.

    Parameters
    ----------
    ladder : Ladder
        The ladder.
    power_w : array_like, shape (m,)
        Power P into the die in each step [W].
    step_s : float
        Length of a step [s], > 0.
    start_k : float or array_like, shape (n,)
        Rise at the start [K].

    Returns
    -------
    ndarray, shape (m, n)
        Rises over the ambient [K].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> np.round(respond(Ladder((2.0, 60.0), (1.5, 3.0)), np.full(100, 10.0), 1.0)[-1], 4).tolist()
    [26.9018, 12.1935]
    """
    m = modes(ladder)
    return np.asarray((m.node_share @ _mode_states(m, power_w, step_s, start_k)[:, 1:]).T)


def _mode_states(m: Modes, power_w: ArrayLike, step_s: float, start_k: ArrayLike) -> Floats:
    """Return the state of each mode at the start and at the end of each step, (n, m + 1) [K]."""
    check_range("step_s", step_s, 0.0, open_low=True)
    power = np.asarray(power_w, float)
    states = np.empty((m.tau_s.size, power.size + 1))
    states[:, 0] = np.linalg.solve(m.node_share, np.broadcast_to(np.asarray(start_k, float), m.tau_s.shape))
    for state, gain, tau in zip(states, m.resistance_k_w, m.tau_s, strict=True):
        state[1:] = lag(gain * power, step_s / tau, float(state[0]))
    return states


def lag(target: ArrayLike, step_over_tau: float, start: float = 0.0) -> Floats:
    """Return the first-order lag towards a stepwise constant target.

    ``y_k = a y_{k-1} + (1 - a) u_k`` with ``a = exp(-h / tau)``, summed by doubling: after j passes each y holds its
    2^j last inputs, so it takes log2(m) array operations.

    Parameters
    ----------
    target : array_like, shape (m,)
        Target u of each step [any unit].
    step_over_tau : float
        Length of a step over the time constant, h / tau [1], > 0.
    start : float
        Value before the first step [unit of `target`].

    Returns
    -------
    ndarray, shape (m,)
        Values y at the end of each step [unit of `target`].

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> np.round(lag([1.0, 1.0], np.log(2.0)), 6).tolist()
    [0.5, 0.75]
    """
    decay = np.exp(-step_over_tau)
    y = -np.expm1(-step_over_tau) * np.asarray(target, float)
    if y.size:
        y[0] += decay * start
    reach, factor = 1, decay
    while reach < y.size and factor > 1e-18:  # older inputs are below rounding
        y[reach:] += factor * y[:-reach]
        reach, factor = 2 * reach, factor * factor
    return np.asarray(y)


def balance_error_j(ladder: Ladder, power_w: ArrayLike, step_s: float, start_k: ArrayLike = 0.0) -> float:
    """Return the energy that an account of a power series leaves open: in, minus stored, minus given to the ambient.

    The heat given off is the exact integral of the last node's rise over its resistance, mode by mode. The result is
    rounding.

    Parameters
    ----------
    ladder : Ladder
        The ladder.
    power_w : array_like, shape (m,)
        Power into the die in each step [W].
    step_s : float
        Length of a step [s], > 0.
    start_k : float or array_like, shape (n,)
        Rise at the start [K].

    Returns
    -------
    float
        Energy [J].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> abs(balance_error_j(Ladder((2.0, 60.0), (1.5, 3.0)), np.full(100, 10.0), 1.0)) < 1e-9
    True
    """
    power, m = np.asarray(power_w, float), modes(ladder)
    state = _mode_states(m, power, step_s, start_k)
    stored = float(np.asarray(ladder.capacity_j_k) @ m.node_share @ (state[:, -1] - state[:, 0]))
    share = m.tau_s * -np.expm1(-step_s / m.tau_s)  # how long a step shows what each mode starts with
    settled = m.resistance_k_w * power.sum()
    integral = settled * step_s + state[:, :-1].sum(axis=1) * share - settled * share
    released = float(m.node_share[-1] @ integral) / ladder.resistance_k_w[-1]
    return float(power.sum() * step_s - stored - released)


def foster_rise_k(t_s: Array, power_w: Array, resistance_k_w: ArrayLike, tau_s: ArrayLike) -> Floats:
    """Return the rise of the die after a power step, ``P sum_i R_i (1 - exp(-t / tau_i))``.

    Parameters
    ----------
    t_s : float or ndarray
        Time t since the step [s], >= 0.
    power_w : float or ndarray
        Height P of the step [W].
    resistance_k_w : array_like, shape (n,)
        Gains R [K/W], >= 0.
    tau_s : array_like, shape (n,)
        Time constants tau [s], > 0.

    Returns
    -------
    ndarray
        Rise [K].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B03

    Examples
    --------
    >>> np.round(foster_rise_k(np.array([0.2, 8.0, 120.0]), 10.0, [0.5, 2.0, 5.0], [0.2, 8.0, 120.0]), 4).tolist()
    [3.7377, 20.8671, 56.606]
    """
    check_range("t_s", t_s, 0.0)
    check_range("resistance_k_w", resistance_k_w, 0.0)
    check_range("tau_s", tau_s, 0.0, open_low=True)
    share = -np.expm1(-np.asarray(t_s, float)[..., None] / np.asarray(tau_s, float))
    return np.asarray(np.asarray(power_w) * (share @ np.asarray(resistance_k_w, float)))


def ladder_from_foster(resistance_k_w: ArrayLike, tau_s: ArrayLike) -> Ladder:
    """Return the one ladder whose die answers a power step as the given exponentials do.

    Lanczos tridiagonalisation of the rates with the square roots of ``R_i / tau_i`` as first vector gives the matrix of
    the ladder; capacities and resistances follow from its entries one after the other.

    Parameters
    ----------
    resistance_k_w : array_like, shape (n,)
        Gains R [K/W], > 0.
    tau_s : array_like, shape (n,)
        Time constants tau [s], > 0, all different.

    Returns
    -------
    Ladder
        Capacities [J/K] and resistances [K/W].

    Raises
    ------
    ValueError
        A gain or time constant is not above 0, or two time constants are equal (they are one mode).

    References
    ----------
    .. [1] docs/physics.md M8

    Examples
    --------
    >>> found = modes(Ladder((2.0, 60.0), (1.5, 3.0)))
    >>> ladder = ladder_from_foster(found.resistance_k_w, found.tau_s)
    >>> np.round([*ladder.capacity_j_k, *ladder.resistance_k_w], 6).tolist()
    [2.0, 60.0, 1.5, 3.0]
    """
    gain, tau = np.asarray(resistance_k_w, float), np.asarray(tau_s, float)
    check_range("resistance_k_w", gain, 0.0, open_low=True)
    check_range("tau_s", tau, 0.0, open_low=True)
    if np.unique(tau).size < tau.size:
        raise ValueError(f"tau_s = {tau.tolist()} holds a time constant twice, expected distinct ones")
    diagonal, below = _lanczos(1 / tau, np.sqrt(gain / tau))
    capacity, resistance = [float(1 / np.sum(gain / tau))], list[float]()
    inflow = 0.0  # conductance towards the previous node
    for i, d in enumerate(diagonal):
        outflow = d * capacity[i] - inflow
        resistance.append(float(1 / outflow))
        if i < len(below):
            capacity.append(float(outflow**2 / (below[i] ** 2 * capacity[i])))
            inflow = outflow
    return Ladder(tuple(capacity), tuple(resistance))


def _lanczos(rate: Floats, first: Floats) -> tuple[Floats, Floats]:
    """Return the diagonals of the tridiagonal matrix that is similar to ``diag(rate)``, from a first basis vector."""
    basis = [first / np.linalg.norm(first)]
    diagonal, below = [], []
    for i in range(rate.size):
        image = rate * basis[i]
        diagonal.append(basis[i] @ image)
        for _ in range(2):  # the second pass removes what rounding left of the first
            image = image - np.stack(basis).T @ (np.stack(basis) @ image)
        if i + 1 < rate.size:
            below.append(np.linalg.norm(image))
            basis.append(image / below[-1])
    return np.asarray(diagonal), np.asarray(below)


def sustained_power_w(limit_temp_c: Array, ambient_temp_c: Array, resistance_k_w: Array) -> Array:
    """Return the mean power that holds a temperature limit, duty-cycled or not, ``(T_lim - T_a) / R``.

    Parameters
    ----------
    limit_temp_c : float or ndarray
        Temperature limit T_lim [deg C].
    ambient_temp_c : float or ndarray
        Temperature T_a of the ambient [deg C].
    resistance_k_w : float or ndarray
        Thermal resistance R from die to ambient [K/W], > 0.

    Returns
    -------
    float or ndarray
        Power [W].

    Raises
    ------
    ValueError
        `resistance_k_w` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> float(sustained_power_w(85.0, 25.0, 4.0))
    15.0
    """
    check_range("resistance_k_w", resistance_k_w, 0.0, open_low=True)
    return np.subtract(limit_temp_c, ambient_temp_c) / resistance_k_w


def runaway_temp_c(
    resistance_k_w: Array, leakage_w: Array, rate_per_k: Array, reference_temp_c: Array
) -> NDArray[np.float64]:
    """Return the temperature above which leakage feeds itself, ``T* = T_0 - ln(R b P_l) / b``.

    There the gain ``R b P_l exp(b (T - T_0))`` of the loop is 1.

    Parameters
    ----------
    resistance_k_w : float or ndarray
        Thermal resistance R from die to ambient [K/W], > 0.
    leakage_w : float or ndarray
        Leakage P_l at the reference temperature [W], > 0.
    rate_per_k : float or ndarray
        Relative growth b of the leakage [1/K], > 0.
    reference_temp_c : float or ndarray
        Reference temperature T_0 [deg C].

    Returns
    -------
    ndarray
        Temperature [deg C].

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
    >>> round(float(runaway_temp_c(2.0, 1.0, 0.02, 25.0)), 1)
    185.9
    """
    check_range("resistance_k_w", resistance_k_w, 0.0, open_low=True)
    check_range("leakage_w", leakage_w, 0.0, open_low=True)
    check_range("rate_per_k", rate_per_k, 0.0, open_low=True)
    gain = np.asarray(resistance_k_w) * rate_per_k * leakage_w
    return np.asarray(np.asarray(reference_temp_c) - np.log(gain) / rate_per_k)


def runaway_power_w(
    ambient_temp_c: Array, resistance_k_w: Array, leakage_w: Array, rate_per_k: Array, reference_temp_c: Array
) -> NDArray[np.float64]:
    """Return the power without leakage at which the last stable temperature is reached.

    ``P* = (T* - T_a) / R - 1 / (R b)`` with T* of `runaway_temp_c`.

    Parameters
    ----------
    ambient_temp_c : float or ndarray
        Temperature T_a of the ambient [deg C].
    resistance_k_w : float or ndarray
        Thermal resistance R from die to ambient [K/W], > 0.
    leakage_w : float or ndarray
        Leakage P_l at the reference temperature [W], > 0.
    rate_per_k : float or ndarray
        Relative growth b of the leakage [1/K], > 0.
    reference_temp_c : float or ndarray
        Reference temperature T_0 [deg C].

    Returns
    -------
    ndarray
        Power [W].

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
    >>> round(float(runaway_power_w(25.0, 2.0, 1.0, 0.02, 25.0)), 6)
    55.471896
    """
    tangent = runaway_temp_c(resistance_k_w, leakage_w, rate_per_k, reference_temp_c)
    return np.asarray((tangent - ambient_temp_c) / resistance_k_w - 1 / (np.asarray(resistance_k_w) * rate_per_k))


# --- a board fitted to its sensor -------------------------------------------------------------------------------------

_PRIOR_TAU_S = {1: (60.0,), 2: (25.0, 250.0), 3: (0.3, 25.0, 250.0)}
"""[prior] die 0.05 to 1 s, board 10 to 60 s, sink 100 to 600 s (docs/physics.md M8)."""
_PRIOR_RESISTANCE_K_W = 2.0  # [prior] per pole; bare chip 8 to 12 K/W in all, heat sink 3 to 5, fan 1.5 to 3
PRIOR_TAU_LOG_SD, PRIOR_RESISTANCE_LOG_SD = 0.545, 0.8  # [prior] 90 % within a factor of six: 10 to 60, 100 to 600 s


@dataclass(frozen=True, slots=True)
class FosterFit:
    """Exponentials fitted to a step response.

    Attributes
    ----------
    start_temp_c : float
        Temperature at the start [deg C].
    resistance_k_w : tuple of float
        Gains [K/W].
    tau_s : tuple of float
        Time constants [s], rising.
    covariance : ndarray, shape (1 + 2 n, 1 + 2 n)
        Of (start_temp_c, ln resistance..., ln tau...), prior included.
    """

    start_temp_c: float
    resistance_k_w: tuple[float, ...]
    tau_s: tuple[float, ...]
    covariance: Floats

    def temp_c(self, t_s: Array, power_w: float) -> Floats:
        """Return the temperature at `t_s` after a power step of `power_w` [deg C]."""
        return self.start_temp_c + foster_rise_k(t_s, power_w, self.resistance_k_w, self.tau_s)

    def sd_k(self, t_s: ArrayLike, power_w: float) -> Floats:
        """Return the standard error of `temp_c` at each time (m,) from the errors of the parameters [K]."""
        slope = _log_slope(np.asarray(t_s, float), power_w, np.asarray(self.resistance_k_w), np.asarray(self.tau_s))
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j", slope, self.covariance, slope)))


def _log_slope(t_s: Floats, power_w: float, resistance_k_w: Floats, tau_s: Floats) -> Floats:
    """Return the slope of the temperature in the start temperature and in the logarithms of gains and time constants.

    Shape (m, 1 + 2 n).
    """
    relative = t_s[..., None] / tau_s
    left, gain = np.exp(-relative), power_w * resistance_k_w
    return np.concatenate([np.ones_like(t_s)[..., None], gain * (1 - left), -gain * relative * left], axis=-1)


def fit_foster(
    t_s: ArrayLike, temp_c: ArrayLike, power_w: float, *, n_poles: int = 2, noise_k: float = 0.3, quantum_k: float = 0.0
) -> FosterFit:
    """Return the exponentials that fit a step response, with priors on gains and time constants.

    Maximum a posteriori least squares in the logarithms of ``T_0 + P sum_i R_i (1 - exp(-t / tau_i))``: a pole that the
    data hardly show keeps its prior. The steps of the sensor count as noise of ``quantum / sqrt(12)``; the reading is
    never differentiated.

    Parameters
    ----------
    t_s : array_like, shape (m,)
        Times since the step [s], >= 0, more than 2 `n_poles`.
    temp_c : array_like, shape (m,)
        Readings [deg C].
    power_w : float
        Height P of the step [W], > 0.
    n_poles : int
        Exponentials [1], 1 to 3.
    noise_k : float
        Noise of the sensor [K], > 0.
    quantum_k : float
        Resolution of the sensor [K], >= 0.

    Returns
    -------
    FosterFit
        Start temperature [deg C], gains [K/W] and time constants [s] with their covariance.

    Raises
    ------
    ValueError
        The columns are unequal or too short, or an argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M8
    .. [2] docs/articles.md B03

    Examples
    --------
    >>> t = np.arange(0.0, 1200.0, 5.0)
    >>> fit = fit_foster(t, 25.0 + foster_rise_k(t, 10.0, [2.0, 5.0], [20.0, 200.0]), 10.0, noise_k=0.01)
    >>> np.round(fit.resistance_k_w, 2).tolist(), np.round(fit.tau_s, 0).tolist()
    ([2.0, 5.0], [20.0, 200.0])
    """
    from scipy.optimize import least_squares

    t, temp = np.asarray(t_s, float), np.asarray(temp_c, float)
    if t.shape != temp.shape or t.ndim != 1 or t.size <= 2 * n_poles:
        raise ValueError(f"t_s {t.shape} and temp_c {temp.shape} are not two equal columns of more than {2 * n_poles}")
    check_range("t_s", t, 0.0)
    check_range("power_w", power_w, 0.0, open_low=True)
    check_range("n_poles", n_poles, 1, 3)
    check_range("noise_k", noise_k, 0.0, open_low=True)
    check_range("quantum_k", quantum_k, 0.0)
    centre = np.log([*[_PRIOR_RESISTANCE_K_W] * n_poles, *_PRIOR_TAU_S[n_poles]])
    spread = np.repeat([PRIOR_RESISTANCE_LOG_SD, PRIOR_TAU_LOG_SD], n_poles)
    sensor_sd = np.hypot(noise_k, quantum_k / np.sqrt(12))

    def residual(p: Floats) -> Floats:
        gain, tau = np.exp(p[1 : n_poles + 1]), np.exp(p[n_poles + 1 :])
        misfit = p[0] + foster_rise_k(t, power_w, gain, tau) - temp
        return np.concatenate([misfit / sensor_sd, (p[1:] - centre) / spread])

    of_priors = np.diag(1 / spread)

    def slope(p: Floats) -> Floats:
        of_data = _log_slope(t, power_w, np.exp(p[1 : n_poles + 1]), np.exp(p[n_poles + 1 :])) / sensor_sd
        return np.concatenate([of_data, np.concatenate([np.zeros((2 * n_poles, 1)), of_priors], axis=1)])

    found = least_squares(residual, np.concatenate([temp[:1], centre]), slope, x_scale="jac")
    order = np.argsort(found.x[n_poles + 1 :])
    keep = np.concatenate([[0], 1 + order, 1 + n_poles + order])
    best, covariance = found.x[keep], np.linalg.inv(found.jac.T @ found.jac)[np.ix_(keep, keep)]
    gains, taus = np.exp(best[1 : n_poles + 1]), np.exp(best[n_poles + 1 :])
    return FosterFit(float(best[0]), tuple(map(float, gains)), tuple(map(float, taus)), covariance)
