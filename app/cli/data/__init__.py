"""`trilemma data ...`: tables of measurements: import, export, validate, learn."""
