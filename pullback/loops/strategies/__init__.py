"""Builds with conditions, periods or borders, and recurrences: forms that make them tiles or groups."""
