"""The formulas, code fragments and tables of the two source articles, evaluated exactly as printed.

Nothing here is a default of the program. Each function has the name and the units of its article; `core.articles`
compares it with the physical version and gives the check that it fails.
"""
