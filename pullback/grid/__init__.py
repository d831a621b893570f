"""Kernels for devices as loop IR: group loops of thread loops, one launch for each group loop.

spread.py     any kernel as launches: a thread for each iteration of independent loops
trees.py      reductions by trees in a fixed order
products.py   products of tiles, with panels in shared memory and sums in registers
table.py      the strategies in order
verify.py     the rules that device kernels keep
"""
