"""C code generation, for compilers with and without vector extensions."""
