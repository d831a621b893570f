"""Programs to plain loops: storage, kernels, scalar expressions, checks."""
