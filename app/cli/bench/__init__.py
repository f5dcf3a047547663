"""`trilemma bench ...`: timings of Trilemma itself, one subject a module; `subjects` is the command."""
