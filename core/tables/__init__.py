"""Tables of published measurements: reading, matching to the catalogue, fits, and validation of predictions.

Rows: `rows` (reading and checks), `row_sample` (some rows of a large table), `row_facts` (bytes and tokens of a row),
`boards`, `models`, `entries` (records of the catalogue for a row, or new ones), `as_points` (rows as operating points).
Fits: `hierarchical_priors` (priors of runtimes over boards), `model_effects` (random effect of a model),
`board_posteriors` (a posterior for each board). Validation: `splits`, `scores`, `held_out`, `perplexity_rows`,
`power_left_out` (classes of power), `validation`. Never here: the attached board.
"""
