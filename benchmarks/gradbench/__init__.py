"""GradBench with Pullback: a tool for its protocol, and a self-contained evaluation."""
