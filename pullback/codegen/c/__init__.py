"""The parts of C text, for compilers with vector extensions and without."""
