"""Loops shared out among threads."""
