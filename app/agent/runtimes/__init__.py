"""Runtimes on the board other than Trilemma's own decoder: each file drives one kind. Standard library only."""
