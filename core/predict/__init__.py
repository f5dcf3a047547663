"""Predictions of operating points, by the formulas of `core.physics`.

`scenario` (prediction of an operating point), `parameters` (cost parameters, their priors and ratios by format),
`decode` and `prefill` (work of a token and of a prompt), `options` (sparsity, adapters, on-chip memory), `correction`
(of a time by recent residuals), `power_limit` (outputs under a power limit), `accuracy` (degradation by cause),
`validity` (limits of the model), `power_mode_transfer` (a posterior transferred to another power mode), `conformal`
(interval scale), `shape_uncertainty` (log-sd from an estimated model shape), `chunks` (concatenation of predictions),
`changes` and `explain` (bound of a point and changes that help), `request` (P99 of a whole request), `sweep` (grids,
Pareto fronts, knees, largest context), `sensitivity` (elasticities, Sobol indices), `decoder_graph` (a token as a graph
of operations), `cosim` and `endurance` (power, heat, throttling and battery together). Never here: fits to
measurements, files.
"""
