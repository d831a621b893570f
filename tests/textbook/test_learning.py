"""Clusters, mixtures, descent and networks from the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(8)


def k_means(x: Any, means: Any) -> Any:
    """Lloyd's: the nearest mean by argmin, then the mean of those near."""
    (n, d), k = x.shape, means.shape[0]

    def step(m: Any, _: Any) -> Any:
        apart = lambda i, c: pb.sum_over(d, lambda a: (x[i, a] - m[c, a]) ** 2)
        near = pb.build(n, lambda i: pb.argmin_over(k, lambda c: apart(i, c)))
        count = pb.build(k, lambda c: pb.sum_over(n, lambda i: pb.where(near[i] == c, 1.0, 0.0)))
        total = lambda c, a: pb.sum_over(n, lambda i: pb.where(near[i] == c, x[i, a], 0.0))
        return pb.build((k, d), lambda c, a: pb.where(count[c] > 0.0, total(c, a) / count[c], m[c, a]))

    return pb.fold(5, means, step)


def plain_k_means(x: Any, means: Any) -> Any:
    m = means.copy()
    for _ in range(5):
        near = np.sum((x[:, None] - m) ** 2, -1).argmin(1)
        m = np.array([x[near == c].mean(0) if np.any(near == c) else m[c] for c in range(len(m))])
    return m


def mixture(x: Any, means: Any, variances: Any, shares: Any) -> Any:
    """Expectation and maximization in one dimension, and the likelihood at the end."""
    n, k = x.shape[0], means.shape[0]

    def densities(m: Any, v: Any, s: Any) -> Any:
        root = lambda c: pb.sqrt(2.0 * np.pi * v[c])
        return pb.build((n, k), lambda i, c: s[c] * pb.exp(-((x[i] - m[c]) ** 2) / (2.0 * v[c])) / root(c))

    def step(state: Any, _: Any) -> Any:
        p = densities(*state)
        total = pb.build(n, lambda i: pb.sum_over(k, lambda c: p[i, c]))
        r = pb.build((n, k), lambda i, c: p[i, c] / total[i])
        weight = pb.build(k, lambda c: pb.sum_over(n, lambda i: r[i, c]))
        m = pb.build(k, lambda c: pb.sum_over(n, lambda i: r[i, c] * x[i]) / weight[c])
        v = pb.build(k, lambda c: pb.sum_over(n, lambda i: r[i, c] * (x[i] - m[c]) ** 2) / weight[c])
        return m, v, weight / n

    m, v, s = pb.fold(3, (means, variances, shares), step)
    p = densities(m, v, s)
    return m, pb.sum_over(n, lambda i: pb.log(pb.sum_over(k, lambda c: p[i, c])))


def plain_mixture(x: Any, means: Any, variances: Any, shares: Any) -> Any:
    m, v, s = means, variances, shares
    density = lambda: s * np.exp(-((x[:, None] - m) ** 2) / (2 * v)) / np.sqrt(np.longdouble(2 * np.pi) * v)
    for _ in range(3):
        r = density()
        r = r / r.sum(1, keepdims=True)
        w = r.sum(0)
        m = x @ r / w
        v = np.sum(r * (x[:, None] - m) ** 2, 0) / w
        s = w / len(x)
    return m, np.sum(np.log(density().sum(1)))


def perceptron(x: Any, y: Any, rate: Any) -> Any:
    """Two passes over the examples; weights change where the sign is wrong."""
    n, d = x.shape

    def example(w: Any, t: Any) -> Any:
        i = t % n
        wrong = y[i] * pb.sum_over(d, lambda a: w[a] * x[i, a]) <= 0.1
        return pb.build(d, lambda a: w[a] + pb.where(wrong, rate * y[i] * x[i, a], 0.0))

    return pb.fold(2 * n, pb.zeros(d), example)


def plain_perceptron(x: Any, y: Any, rate: Any) -> Any:
    w = np.zeros_like(x[0])
    for a, b in [*zip(x, y, strict=True)] * 2:
        if b * (w @ a) <= np.longdouble(0.1):
            w = w + rate * b * a
    return w


def softmax_regression(x: Any, y: Any, w: Any, rate: Any) -> Any:
    """Descent by the gradient that the compiler finds, inside a loop."""
    n, d = x.shape
    k = w.shape[1]

    def loss(w: Any) -> Any:
        score = lambda i, c: pb.sum_over(d, lambda a: x[i, a] * w[a, c])
        return pb.sum_over(n, lambda i: pb.log(pb.sum_over(k, lambda c: pb.exp(score(i, c)))) - score(i, y[i])) / n

    return pb.fold(4, w, lambda w, _: w - rate * pb.grad(loss)(w))


def plain_softmax_regression(x: Any, y: Any, w: Any, rate: Any) -> Any:
    for _ in range(4):
        p = np.exp(x @ w)
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        w = w - rate * x.T @ p / len(y)
    return w


def adam(w: Any, rate: Any) -> Any:
    """On Rosenbrock's valley, with its bias corrected."""
    n = w.shape[0]
    valley = lambda w: pb.sum_over(n - 1, lambda i: 10.0 * (w[i + 1] - w[i] ** 2) ** 2 + (1.0 - w[i]) ** 2)

    def step(state: Any, t: Any) -> Any:
        w, m, v = state
        g = pb.grad(valley)(w)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        age = (t + 1).astype(pb.float64) if hasattr(t, "astype") else t + 1.0
        return w - rate * m / (1.0 - 0.9**age) / (pb.sqrt(v / (1.0 - 0.99**age)) + 1e-3), m, v

    return pb.fold(6, (w, pb.zeros_like(w), pb.zeros_like(w)), step)[0]


def plain_adam(w: Any, rate: Any) -> Any:
    one = np.longdouble(1)
    m, v = np.zeros_like(w), np.zeros_like(w)
    a, b = np.longdouble(0.9), np.longdouble(0.99)
    for t in range(1, 7):
        g = np.zeros_like(w)
        inner = w[1:] - w[:-1] ** 2
        g[1:] += 20 * inner
        g[:-1] += -40 * inner * w[:-1] - 2 * (1 - w[:-1])
        m = a * m + np.longdouble(0.1) * g
        v = b * v + np.longdouble(0.01) * g * g
        w = w - rate * m / (one - a**t) / (np.sqrt(v / (one - b**t)) + np.longdouble(1e-3))
    return w


def logistic(x: Any) -> Any:
    return 1.0 / (1.0 + pb.exp(-x))


def plain_logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def long_short_term(x: Any, w: Any, u: Any, b: Any) -> Any:
    """Four gates in one matrix; the hidden states of all steps."""
    steps, d = x.shape
    n = u.shape[0]

    def step(state: Any, t: Any) -> Any:
        h, c = state
        gates = pb.build(4 * n, lambda k: b[k] + pb.sum_over(d, lambda a: x[t, a] * w[a, k])
                         + pb.sum_over(n, lambda a: h[a] * u[a, k]))
        new = pb.build(n, lambda k: logistic(gates[n + k]) * c[k] + logistic(gates[k]) * pb.tanh(gates[2 * n + k]))
        out = pb.build(n, lambda k: logistic(gates[3 * n + k]) * pb.tanh(new[k]))
        return (out, new), out

    return pb.scan(steps, (pb.zeros(n), pb.zeros(n)), step)[1]


def plain_long_short_term(x: Any, w: Any, u: Any, b: Any) -> Any:
    n = len(u)
    h, c, rows = np.zeros(n, x.dtype), np.zeros(n, x.dtype), []
    for v in x:
        i, f, g, o = np.split(v @ w + h @ u + b, 4)
        c = plain_logistic(f) * c + plain_logistic(i) * np.tanh(g)
        h = plain_logistic(o) * np.tanh(c)
        rows.append(h)
    return np.array(rows)


def gated_unit(x: Any, w: Any, u: Any) -> Any:
    """Update and reset gates as matrices of their own."""
    steps, n = x.shape

    def step(h: Any, t: Any) -> Any:
        z = logistic(x[t] @ w[0] + h @ u[0])
        r = logistic(x[t] @ w[1] + h @ u[1])
        return (1.0 - z) * h + z * pb.tanh(x[t] @ w[2] + (r * h) @ u[2])

    return pb.fold(steps, pb.zeros(n), step)


def plain_gated_unit(x: Any, w: Any, u: Any) -> Any:
    h = np.zeros_like(x[0])
    for v in x:
        z, r = plain_logistic(v @ w[0] + h @ u[0]), plain_logistic(v @ w[1] + h @ u[1])
        h = (1 - z) * h + z * np.tanh(v @ w[2] + (r * h) @ u[2])
    return h


def attention(q: Any, k: Any, v: Any) -> Any:
    """Causal, with the largest score taken off."""
    n, d = q.shape
    m = v.shape[1]
    score = pb.build((n, n), lambda i, j: pb.sum_over(d, lambda a: q[i, a] * k[j, a]) / d**0.5)
    top = pb.build(n, lambda i: pb.max_over(n, lambda j: pb.where(j <= i, score[i, j], -1e9)))
    e = pb.build((n, n), lambda i, j: pb.where(j <= i, pb.exp(score[i, j] - top[i]), 0.0))
    total = pb.build(n, lambda i: pb.sum_over(n, lambda j: e[i, j]))
    return pb.build((n, m), lambda i, c: pb.sum_over(n, lambda j: e[i, j] * v[j, c]) / total[i])


def plain_attention(q: Any, k: Any, v: Any) -> Any:
    p = np.tril(np.exp(q @ k.T / np.sqrt(np.longdouble(q.shape[1]))))
    return p / p.sum(1, keepdims=True) @ v


def convolution_layer(x: Any, w: Any, b: Any) -> Any:
    """Padded by one, stride two, a rectifier and the largest of blocks."""
    h, c = x.shape[0], w.shape[0]
    m = (h + 1) // 2
    window = lambda o, i, j: pb.sum_over((3, 3), lambda p, q: w[o, p, q] * x.at(2 * i + p - 1, 2 * j + q - 1))
    y = pb.build((c, m, m), lambda o, i, j: pb.maximum(window(o, i, j) + b[o], 0.0))
    return pb.build((c, m // 2, m // 2), lambda o, i, j: pb.max_over((2, 2), lambda p, q: y[o, 2 * i + p, 2 * j + q]))


def plain_convolution_layer(x: Any, w: Any, b: Any) -> Any:
    wide = np.pad(x, 1)
    m = (len(x) + 1) // 2
    y = np.zeros((len(w), m, m), x.dtype)
    for i in range(m):
        for j in range(m):
            y[:, i, j] = np.maximum(np.sum(w * wide[2 * i : 2 * i + 3, 2 * j : 2 * j + 3], (1, 2)) + b, 0)
    k = m // 2
    return y[:, : 2 * k, : 2 * k].reshape(len(w), k, 2, k, 2).max((2, 4))


def normalized_layer(x: Any, gain: Any, shift: Any) -> Any:
    n, d = x.shape
    mean = pb.build(n, lambda i: pb.sum_over(d, lambda a: x[i, a]) / d)
    variance = pb.build(n, lambda i: pb.sum_over(d, lambda a: (x[i, a] - mean[i]) ** 2) / d)
    return pb.build((n, d), lambda i, a: gain[a] * (x[i, a] - mean[i]) / pb.sqrt(variance[i] + 1e-5) + shift[a])


def plain_normalized_layer(x: Any, gain: Any, shift: Any) -> Any:
    variance = x.var(1, keepdims=True) + np.longdouble(1e-5)
    return gain * (x - x.mean(1, keepdims=True)) / np.sqrt(variance) + shift


def kernel_regression(x: Any, y: Any, z: Any, width: Any) -> Any:
    near = lambda i, j: pb.exp(-((x[j] - z[i]) ** 2) / width)
    n = x.shape[0]
    weighted = lambda i: pb.sum_over(n, lambda j: near(i, j) * y[j])
    return pb.build(z.shape[0], lambda i: weighted(i) / pb.sum_over(n, lambda j: near(i, j)))


def plain_kernel_regression(x: Any, y: Any, z: Any, width: Any) -> Any:
    k = np.exp(-((x - z[:, None]) ** 2) / width)
    return k @ y / k.sum(1)


@pytest.mark.slow
def test_clusters() -> None:
    x = RNG.normal(size=(37, 2)) + 3 * RNG.integers(0, 2, (37, 2))
    check(
        Algorithm(k_means, plain_k_means, (x, x[:4] + 0.1)),
        Algorithm(mixture, plain_mixture, (x[:, 0], np.array([0.0, 3.0]), np.array([1.0, 1.5]), np.array([0.4, 0.6]))),
        Algorithm(kernel_regression, plain_kernel_regression, (x[:, 0], x[:, 1], RNG.uniform(0, 3, 9), 0.7)),
    )


@pytest.mark.slow
def test_descent() -> None:
    x = RNG.normal(size=(37, 5))
    check(
        Algorithm(perceptron, plain_perceptron, (x, np.sign(x @ np.arange(5.0) - 0.3), 0.3)),
        Algorithm(softmax_regression, plain_softmax_regression,
                  (x, RNG.integers(0, 3, 37), RNG.normal(size=(5, 3)), 0.5)),
        Algorithm(adam, plain_adam, (RNG.uniform(-1, 1, 6), 0.05)),
    )


@pytest.mark.slow
def test_networks() -> None:
    check(
        Algorithm(long_short_term, plain_long_short_term, (
            RNG.normal(size=(7, 3)), RNG.normal(size=(3, 36)), RNG.normal(size=(9, 36)) / 3, RNG.normal(size=36))),
        Algorithm(gated_unit, plain_gated_unit, (
            RNG.normal(size=(5, 9)), RNG.normal(size=(3, 9, 9)) / 3, RNG.normal(size=(3, 9, 9)) / 3)),
        Algorithm(attention, plain_attention, tuple(RNG.normal(size=(37, m)) for m in (4, 4, 5))),
        Algorithm(convolution_layer, plain_convolution_layer, (
            RNG.normal(size=(19, 19)), RNG.normal(size=(3, 3, 3)), RNG.normal(size=3))),
        Algorithm(normalized_layer, plain_normalized_layer, (
            RNG.normal(size=(5, 37)), RNG.normal(size=37), RNG.normal(size=37))),
    )
