"""The edges of a digit: convolutions in index notation.

`x.at` reads 0 outside of the image, so the result is as large as the image. The weights are ordinary arrays, and the
same function could learn them.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float32

import pullback as pb
from pullback import Array, data


@pb.function
def convolve(x: Float32[Array, "H W"], w: Float32[Array, "K 3 3"]):
    H, W = x.shape
    K = w.shape[0]
    window = lambda k, i, j: pb.sum_over((3, 3), lambda u, v: w[k, u, v] * x.at(i + u - 1, j + v - 1, fill=0))
    return pb.build((K, H, W), window)


digit = data.load("digits").test.inputs[3]
sobel = np.float32([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
found = convolve(digit, np.stack([sobel, sobel.T]))
assert np.isclose(found[0, 14, 9], np.sum(sobel * digit[13:16, 8:11]), atol=1e-5)

strength = np.hypot(*found)
fig, parts = plt.subplots(1, 4, figsize=(7, 2.2), layout="constrained")
for part, image, name in zip(parts, (digit, *found, strength), ("digit", "left to right", "top to bottom", "strength")):
    part.imshow(image, cmap="gray")
    part.set_title(name, fontsize=9)
    part.axis("off")
