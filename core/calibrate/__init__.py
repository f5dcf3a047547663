"""Calibration: measurements of one board, runtime and power mode to a posterior of its cost parameters.

`fit` (the posterior), `observations` (measured points as arrays, with the Jacobian of their predictions), `robust`
(Student-t regression with a Gaussian prior), `leave_one_out` (errors on held-out points), `next_point` (the
measurement that narrows predictions most), `reselection` (cost of KV token re-selection), `energy_fit` (energy per
byte and static power of a rail), `bandwidth_drift` (times corrected to the usual bandwidth), `disturbance` (degree of
disturbance by other work), `follow` (the loop: drift, alarm, correction by the newest times), `bench_priors` (priors
from a bench of the kernels). Never here: published tables, files.

======  =====================================  ==============================  ======
symbol  meaning                                function                        source
======  =====================================  ==============================  ======
s       elasticity of a time in the bandwidth  bandwidth_drift.elasticity      M10
        time at the usual bandwidth            bandwidth_drift.usual_log_time  M10
======  =====================================  ==============================  ======
"""
