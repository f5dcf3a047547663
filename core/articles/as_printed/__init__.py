"""The formulas, code fragments and tables of the two source articles, evaluated exactly as printed.

Nothing here is a default of the program: each function carries the name and the units of its article, and
`core.articles` sets it beside the physical version with the check that it fails.
"""
