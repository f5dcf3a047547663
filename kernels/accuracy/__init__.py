"""Accuracy of a run against a reference run: language modelling, needles in a haystack, the effect of compensation."""
