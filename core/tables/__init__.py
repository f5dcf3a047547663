"""Tables of published measurements: read, matched to the catalogue, learned from, and held against predictions.

Rows: `rows` (a table read and checked), `row_facts` (bytes and tokens that a row states), `boards`, `models`,
`entries` (catalogue entries that rows mean), `as_points` (rows as operating points). Learning: `hierarchical_priors`
(priors of runtimes over boards), `model_effects` (random effect of a model), `board_posteriors` (a posterior for each
published board). Validation: `splits`, `scores`, `held_out`, `perplexity_rows`, `validation`. Never here: the attached
board.
"""
