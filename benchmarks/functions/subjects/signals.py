"""Signals, images and distances."""

from __future__ import annotations

import math
from typing import Any

import pullback as pb
from benchmarks.functions.cases import between, case, symmetric


@case("scipy.signal.convolve2d", between(-1.0, 1.0, "n 6"), between(-1.0, 1.0, "3 2"), lacking=True, note="mode full")
def convolve2d(a: Any, b: Any) -> Any:
    return pb.build((a.shape[0] + 2, 7), lambda i, j: pb.sum_over((3, 2), lambda k, l: b[k, l] * a.at(i - k, j - l)))


@case(
    "scipy.signal.correlate2d", between(-1.0, 1.0, "n+2 6"), between(-1.0, 1.0, "3 2"), lacking=True, note="mode valid"
)
def correlate2d(a: Any, b: Any) -> Any:
    return pb.build((a.shape[0] - 2, 5), lambda i, j: pb.sum_over((3, 2), lambda k, l: b[k, l] * a[i + k, j + l]))


@case("scipy.signal.detrend", between(-1.0, 1.0), lacking=True, tolerance=1e-9)
def detrend(x: Any) -> Any:
    n = x.shape[0]
    t = pb.arange(n).astype(pb.float64) - (n - 1) / 2
    return x - pb.mean(x) - t * (pb.sum(t * x) / pb.sum(t * t))


@case("scipy.signal.lfilter", between(-1.0, 1.0, "3"), between(-0.3, 0.3, "2"), between(-1.0, 1.0), lacking=True)
def lfilter(b: Any, a: Any, x: Any) -> Any:
    def step(state: Any, i: Any) -> Any:
        first, second = state
        y = b[0] * x[i] + first
        return (b[1] * x[i] - a[0] * y + second, b[2] * x[i] - a[1] * y), y

    return pb.scan(x.shape[0], (pb.asarray(0.0), pb.asarray(0.0)), step)[1]


@case("scipy.signal.savgol_filter", between(-1.0, 1.0, "n+4"), lacking=True, note="5 wide, quadratic, inside")
def savgol_filter(x: Any) -> Any:
    weights = pb.asarray([-3.0, 12.0, 17.0, 12.0, -3.0])
    return pb.build(x.shape[0] - 4, lambda i: pb.sum_over(5, lambda k: weights[k] * x[i + k]) / 35)


@case("scipy.signal.medfilt", between(-1.0, 1.0), lacking=True, note="3 wide, zeros outside")
def medfilt(x: Any) -> Any:
    def middle(i: Any) -> Any:
        a, b, c = x.at(i - 1), x[i], x.at(i + 1)
        return pb.maximum(pb.minimum(a, b), pb.minimum(pb.maximum(a, b), c))

    return pb.build(x.shape[0], middle)


@case("scipy.signal.upfirdn", between(-1.0, 1.0, "4"), between(-1.0, 1.0), lacking=True, note="up 3, down 2")
def upfirdn(h: Any, x: Any) -> Any:
    n = x.shape[0]
    length = ((n - 1) * 3 + 4 - 1) // 2 + 1
    return pb.build(
        length, lambda i: pb.sum_over(4, lambda k: pb.where((2 * i - k) % 3 == 0, h[k] * x.at((2 * i - k) // 3), 0.0))
    )


@case(
    "scipy.signal.welch",
    between(-1.0, 1.0, "64"),
    sizes=(5,),
    lacking=True,
    note="density, Hann, 16 points, half overlapping",
    tolerance=1e-9,
)
def welch(x: Any) -> Any:
    window = pb.build(16, lambda i: 0.5 - 0.5 * pb.cos(2 * math.pi * i / 16))
    segments = pb.build((7, 16), lambda s, i: x[8 * s + i])
    waves = (segments - pb.mean(segments, axis=1, keepdims=True)) * window

    def power(k: Any) -> Any:
        def part(s: Any, wave: Any) -> Any:
            return pb.sum_over(16, lambda i: waves[s, i] * wave(2 * math.pi * k * i / 16))

        return pb.sum_over(7, lambda s: part(s, pb.cos) ** 2 + part(s, pb.sin) ** 2) / 7

    sides = pb.build(9, lambda k: pb.where((k > 0) & (k < 8), 2.0, 1.0))
    return sides * pb.build(9, power) / pb.sum(window**2)


@case(
    "scipy.signal.chirp", between(0.0, 2.0), between(1.0, 2.0, ""), between(3.0, 5.0, ""), lacking=True, note="linear"
)
def chirp(t: Any, f0: Any, f1: Any) -> Any:
    return pb.cos(2 * math.pi * (f0 * t + 0.5 * (f1 - f0) * t * t))


@case("scipy.signal.windows.gaussian", between(2.0, 6.0, ""), lacking=True, note="40 points, by the deviation")
def gaussian_window(std: Any) -> Any:
    return pb.build(40, lambda i: pb.exp(-(((i - 19.5) / std) ** 2) / 2))


@case(
    "scipy.signal.deconvolve",
    between(-1.0, 1.0, "n+3"),
    between(0.2, 0.5, "3"),
    lacking=True,
    note="quotient; 1 before the divisor",
)
def deconvolve(signal: Any, divisor: Any) -> Any:
    n = signal.shape[0] - 3

    def step(rest: Any, i: Any) -> Any:
        q = rest[0]
        shifted = pb.build(4, lambda k: pb.where(k < 3, rest.at(k + 1) - q * divisor.at(k), signal.at(i + 4)))
        return shifted, q

    return pb.scan(n, signal[:4], step)[1]


@case(
    "scipy.ndimage.gaussian_filter1d",
    between(-1.0, 1.0, "n+8"),
    between(0.8, 2.0, ""),
    lacking=True,
    note="mode constant, radius 4",
)
def gaussian_filter1d(x: Any, sigma: Any) -> Any:
    weights = pb.build(9, lambda k: pb.exp(-(((k - 4) / sigma) ** 2) / 2))
    weights = weights / pb.sum(weights)
    return pb.build(x.shape[0], lambda i: pb.sum_over(9, lambda k: weights[k] * x.at(i + k - 4)))


@case("scipy.ndimage.laplace", between(-1.0, 1.0, "n 5"), lacking=True, note="mode wrap")
def laplace(x: Any) -> Any:
    n, m = x.shape
    return pb.build(
        (n, m), lambda i, j: x[(i + 1) % n, j] + x[(i - 1) % n, j] + x[i, (j + 1) % m] + x[i, (j - 1) % m] - 4 * x[i, j]
    )


@case(
    "scipy.ndimage.sobel",
    between(-1.0, 1.0, "n 5"),
    lacking=True,
    note="mode nearest, along the last axis; its squares",
)
def sobel(x: Any) -> Any:
    n, m = x.shape
    edge = pb.build((n + 2, m + 2), lambda i, j: x[pb_clamp(i - 1, n), pb_clamp(j - 1, m)])
    smooth = pb.asarray([1.0, 2.0, 1.0])
    return pb.build(
        (n, m), lambda i, j: pb.sum_over(3, lambda k: smooth[k] * (edge[i + k, j + 2] - edge[i + k, j])) ** 2
    )


def pb_clamp(i: Any, n: Any) -> Any:
    return pb.in_range(pb.clip(i, 0, n - 1), n)


@case(
    "scipy.ndimage.map_coordinates", between(-1.0, 1.0, "6 5"), between(0.1, 3.9, "2 n"), lacking=True, note="order 1"
)
def map_coordinates(image: Any, places: Any) -> Any:
    low = pb.floor(places)
    share = places - low
    corner = pb.in_range(low.astype(pb.int64), 4)

    def at(i: Any) -> Any:
        r, c = corner[0, i], corner[1, i]
        u, v = share[0, i], share[1, i]
        top = (1 - v) * image[r, c] + v * image[r, c + 1]
        return (1 - u) * top + u * ((1 - v) * image[r + 1, c] + v * image[r + 1, c + 1])

    return pb.build(places.shape[1], at)


@case(
    "scipy.ndimage.maximum_filter1d", between(-1.0, 1.0), lacking=True, note="3 wide, mode constant, the least outside"
)
def maximum_filter1d(x: Any) -> Any:
    return pb.build(x.shape[0], lambda i: pb.max_over(3, lambda k: x.at(i + k - 1, fill=-pb.inf)))


@case("scipy.spatial.distance.euclidean", between(-1.0, 1.0), between(-1.0, 1.0), lacking=True)
def euclidean(u: Any, v: Any) -> Any:
    return pb.sqrt(pb.sum((u - v) ** 2))


@case("scipy.spatial.distance.minkowski", between(-1.0, 1.0), between(-1.0, 1.0), between(1.5, 4.0, ""), lacking=True)
def minkowski(u: Any, v: Any, p: Any) -> Any:
    return pb.sum(pb.abs(u - v) ** p) ** (1 / p)


@case("scipy.spatial.distance.chebyshev", between(-1.0, 1.0), between(-1.0, 1.0), lacking=True)
def chebyshev(u: Any, v: Any) -> Any:
    return pb.max(pb.abs(u - v))


@case("scipy.spatial.distance.cosine", between(-1.0, 1.0), between(-1.0, 1.0), lacking=True)
def cosine(u: Any, v: Any) -> Any:
    return 1 - u @ v / pb.sqrt((u @ u) * (v @ v))


@case("scipy.spatial.distance.canberra", between(-1.0, 1.0), between(-1.0, 1.0), lacking=True)
def canberra(u: Any, v: Any) -> Any:
    return pb.sum(pb.abs(u - v) / (pb.abs(u) + pb.abs(v)))


@case("scipy.spatial.distance.braycurtis", between(0.0, 1.0), between(0.0, 1.0), lacking=True)
def braycurtis(u: Any, v: Any) -> Any:
    return pb.sum(pb.abs(u - v)) / pb.sum(pb.abs(u + v))


@case(
    "scipy.spatial.distance.mahalanobis",
    between(-1.0, 1.0),
    between(-1.0, 1.0),
    symmetric(),
    lacking=True,
    sizes=(4, 34),
)
def mahalanobis(u: Any, v: Any, vi: Any) -> Any:
    d = u - v
    return pb.sqrt(d @ vi @ d)


@case("scipy.spatial.distance.jensenshannon", between(0.1, 1.0), between(0.1, 1.0), lacking=True)
def jensenshannon(p: Any, q: Any) -> Any:
    p, q = p / pb.sum(p), q / pb.sum(q)
    m = (p + q) / 2
    return pb.sqrt((pb.sum(p * pb.log(p / m)) + pb.sum(q * pb.log(q / m))) / 2)


@case("scipy.spatial.distance.cdist", between(-1.0, 1.0, "n 3"), between(-1.0, 1.0, "6 3"), lacking=True)
def cdist(a: Any, b: Any) -> Any:
    return pb.build((a.shape[0], 6), lambda i, j: pb.sqrt(pb.sum_over(3, lambda k: (a[i, k] - b[j, k]) ** 2)))


@case("scipy.spatial.distance.directed_hausdorff", between(-1.0, 1.0, "n 2"), between(-1.0, 1.0, "6 2"), lacking=True)
def directed_hausdorff(u: Any, v: Any) -> Any:
    return pb.sqrt(
        pb.max_over(u.shape[0], lambda i: pb.min_over(6, lambda j: pb.sum_over(2, lambda k: (u[i, k] - v[j, k]) ** 2)))
    )
