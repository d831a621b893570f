"""Transforms, filters and estimators from the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(3)


def radix_two(re: Any, im: Any) -> Any:
    """Cooley and Tukey's transform: bits reversed, then butterflies of growing width, all written out."""
    n, bits = 64, 6

    def reverse(i: Any) -> Any:
        out = 0
        for b in range(bits):
            out = out + (i // 2**b) % 2 * 2 ** (bits - 1 - b)
        return out

    x = pb.build(n, lambda i: re[reverse(i)]), pb.build(n, lambda i: im[reverse(i)])
    for s in range(bits):
        half = 2**s

        def butterfly(i: Any, x: Any = x, half: int = half) -> Any:
            first = i // (2 * half) * (2 * half) + i % half
            angle = -np.pi * (i % half) / half
            c, d = pb.cos(angle), pb.sin(angle)
            other = first + half
            re, im = x[0].at(other), x[1].at(other)
            turned = c * re - d * im, c * im + d * re
            sign = pb.where(i % (2 * half) < half, 1.0, -1.0)
            return x[0].at(first) + sign * turned[0], x[1].at(first) + sign * turned[1]

        x = pb.build(n, lambda i: butterfly(i)[0]), pb.build(n, lambda i: butterfly(i)[1])
    return x


def plain_radix_two(re: Any, im: Any) -> Any:
    k = np.arange(len(re))
    angle = -2 * np.longdouble("3.14159265358979323846") * np.outer(k, k) / len(re)
    return np.cos(angle) @ re - np.sin(angle) @ im, np.cos(angle) @ im + np.sin(angle) @ re


def haar(x: Any) -> Any:
    """All levels in place: sums in the first half, differences in the second."""
    n = 64
    root = 2.0**-0.5
    for half in (32, 16, 8, 4, 2, 1):

        def element(i: Any, x: Any = x, half: int = half) -> Any:
            low = root * (x.at(2 * i) + x.at(2 * i + 1))
            high = root * (x.at(2 * (i - half)) - x.at(2 * (i - half) + 1))
            return pb.where(i < half, low, pb.where(i < 2 * half, high, x[i]))

        x = pb.build(n, element)
    return x


def plain_haar(x: Any) -> Any:
    out = []
    while len(x) > 1:
        out.append((x[::2] - x[1::2]) / np.sqrt(np.longdouble(2)))
        x = (x[::2] + x[1::2]) / np.sqrt(np.longdouble(2))
    return np.concatenate([x, *out[::-1]])


def biquads(x: Any, b: Any, a: Any) -> Any:
    """Second-order sections in series, each in transposed direct form."""
    sections = b.shape[0]

    def section(x: Any, k: Any) -> Any:
        def sample(z: Any, n: Any) -> Any:
            y = b[k, 0] * x[n] + z[0]
            return (b[k, 1] * x[n] - a[k, 0] * y + z[1], b[k, 2] * x[n] - a[k, 1] * y), y

        return pb.scan(x.shape[0], (0.0, 0.0), sample)[1]

    return pb.fold(sections, x, section)


def plain_biquads(x: Any, b: Any, a: Any) -> Any:
    for k in range(len(b)):
        y = np.zeros_like(x)
        for n in range(len(x)):
            back = lambda v, m: v[n - m] if n >= m else 0
            y[n] = sum(b[k, m] * back(x, m) for m in range(3)) - sum(a[k, m] * back(y, m + 1) for m in range(2))
        x = y
    return x


def finite_response(x: Any, h: Any) -> Any:
    return pb.build(x.shape[0], lambda n: pb.sum_over(h.shape[0], lambda k: h[k] * x.at(n - k)))


def plain_finite_response(x: Any, h: Any) -> Any:
    return np.convolve(x, h)[: len(x)]


def convolution(x: Any, h: Any) -> Any:
    """All of it, as a loop over the samples that adds shifted copies."""
    n, m = x.shape[0], h.shape[0]
    add = lambda y, k: pb.build(n + m - 1, lambda i: y[i] + x[k] * h.at(i - k))
    return pb.fold(n, pb.zeros(n + m - 1), add)


def smoothing(x: Any, alpha: Any, beta: Any) -> Any:
    """Holt's double exponential smoothing."""

    def step(state: Any, t: Any) -> Any:
        level, trend = state
        new = alpha * x[t] + (1.0 - alpha) * (level + trend)
        return (new, beta * (new - level) + (1.0 - beta) * trend), new + trend

    return pb.scan(x.shape[0], (x[0], x[1] - x[0]), step)[1]


def plain_smoothing(x: Any, alpha: Any, beta: Any) -> Any:
    level, trend, out = x[0], x[1] - x[0], []
    for v in x:
        before = level
        level = alpha * v + (1 - alpha) * (level + trend)
        out.append(level + trend)
        trend = beta * (level - before) + (1 - beta) * trend
    return np.array(out)


def kalman(z: Any, f: Any, q: Any, r: Any) -> Any:
    """Two states, one of them measured."""

    def step(state: Any, t: Any) -> Any:
        x, p = state
        ahead = pb.build(2, lambda i: pb.sum_over(2, lambda j: f[i, j] * x[j]))
        spread = pb.build((2, 2), lambda i, j: pb.sum_over((2, 2), lambda k, l: f[i, k] * p[k, l] * f[j, l]) + q[i, j])
        gain = pb.build(2, lambda i: spread[i, 0] / (spread[0, 0] + r))
        error = z[t] - ahead[0]
        new = ahead + gain * error, pb.build((2, 2), lambda i, j: spread[i, j] - gain[i] * spread[0, j])
        return new, new[0]

    (_, p), path = pb.scan(z.shape[0], (pb.zeros(2), pb.eye(2)), step)
    return path, p


def plain_kalman(z: Any, f: Any, q: Any, r: Any) -> Any:
    x, p, h, path = np.zeros(2, z.dtype), np.eye(2, dtype=z.dtype), np.array([1, 0]), []
    for v in z:
        x, p = f @ x, f @ p @ f.T + q
        k = p @ h / (h @ p @ h + r)
        x, p = x + k * (v - h @ x), (np.eye(2) - np.outer(k, h)) @ p
        path.append(x)
    return np.array(path), p


def least_mean_squares(x: Any, d: Any, mu: Any) -> Any:
    taps = 4

    def step(w: Any, n: Any) -> Any:
        y = pb.sum_over(taps, lambda k: w[k] * x.at(n - k))
        error = d[n] - y
        return pb.build(taps, lambda k: w[k] + mu * error * x.at(n - k)), error

    return pb.scan(x.shape[0], pb.zeros(taps), step)


def plain_least_mean_squares(x: Any, d: Any, mu: Any) -> Any:
    w, errors, padded = np.zeros(4, x.dtype), [], np.concatenate([np.zeros(3, x.dtype), x])
    for n in range(len(x)):
        window = padded[n : n + 4][::-1]
        e = d[n] - w @ window
        w = w + mu * e * window
        errors.append(e)
    return w, np.array(errors)


def hillis_steele(x: Any) -> Any:
    n = x.shape[0]
    for k in range(6):
        x = pb.build(n, lambda i, x=x, k=k: x[i] + x.at(i - 2**k))
    return x


def blelloch(x: Any) -> Any:
    """Sums before each element: up the tree, and down again."""
    n = 64
    for k in range(6):
        wide = 2 ** (k + 1)
        x = pb.build(n, lambda i, x=x, w=wide: pb.where(i % w == w - 1, x[i] + x.at(i - w // 2), x[i]))
    x = pb.build(n, lambda i: pb.where(i == n - 1, 0.0, x[i]))
    for k in reversed(range(6)):
        w = 2 ** (k + 1)

        def down(i: Any, x: Any = x, w: int = w) -> Any:
            right = x[i] + x.at(i - w // 2)
            return pb.where(i % w == w - 1, right, pb.where(i % w == w // 2 - 1, x.at(i + w // 2), x[i]))

        x = pb.build(n, down)
    return x


def goertzel(x: Any, w: Any) -> Any:
    """The power at one frequency."""
    c = 2.0 * pb.cos(w)
    s1, s2 = pb.fold(x.shape[0], (0.0, 0.0), lambda s, n: (x[n] + c * s[0] - s[1], s[0]))
    return s1 * s1 + s2 * s2 - c * s1 * s2


def plain_goertzel(x: Any, w: Any) -> Any:
    n = np.arange(len(x))
    return np.sum(x * np.cos(w * n)) ** 2 + np.sum(x * np.sin(w * n)) ** 2


def bilinear(image: Any, places: Any) -> Any:
    """Samples between the pixels of an image, the border repeated."""
    h, w = image.shape

    def sample(p: Any) -> Any:
        y, x = places[p, 0], places[p, 1]
        i, j = pb.floor(y).astype(pb.int64), pb.floor(x).astype(pb.int64)
        a, b = y - pb.floor(y), x - pb.floor(x)
        at = lambda i, j: image[pb.clip(i, 0, h - 1), pb.clip(j, 0, w - 1)]
        above = (1.0 - b) * at(i, j) + b * at(i, j + 1)
        return (1.0 - a) * above + a * ((1.0 - b) * at(i + 1, j) + b * at(i + 1, j + 1))

    return pb.build(places.shape[0], sample)


def plain_bilinear(image: Any, places: Any) -> Any:
    h, w = image.shape
    out = []
    for y, x in places:
        i, j = int(np.floor(y)), int(np.floor(x))
        rows = np.clip([i, i + 1], 0, h - 1)
        columns = np.clip([j, j + 1], 0, w - 1)
        a, b = y - i, x - j
        out.append(np.array([1 - a, a]) @ image[np.ix_(rows, columns)] @ np.array([1 - b, b]))
    return np.array(out)


@pytest.mark.slow
def test_transforms() -> None:
    check(
        Algorithm(radix_two, plain_radix_two, (RNG.uniform(-1, 1, 64), RNG.uniform(-1, 1, 64))),
        Algorithm(haar, plain_haar, (RNG.uniform(-1, 1, 64),)),
        Algorithm(hillis_steele, np.cumsum, (RNG.uniform(-1, 1, 37),)),
        Algorithm(blelloch, lambda x: np.cumsum(x) - x, (RNG.uniform(-1, 1, 64),)),
        Algorithm(goertzel, plain_goertzel, (RNG.uniform(-1, 1, 37), 0.7)),
    )


def test_filters() -> None:
    x, h = RNG.uniform(-1, 1, 37), RNG.uniform(-1, 1, 9)
    check(
        Algorithm(biquads, plain_biquads, (x, RNG.uniform(-1, 1, (3, 3)), RNG.uniform(-0.4, 0.4, (3, 2)))),
        Algorithm(finite_response, plain_finite_response, (x, h)),
        Algorithm(convolution, np.convolve, (x, h)),
        Algorithm(smoothing, plain_smoothing, (x, 0.3, 0.2)),
    )


def test_estimators() -> None:
    x = RNG.uniform(-1, 1, 37)
    q = np.array([[0.02, 0.01], [0.01, 0.03]])
    check(
        Algorithm(kalman, plain_kalman, (x, np.array([[1.0, 0.1], [-0.1, 0.95]]), q, 0.3)),
        Algorithm(least_mean_squares, plain_least_mean_squares, (x, RNG.uniform(-1, 1, 37), 0.1)),
        Algorithm(bilinear, plain_bilinear, (RNG.uniform(-1, 1, (7, 9)), RNG.uniform(-0.5, 8.5, (37, 2)))),
    )
