"""Code generation: loop programs as text, with names and vector mathematics."""
