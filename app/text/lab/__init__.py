"""The lab: formulas of the two articles with the user's own numbers.

`item` says what a row is, reads inputs and sweeps; `memory`, `kernels`, `model` and `network` hold the rows; `table`
has them by key. The command ``trilemma lab A03`` and the view *Lab* are generated from the rows: another formula is
another row. Never here: the formulas themselves, which are in `core`.
"""
