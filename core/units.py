"""Units and ranges: SI everywhere inside, the unit in the name of everything that crosses a function, file or wire.

Endings of names: `_s`, `_byte`, `_byte_s` (per second), `_op_s`, `_hz`, `_w`, `_j`, `_temp_c` (degrees Celsius, at the
edge only), `_frac` (ratio, 0..1), `_log_sd` (standard deviation of the natural logarithm), `n_` (count). Prefixes (ms,
GB/s, mW) exist only where sensors are read and where numbers are shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BIT_PER_BYTE = 8
OP_PER_MAC = 2  # a multiply-add counts as two operations
Z90 = 1.6448536269514722  # half width of a 90 % interval of a normal distribution, in standard deviations


def check_range(
    name: str, value: Any, low: float, high: float = np.inf, *, open_low: bool = False, open_high: bool = False
) -> None:
    """Raise `ValueError` with the argument, the value and the range unless every element of `value` is in range.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : float or array
        NaN is outside every range.
    low, high : float
        The ends [unit of `value`]; `open_low` and `open_high` exclude them.
    """
    if isinstance(value, (float, int)) and (low < value < high or (value == low and not open_low)):  # as most are
        return
    values = np.asarray(value)
    if not values.size:
        return
    least = values.min() if values.ndim else value  # NaN if there is one
    if least > low if open_low else least >= low:
        if high == np.inf and not open_high:
            return
        most = values.max() if values.ndim else value
        if most < high if open_high else most <= high:
            return
    inside = ((values > low) if open_low else (values >= low)) & ((values < high) if open_high else (values <= high))
    worst = values[~inside].flat[0] if values.ndim else values
    left, right = "(" if open_low else "[", ")" if open_high or np.isinf(high) else "]"
    raise ValueError(f"{name} = {float(worst):g} is outside {left}{low:g}, {high:g}{right}")
