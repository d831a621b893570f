"""Derivations to read: recorded steps as formulas with their rules, in text or Markdown."""
