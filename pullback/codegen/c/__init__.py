"""C: what its text is made of, for compilers with vector extensions and without."""
