"""Bench of the kernels: one module a subject, each case against the read bandwidth of that moment."""
