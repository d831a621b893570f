"""GradBench with Pullback: a tool that speaks its protocol, and an eval of our own that needs nothing from outside."""
