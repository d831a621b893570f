"""Explicit vectors: the nest of a build, register tiles, groups of statements in one nest."""
