"""The functions by subject."""
