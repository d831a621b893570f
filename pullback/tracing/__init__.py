"""A user's function written down as a program: arrays without values, tracing, loops, index notation, trees."""
