"""Equations in time and space, by the schemes of the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(7)


def heat(u: Any, r: Any) -> Any:
    """Explicit, the ends held."""
    n = u.shape[0]
    inner = lambda u, i: u[i] + r * (u.at(i - 1) - 2.0 * u[i] + u.at(i + 1))
    step = lambda u, _: pb.build(n, lambda i: pb.where((i > 0) & (i < n - 1), inner(u, i), u[i]))
    return pb.fold(8, u, step)


def plain_heat(u: Any, r: Any) -> Any:
    u = u.copy()
    for _ in range(8):
        u[1:-1] += r * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def implicit_heat(u: Any, r: Any) -> Any:
    """A tridiagonal system in every step, solved by scans."""
    n = u.shape[0]

    def step(u: Any, _: Any) -> Any:
        def down(state: Any, i: Any) -> Any:
            c, d = state
            pivot = 1.0 + 2.0 * r + r * c
            new = -r / pivot, (u[i] + r * d) / pivot
            return new, new

        _, (c, d) = pb.scan(n, (0.0, 0.0), down)

        def up(x: Any, t: Any) -> Any:
            new = d[n - 1 - t] - c[n - 1 - t] * x
            return new, new

        back = pb.scan(n, 0.0, up)[1]
        return pb.build(n, lambda i: back[n - 1 - i])

    return pb.fold(4, u, step)


def plain_implicit_heat(u: Any, r: Any) -> Any:
    n = len(u)
    for _ in range(4):
        a = (1 + 2 * r) * np.eye(n) - r * np.eye(n, k=1) - r * np.eye(n, k=-1)
        b = u.copy()
        for k in range(n - 1):
            f = a[k + 1, k] / a[k, k]
            a[k + 1] -= f * a[k]
            b[k + 1] -= f * b[k]
        for k in reversed(range(n)):
            b[k] = (b[k] - a[k, k + 1 :] @ b[k + 1 :]) / a[k, k]
        u = b
    return u


def wave(u: Any, c: Any) -> Any:
    """Leapfrog in time: two states that change places."""
    n = u.shape[0]

    def step(state: Any, _: Any) -> Any:
        old, now = state
        new = lambda i: 2.0 * now[i] - old[i] + c * c * (now.at(i - 1) - 2.0 * now[i] + now.at(i + 1))
        return now, pb.build(n, new)

    return pb.fold(9, (u, u), step)


def plain_wave(u: Any, c: Any) -> Any:
    old, now = u, u
    for _ in range(9):
        wide = np.pad(now, 1)
        old, now = now, 2 * now - old + c * c * (wide[:-2] - 2 * now + wide[2:])
    return old, now


def burgers(u: Any, dt: Any, nu: Any) -> Any:
    """Upwind, periodic."""
    n = u.shape[0]

    def step(u: Any, _: Any) -> Any:
        def element(i: Any) -> Any:
            left, right = u[(i + n - 1) % n], u[(i + 1) % n]
            slope = pb.where(u[i] > 0.0, u[i] - left, right - u[i])
            return u[i] - dt * u[i] * slope + nu * (left - 2.0 * u[i] + right)

        return pb.build(n, element)

    return pb.fold(7, u, step)


def plain_burgers(u: Any, dt: Any, nu: Any) -> Any:
    for _ in range(7):
        left, right = np.roll(u, 1), np.roll(u, -1)
        slope = np.where(u > 0, u - left, right - u)
        u = u - dt * u * slope + nu * (left - 2 * u + right)
    return u


def diffusion_in_two(u: Any, d: Any) -> Any:
    """Alternating directions, explicit: rows, then columns."""
    m, n = u.shape

    def step(u: Any, _: Any) -> Any:
        v = pb.build((m, n), lambda i, j: u[i, j] + d * (u.at(i - 1, j) - 2.0 * u[i, j] + u.at(i + 1, j)))
        return pb.build((m, n), lambda i, j: v[i, j] + d * (v.at(i, j - 1) - 2.0 * v[i, j] + v.at(i, j + 1)))

    return pb.fold(3, u, step)


def plain_diffusion_in_two(u: Any, d: Any) -> Any:
    for _ in range(3):
        w = np.pad(u, ((1, 1), (0, 0)))
        u = u + d * (w[:-2] - 2 * u + w[2:])
        w = np.pad(u, ((0, 0), (1, 1)))
        u = u + d * (w[:, :-2] - 2 * u + w[:, 2:])
    return u


def lorenz(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """Runge and Kutta's fourth order, on a tuple of three."""
    h = 0.01
    f = lambda s: (sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], s[0] * s[1] - beta * s[2])
    move = lambda s, k, a: tuple(p + a * q for p, q in zip(s, k, strict=True))

    def step(s: Any, _: Any) -> Any:
        k1 = f(s)
        k2 = f(move(s, k1, h / 2))
        k3 = f(move(s, k2, h / 2))
        k4 = f(move(s, k3, h))
        new = tuple(p + h / 6 * (a + 2.0 * b + 2.0 * c + d) for p, a, b, c, d in zip(s, k1, k2, k3, k4, strict=True))
        return new, new[2]

    (x, y, z), path = pb.scan(40, (x, y, z), step)
    return x, y, z, path


def plain_lorenz(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    f = lambda s: np.array([sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], s[0] * s[1] - beta * s[2]])
    s, h, path = np.array([x, y, z]), np.longdouble(0.01), []
    for _ in range(40):
        k1 = f(s)
        k2 = f(s + h / 2 * k1)
        k3 = f(s + h / 2 * k2)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(s + h * k3))
        path.append(s[2])
    return (*s, np.array(path))


def planets(x: Any, v: Any, mass: Any) -> Any:
    """Verlet's velocities for bodies that attract each other, softened; and the energy at the end."""
    n, d = x.shape
    dt = 0.05

    def pull(x: Any) -> Any:
        near = lambda i, j: pb.sum_over(d, lambda c: (x[j, c] - x[i, c]) ** 2) + 0.1
        force = lambda i, j, c: mass[j] * (x[j, c] - x[i, c]) / (near(i, j) * pb.sqrt(near(i, j)))
        return pb.build((n, d), lambda i, c: pb.sum_over(n, lambda j: force(i, j, c)))

    def step(state: Any, _: Any) -> Any:
        x, v, a = state
        moved = x + dt * v + dt * dt / 2 * a
        new = pull(moved)
        return moved, v + dt / 2 * (a + new), new

    x, v, _ = pb.fold(6, (x, v, pull(x)), step)
    return x, 0.5 * pb.sum_over((n, d), lambda i, c: mass[i] * v[i, c] ** 2)


def plain_planets(x: Any, v: Any, mass: Any) -> Any:
    def pull(x: Any) -> Any:
        apart = x[None] - x[:, None]
        near = np.sum(apart**2, -1) + np.longdouble(0.1)
        return np.sum(mass[None, :, None] * apart / near[:, :, None] ** np.longdouble(1.5), 1)

    dt = np.longdouble(0.05)
    for _ in range(6):
        half = v + dt / 2 * pull(x)
        x = x + dt * half
        v = half + dt / 2 * pull(x)
    return x, np.sum(mass[:, None] * v**2) / 2


def leapfrog(q: Any, p: Any, k: Any) -> Any:
    """A chain of springs, kick, drift, kick; all positions kept."""
    n, h = q.shape[0], 0.1
    force = lambda q: pb.build(n, lambda i: -k[i] * pb.sin(q[i]) + (q.at(i - 1) - 2.0 * q[i] + q.at(i + 1)))

    def step(s: Any, _: Any) -> Any:
        q, p = s
        p = p + h / 2 * force(q)
        q = q + h * p
        return (q, p + h / 2 * force(q)), q

    return pb.scan(5, (q, p), step)[1]


def plain_leapfrog(q: Any, p: Any, k: Any) -> Any:
    def force(q: Any) -> Any:
        w = np.pad(q, 1)
        return -k * np.sin(q) + w[:-2] - 2 * q + w[2:]

    h, rows = np.longdouble(0.1), []
    for _ in range(5):
        p = p + h / 2 * force(q)
        q = q + h * p
        p = p + h / 2 * force(q)
        rows.append(q)
    return np.array(rows)


def euler_maruyama(x: Any, noise: Any, theta: Any, sigma: Any) -> Any:
    """Paths with given noise, and the mean of what is above a bound."""
    steps, paths = noise.shape
    h = 1.0 / steps
    move = lambda x, t: x + theta * (1.0 - x) * h + sigma * x * noise[t] * h**0.5
    last = pb.fold(steps, pb.full(paths, 1.0) * x, move)
    return last, pb.sum(pb.maximum(last - 1.0, 0.0)) / paths


def plain_euler_maruyama(x: Any, noise: Any, theta: Any, sigma: Any) -> Any:
    h, x = np.longdouble(1) / len(noise), np.full(noise.shape[1], x)
    for z in noise:
        x = x + theta * (1 - x) * h + sigma * x * z * np.sqrt(h)
    return x, np.mean(np.maximum(x - 1, 0))


def metropolis(start: Any, steps: Any, chances: Any, width: Any) -> Any:
    """A random walk that is accepted or not by given numbers."""
    energy = lambda x: x**4 / 4.0 - x**2 / width

    def step(x: Any, t: Any) -> Any:
        new = x + steps[t]
        x = pb.where(chances[t] < pb.exp(energy(x) - energy(new)), new, x)
        return x, x

    return pb.scan(steps.shape[0], start, step)[1]


def plain_metropolis(start: Any, steps: Any, chances: Any, width: Any) -> Any:
    energy = lambda x: x**4 / 4 - x**2 / width
    x, path = start, []
    for s, c in zip(steps, chances, strict=True):
        x = x + s if c < np.exp(energy(x) - energy(x + s)) else x
        path.append(x)
    return np.array(path)


def predator_prey(a: Any, b: Any) -> Any:
    """Until there are enough prey: a while loop with steps of Heun's method."""
    f = lambda x, y: (x * (a - y), y * (b * x - 1.0))

    def step(s: Any) -> Any:
        x, y, t = s
        p, q = f(x, y)
        r, v = f(x + 0.05 * p, y + 0.05 * q)
        return x + 0.025 * (p + r), y + 0.025 * (q + v), t + 1

    return pb.while_loop(lambda s: s[0] < 1.8, step, (0.0 * a + 1.0, 0.0 * a + 0.5, 0), max_trips=60)


def plain_predator_prey(a: Any, b: Any) -> Any:
    f = lambda x, y: np.array([x * (a - y), y * (b * x - 1)])
    s, t = np.array([a * 0 + 1, a * 0 + np.longdouble(0.5)]), 0
    h = np.longdouble(0.05)
    while s[0] < np.longdouble(1.8):
        k = f(*s)
        s = s + h / 2 * (k + f(*(s + h * k)))
        t += 1
    return s[0], s[1], np.int64(t)


def black_scholes(s: Any, k: Any, r: Any, sigma: Any) -> Any:
    """Explicit differences on a grid of prices, the value read between two of them."""
    n, steps = 40, 30
    width, dt = 4.0 / n, 0.5 / steps
    price = lambda i: width * i

    def back(v: Any, t: Any) -> Any:
        def element(i: Any) -> Any:
            gamma = (v.at(i + 1) - 2.0 * v[i] + v.at(i - 1)) / (width * width)
            delta = (v.at(i + 1) - v.at(i - 1)) / (2.0 * width)
            inner = v[i] + dt * (0.5 * (sigma * price(i)) ** 2 * gamma + r * price(i) * delta - r * v[i])
            top = price(i) - k * pb.exp(-r * dt * (t + 1))
            return pb.where(i == 0, 0.0, pb.where(i == n, top, inner))

        return pb.build(n + 1, element)

    v = pb.fold(steps, pb.build(n + 1, lambda i: pb.maximum(price(i) - k, 0.0)), back)
    place = pb.floor(s / width)
    i = pb.clip(place.astype(pb.int64), 0, n - 1)
    share = s / width - place
    return (1.0 - share) * v[i] + share * v[i + 1]


def plain_black_scholes(s: Any, k: Any, r: Any, sigma: Any) -> Any:
    n, steps = 40, 30
    width, dt = np.longdouble(4.0 / n), np.longdouble(0.5 / steps)
    price = width * np.arange(n + 1)
    v = np.maximum(price - k, 0)
    for t in range(steps):
        gamma = (v[2:] - 2 * v[1:-1] + v[:-2]) / width**2
        delta = (v[2:] - v[:-2]) / (2 * width)
        inner = v[1:-1] + dt * ((sigma * price[1:-1]) ** 2 * gamma / 2 + r * price[1:-1] * delta - r * v[1:-1])
        v = np.concatenate([[0], inner, [price[-1] - k * np.exp(-r * dt * (t + 1))]])
    i = int(np.floor(s / width))
    share = s / width - i
    return (1 - share) * v[i] + share * v[i + 1]


def binomial_tree(s: Any, k: Any, r: Any, sigma: Any) -> Any:
    """An American put: the better of waiting and taking, back from the end."""
    n = 35
    dt = 1.0 / n
    up = pb.exp(sigma * dt**0.5)
    q = (pb.exp(r * dt) - 1.0 / up) / (up - 1.0 / up)
    worth = lambda level, i: pb.maximum(k - s * up ** (2.0 * i - level), 0.0)

    def back(v: Any, t: Any) -> Any:
        level = n - 1 - t
        wait = lambda i: pb.exp(-r * dt) * (q * v.at(i + 1) + (1.0 - q) * v[i])
        return pb.build(n + 1, lambda i: pb.where(i <= level, pb.maximum(wait(i), worth(level, i)), 0.0))

    return pb.fold(n, pb.build(n + 1, lambda i: worth(n, i)), back)[0]


def plain_binomial_tree(s: Any, k: Any, r: Any, sigma: Any) -> Any:
    n = 35
    dt = np.longdouble(1.0 / n)
    up = np.exp(sigma * np.sqrt(dt))
    q = (np.exp(r * dt) - 1 / up) / (up - 1 / up)
    v = np.maximum(k - s * up ** (2 * np.arange(n + 1) - n), 0)
    for level in reversed(range(n)):
        wait = np.exp(-r * dt) * (q * v[1:] + (1 - q) * v[:-1])
        v = np.maximum(wait, k - s * up ** (2 * np.arange(level + 1) - level))
    return v[0]


@pytest.mark.slow
def test_grids() -> None:
    u = RNG.uniform(-1, 1, 37)
    check(
        Algorithm(heat, plain_heat, (u, 0.3)),
        Algorithm(implicit_heat, plain_implicit_heat, (u, 0.6)),
        Algorithm(wave, plain_wave, (u, 0.4)),
        Algorithm(burgers, plain_burgers, (u, 0.1, 0.05)),
        Algorithm(diffusion_in_two, plain_diffusion_in_two, (RNG.uniform(-1, 1, (9, 35)), 0.2)),
    )


@pytest.mark.slow
def test_paths() -> None:
    check(
        Algorithm(lorenz, plain_lorenz, (1.0, 1.1, 0.9, 10.0, 28.0, 8 / 3)),
        Algorithm(planets, plain_planets, (*RNG.uniform(-1, 1, (2, 7, 3)), RNG.uniform(0.5, 1, 7))),
        Algorithm(leapfrog, plain_leapfrog, tuple(RNG.uniform(0, 1, (3, 37)))),
        Algorithm(predator_prey, plain_predator_prey, (1.5, 0.7)),
    )


@pytest.mark.slow
def test_chances_and_prices() -> None:
    check(
        Algorithm(euler_maruyama, plain_euler_maruyama, (1.1, RNG.normal(size=(9, 37)), 0.8, 0.3)),
        Algorithm(metropolis, plain_metropolis, (0.3, RNG.normal(size=37), RNG.uniform(size=37), 0.9)),
        Algorithm(black_scholes, plain_black_scholes, (1.13, 1.02, 0.05, 0.2)),
        Algorithm(binomial_tree, plain_binomial_tree, (1.0, 1.05, 0.04, 0.3)),
    )
