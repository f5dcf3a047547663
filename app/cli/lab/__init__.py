"""`trilemma lab ...`: calculators that touch neither a board nor the measurements of one."""
