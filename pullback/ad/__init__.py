"""Derivatives: edges, bracket solving and elimination orders."""
