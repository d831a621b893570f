"""Test helpers: random programs, error bounds, an oracle, program comparison, long random runs."""
