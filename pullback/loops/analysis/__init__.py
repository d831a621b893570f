"""Analyses of statements and loops: touched elements, cycles, and arrays that are parts of others."""
