"""Conway's game of life: the glider gun after 120 generations.

The rule is one line of index notation: a cell lives if it and its neighbors count three, or four with itself alive.
The board is a torus, because `roll` is cyclic.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Int64

import pullback as pb
from pullback import Array

GUN = """
........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................
"""


@pb.function
def live(board: Int64[Array, "H W"], generations: pb.Size["T"]):
    def next_generation(b, t):
        count = sum(pb.roll(pb.roll(b, i, axis=0), j, axis=1) for i in (-1, 0, 1) for j in (-1, 0, 1))
        return pb.build(b.shape, lambda i, j: pb.where((count[i, j] == 3) | (count[i, j] == 4) & (b[i, j] == 1), 1, 0))

    return pb.fold(generations, board, next_generation)


gun = np.array([[letter == "O" for letter in line] for line in GUN.split()], np.int64)
board = np.zeros((60, 80), np.int64)
board[1:10, 1:37] = gun
after = live(board, 120)
assert np.array_equal(after[1:10, 1:37], gun)  # the gun has period 30
assert after.sum() == gun.sum() + 4 * 5  # and has fired four gliders of five cells

plt.imshow(after, cmap="binary")
plt.gca().spines[:].set_visible(True)
plt.xticks([])
plt.yticks([])
