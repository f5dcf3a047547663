"""`trilemma lab ...`: calculators that need neither a board nor its measurements."""
