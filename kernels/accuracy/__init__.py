"""Accuracy of a run against a reference run: language modelling, and needles in a haystack."""
