"""Kernels for devices as loop IR: group loops of thread loops, one launch for each group loop.

spread.py     any kernel as launches: a thread for each iteration of independent loops
parts.py      nests of independent loops
wide.py       several elements for each thread
rows.py       chains of statements over the same rows
lanes.py      the threads that share a result, and trees over their states
trees.py      tree reductions in a fixed order
states.py     loops whose states are scans
scans.py      scans, a group of threads for each row; tiles.py has their launches
scatters.py   scatters: keys, then each element collects its terms
writes.py     loops that set elements, of which the last write counts
sorts.py      sorts by merging; runs.py finds the place of one element
transposes.py arrays that are read along another axis, through tiles in shared memory
accesses.py   how the elements of neighboring threads lie in memory
products.py   tiled products, with panels in shared memory and sums in registers
tensor.py     products on tensor cores
vendor.py     products and convolutions by libraries of the device's maker; convolutions.py recognizes the latter, and
              called.py describes both
table.py      the table of strategies, in order
estimates.py  counts of a thread's steps, and of launches
groups.py     loops and branches of the function as kernels of one group
branches.py   short branches, whose condition the kernels read
function.py   a whole function on a device
checks.py     launches after a failed check, and indices that are then undefined
summary.py    a function's launches as text
verify.py     the checks of device kernels
"""
