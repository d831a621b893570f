"""Rewriting: normal form, common subexpressions, and a record of the rules that fired."""
