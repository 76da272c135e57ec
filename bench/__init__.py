"""Measurements, run by hand on a quiet machine; docs/benchmarks.md has the results."""
