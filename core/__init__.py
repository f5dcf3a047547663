"""The engine: pure functions and frozen records over numpy arrays. No Qt, no torch, no clock, no network, no state.

===========  ==========================================================================================================
room         holds
===========  ==========================================================================================================
units        constants of units, and the check of ranges
spec         the vocabulary: boards, models, formats, runtimes, operating points, estimates and their provenance
physics      formulas, one subject a file: look here to find or change an equation
catalogue    resource files, the user's files and GGUF headers as records; names as people write them
predict      an operating point to its prediction with intervals, and all that is derived from predictions
articles     the two source articles: as printed, the check each item fails, and the formulas only they use
calibrate    measurements of one board to a posterior, and the next measurement to make
tables       tables of published measurements: rows to operating points, priors, validation
===========  ==========================================================================================================

Arrows point down this list the other way round: tables -> calibrate -> predict | articles -> catalogue -> physics ->
spec -> units. Each room's docstring lists its modules. Sources M1 to M13 are the sections of docs/physics.md; A01 to
A17 and B01 to B16 are the items of the two articles (docs/articles.md).
"""
