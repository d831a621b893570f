"""Derivations that can be read: recorded steps as formulas with the rules that made them, in text or Markdown."""
