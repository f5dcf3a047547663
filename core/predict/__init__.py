"""Predictions: the room where the subjects of `core.physics` meet.

`scenario` (an operating point to its prediction), `parameters` (cost parameters, their priors and how formats share
them), `prefill` (work of a prompt by runtime), `accuracy` (degradation by cause), `validity` (limits of the model),
`power_mode_transfer` (a posterior moved to another power mode), `conformal` and `shape_uncertainty` (interval scale),
`chunks` (predictions of many points put together), `changes` and `explain` (what binds, which change helps), `sweep`
(grids, Pareto fronts, knees, largest context), `sensitivity` (elasticities, Sobol indices), `cosim` and `endurance`
(power, heat, throttling and battery together).
Never here: fits to measurements, files.
"""
