"""Passes from an elaborated program to one ready to be lowered."""
