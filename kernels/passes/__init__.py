"""Passes over activations: pruning by magnitude, drift compensation, sliding statistics and offsets of channels."""
