"""What C for compilers with vector extensions has beside plain C: types, words, statements, mathematics."""
