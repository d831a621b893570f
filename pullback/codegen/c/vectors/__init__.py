"""C with vector extensions: the types, words, statements and mathematics beyond plain C."""
