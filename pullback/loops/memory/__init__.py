"""The arena: orders of statements, lifetimes, offsets, tables of what is needed, and the verifier of a plan."""
