"""Passes over activations: pruning by magnitude, drift compensation with error feedback."""
