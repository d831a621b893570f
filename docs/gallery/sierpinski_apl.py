"""Sierpinski's triangle in a line of APL.

The columns of `b` are the binary digits of the numbers below 256. `(⍉b)+.×b` counts the ones that two numbers share;
a point is black where they share none. `pb.apl` compiles the line.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb

triangle = pb.apl("{b←(8⍴2)⊤⍵ ⋄ 0=(⍉b)+.×b}")
points = triangle(np.arange(256))
assert points.sum() == 3**8

plt.imshow(points, cmap="binary", interpolation="antialiased")
plt.axis("off")
