"""PyBaMM's Thevenin model as an oracle. `pip install '.[oracle]'` brings it; it is too heavy for `make test`."""

import numpy as np
import pytest

from core.physics import battery as b
from core.physics.discharge import discharge

pybamm = pytest.importorskip("pybamm", reason="PyBaMM is not installed: pip install '.[oracle]'")

START = 0.999  # PyBaMM refuses to start from full


def pybamm_runtime_s(cell, power):
    """Time to the cut-off of the same tables in PyBaMM."""

    def table(values):
        return lambda _temp, _current, soc: pybamm.Interpolant(cell.soc, values, soc, interpolator="linear")

    n = len(cell.rc_ohm)
    options = {"number of rc elements": n, "operating mode": "power"}
    model = pybamm.equivalent_circuit.Thevenin(options=options)
    values = model.default_parameter_values.copy()
    values.update(
        {
            "Initial SoC": START,
            "Cell capacity [A.h]": cell.charge_c / 3600,
            "Nominal cell capacity [A.h]": cell.charge_c / 3600,
            "Open-circuit voltage [V]": lambda soc: table(cell.ocv_v)(None, None, soc),
            "Entropic change [V/K]": 0.0,
            "Power function [W]": power,
            "Lower voltage cut-off [V]": cell.cutoff_v,
            "Upper voltage cut-off [V]": cell.ocv_v[-1] + 0.1,
            "R0 [Ohm]": table(cell.r0_ohm),
            **{f"R{j + 1} [Ohm]": table(cell.rc_ohm[j]) for j in range(n)},
            **{f"C{j + 1} [F]": table(cell.rc_s[j] / cell.rc_ohm[j]) for j in range(n)},
            **{f"Element-{j + 1} initial overpotential [V]": 0.0 for j in range(n)},
        },
        check_already_exists=False,
    )
    solution = pybamm.Simulation(model, parameter_values=values).solve([0, 40000])
    assert "Minimum voltage" in solution.termination
    return solution.t[-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("power", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("step", [2.0, 10.0])
def test_runtime_agrees_within_one_percent(power, step):
    cell = b.chen_rincon_mora_cell(3 * 3600)
    found = discharge(cell, np.full(int(40000 / step), power), step, start_soc=START)
    assert found.end == "cut-off"
    assert found.duration_s == pytest.approx(pybamm_runtime_s(cell, power), rel=0.01)
