"""The arena: orders of statements, lifetimes, offsets, and the verifier of a plan."""
