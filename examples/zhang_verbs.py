"""Zhang's network for handwritten digits in ten lines of rank verbs.

They follow the ten lines of APL of Šinkarovs, Bernecky and Scholz (2019). The gradient by hand, as in their program,
is the one `pb.grad` derives.

python examples/zhang_verbs.py
"""

import numpy as np
from jaxtyping import Float, UInt8

import pullback as pb
from pullback import Array, add, exp, maximum
from pullback.nn.models.zhang import Layers, Parameters, start
from pullback.verbs import (
    drop,
    each,
    index_of,
    iota,
    rank,
    ravel,
    reduce,
    replicate,
    reshape,
    shape,
    stencil,
    take,
    transpose,
)

# fmt: off
# The ten blocks
blog = lambda d, y: d * y * (1 - y)
backbias = lambda d: reduce(add, d, axis=None)
logistic = lambda x: 1 / (1 + exp(-x))
maxpos = lambda y: index_of(ravel(y), reduce(maximum, ravel(y)))
backavgpool = rank(lambda d: replicate(2, replicate(2, d / 4), axis=0), 2)
meansqerr = lambda y, t: reduce(add, (y - t) ** 2, axis=None) / 2
avgpool = rank(lambda x: stencil(lambda v: reduce(add, v, axis=None), (2, 2), (2, 2))(x) / 4, 2)
conv = lambda w, x: reduce(add, ravel(each(lambda a, i: a * take(shape(x) - shape(w) + 1, drop(i, x)))(w, iota(shape(w)))))  # noqa: E501
backin = lambda d, w, x: reduce(add, ravel(each(lambda a, i: take(shape(x), take(-(i + shape(d)), a * d)))(w, iota(shape(w)))))  # noqa: E501
multiconv = lambda x, ws, bs: rank(lambda b, w: b + conv(w, x), (0, len(shape(x))))(bs, ws)

# The same by other means
average = lambda x: reduce(add, x, axis=None) / x.size
trim = lambda n, x: drop(-n, drop(n, x))
convstencil = lambda w, x: trim((shape(w) - 1) // 2, stencil(lambda v: reduce(add, w * v, axis=None), shape(w))(x))
blocks = lambda p, q, h, w, x: reshape((h // p, w // q, q, p), rank(transpose, 2)(reshape((h // p, p, w), x)))
avgreshape = rank(lambda x: rank(average, 2)(blocks(2, 2, *shape(x), x)), 2)
avgpoolby = lambda n, x: rank(lambda c: rank(average, 2)(blocks(*n, *shape(c), c)), 2)(x)
spread = lambda h, w, d: replicate(h, replicate(w, d / (h * w)), axis=0)
backpoolby = lambda n, d: rank(lambda c: spread(*n, c), 2)(d)
# fmt: on


@pb.function
def layers(parameters: Parameters, image: Float[Array, "28 28"]) -> Layers:
    """All layers for one image."""
    k1, b1, k2, b2, fc, b = parameters
    c1 = logistic(multiconv(image, k1, b1))
    s1 = avgpool(c1)
    c2 = logistic(multiconv(s1, k2, b2))
    s2 = avgpool(c2)
    y = logistic(multiconv(s2, fc, b))
    return Layers(c1, s1, c2, s2, y)


def one_hot(label, y):
    """1 at the position of the label, 0 elsewhere."""
    return pb.where(pb.reshape(iota(y.size), y.shape) == label, 1.0, 0.0)


@pb.function
def loss(parameters: Parameters, image: Float[Array, "28 28"], label: UInt8[Array, ""]):
    """Half the squared error of one image."""
    y = layers(parameters, image).y
    return meansqerr(y, one_hot(label, y))


@pb.function
def digit(parameters: Parameters, image: Float[Array, "28 28"]):
    """The most likely digit."""
    return maxpos(layers(parameters, image).y)


def backmulticonv(d, ws, x):
    """The cotangents of x, the windows and the biases of a `multiconv` with that of its result."""
    n = len(shape(x))
    dx = reduce(add, rank(lambda d, w: backin(d, w, x), n)(d, ws), axis=0)
    return dx, rank(lambda d: conv(d, x), n)(d), rank(backbias, n)(d)


@pb.function
def gradient(parameters: Parameters, image: Float[Array, "28 28"], label: UInt8[Array, ""]) -> Parameters:
    """The gradient of the loss by hand, layer by layer from the last to the first."""
    c1, s1, c2, s2, y = layers(parameters, image)
    ds2, dfc, db = backmulticonv(blog(y - one_hot(label, y), y), parameters.fc, s2)
    ds1, dk2, db2 = backmulticonv(blog(backavgpool(ds2), c2), parameters.k2, s1)
    _, dk1, db1 = backmulticonv(blog(backavgpool(ds1), c1), parameters.k1, image)
    return Parameters(dk1, db1, dk2, db2, dfc, db)


def main() -> None:
    parameters = start(seed=1, dtype=np.float64)
    image, label = np.random.default_rng(0).random((28, 28)), np.uint8(7)
    for name, layer in layers(parameters, image)._asdict().items():
        print(name, *layer.shape)
    print("loss", loss(parameters, image, label), "digit", digit(parameters, image))
    by_hand, derived = gradient(parameters, image, label), pb.grad(loss)(parameters, image, label)
    print("largest difference of the gradients", max(np.abs(a - b).max() for a, b in zip(by_hand, derived)))


if __name__ == "__main__":
    main()
