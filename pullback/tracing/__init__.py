"""Tracing of a user's function into a program: arrays, loops, index notation, trees."""
