"""The machine itself: memory bandwidth, limits on it, and timing on a machine that is never quiet."""
