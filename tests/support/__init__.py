"""Helpers for tests: random programs, error bounds, an oracle, the comparison of programs, and long random runs."""
