"""Inputs of every module with fixed seeds: small ones for tests, and those of suite sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

Input = Any


def hello(x: float) -> Input:
    """A number."""
    return x


def llsq(n: int, m: int = 128) -> Input:
    """Coefficients between 0 and 1."""
    return {"x": np.random.default_rng(n).random(m).tolist(), "n": n}


def lse(n: int, largest: float = 1.0) -> Input:
    """Numbers up to `largest`."""
    return {"x": (largest * np.random.default_rng(n).random(n)).tolist()}


def gmm(d: int, k: int, n: int = 1000) -> Input:
    """Normal points and parameters, and means between 0 and 1."""
    random = np.random.default_rng(d * k)
    x, alpha = random.normal(size=(n, d)), random.normal(size=k)
    mu, q, l = random.random((k, d)), random.normal(size=(k, d)), random.normal(size=(k, d * (d - 1) // 2))
    values = {"x": x, "alpha": alpha, "mu": mu, "q": q, "l": l}
    return {"d": d, "k": k, "n": n, "m": 1, "gamma": 1.0} | {name: v.tolist() for name, v in values.items()}


def lstm(l: int, c: int, b: int = 14) -> Input:
    """Parameters and state between 0 and 1, and random bits."""
    random = np.random.default_rng(l * c)
    shapes = {"main_params": (2 * l, 4 * b), "extra_params": (3, b), "state": (2 * l, b)}
    bits = random.integers(0, 2, (c, b)).astype(float)
    return {name: random.random(shape).tolist() for name, shape in shapes.items()} | {"sequence": bits.tolist()}


def ode(n: int, s: int) -> Input:
    """Coefficients around 1, so that their product, which the last component is, does not vanish."""
    return {"x": (0.5 + np.random.default_rng(n).random(n)).tolist(), "s": s}


def det(ell: int) -> Input:
    """A matrix of numbers between 0 and 1."""
    return {"A": np.random.default_rng(ell).random(ell * ell).tolist(), "ell": ell}


def kmeans(k: int, n: int, d: int) -> Input:
    """Points between 0 and 1; the last ones are the centroids, so that each has a point."""
    points = np.random.default_rng(k * n * d).random((n, d))
    return {"points": points.tolist(), "centroids": points[n - k :].tolist()}


def ba(n: int, m: int, p: int, turned: bool = True) -> Input:
    """One camera that looks at one point; with `turned` it has a rotation."""
    random = np.random.default_rng(p)
    rotation = 0.1 * random.normal(size=3) if turned else np.zeros(3)
    camera = [*rotation, *random.normal(size=3), 500.0, 320.0, 240.0, 1e-2, -1e-3]
    point, feature = random.normal(size=3) + [0, 0, 9], 300 * random.random(2)
    cam = list(map(float, camera))
    return {"n": n, "m": m, "p": p, "cam": cam, "x": point.tolist(), "w": 0.9, "feat": feature.tolist()}


def ht(c: int, vertices: int = 10000, complicated: bool = True, mirrored: bool = False) -> Input:
    """A hand of 22 bones, up to four of which move each vertex, and points near where it may be."""
    random = np.random.default_rng(c)
    B = 22
    triangles = random.integers(0, vertices, (max(8, vertices // 9), 3))
    relatives = np.tile(np.eye(4), (B, 1, 1))
    relatives[:, :3, :] += 0.1 * random.normal(size=(B, 3, 4))
    parents = [-1] + [0 if b % 4 == 1 else b - 1 for b in range(1, B)]
    absolutes: list[Any] = []
    for b in range(B):
        absolutes.append(relatives[b] if parents[b] < 0 else absolutes[parents[b]] @ relatives[b])
    weights = np.zeros((vertices, B))
    for v in range(vertices):
        chosen = random.choice(B, random.integers(1, 5), replace=False)
        weights[v, chosen] = random.dirichlet(np.ones(len(chosen)))
    model = {
        "bone_count": B,
        "bone_names": [f"bone{b}" for b in range(B)],
        "parents": parents,
        "base_relatives": relatives.tolist(),
        "inverse_base_absolutes": np.linalg.inv(np.array(absolutes)).tolist(),
        "base_positions": np.concatenate([random.normal(size=(vertices, 3)), np.ones((vertices, 1))], 1).tolist(),
        "weights": weights.tolist(),
        "triangles": triangles.tolist(),
        "is_mirrored": mirrored,
    }
    at = random.integers(0, len(triangles) if complicated else vertices, c)
    data = {"model": model, "correspondences": at.tolist(), "points": random.normal(size=(c, 3)).tolist()}
    us = random.random((c, 2)) / 2
    return {"theta": (0.3 * random.normal(size=26)).tolist(), "data": data, "us": us.tolist() if complicated else []}


def particle(w: float = 0.0) -> Input:
    """The first guess."""
    return {"w": w}


def saddle(x: float = 1.0, y: float = 1.0) -> Input:
    """The start."""
    return {"start": [x, y]}


SMALL: dict[str, list[tuple[str, Input]]] = {
    "hello": [("3", hello(3.0))],
    "llsq": [("n=9 m=6", llsq(9, 6))],
    "lse": [("n=37", lse(37)), ("n=37, large", lse(37, 1000.0))],
    "gmm": [("d=3 k=4 n=10", gmm(3, 4, 10)), ("d=1 k=2 n=5", gmm(1, 2, 5))],
    "lstm": [("l=2 c=9", lstm(2, 9, 5))],
    "ode": [("n=9 s=3", ode(9, 3))],
    "det": [("1", det(1)), ("5", det(5))],
    "kmeans": [("k=4 n=30 d=3", kmeans(4, 30, 3))],
    "ba": [("n=3 m=4 p=7", ba(3, 4, 7)), ("no rotation", ba(2, 2, 3, turned=False))],
    "ht": [("c=5", ht(5, 40)), ("c=5, simple, mirrored", ht(5, 40, complicated=False, mirrored=True))],
    "particle": [("w=0", particle()), ("w=1", particle(1.0))],
    "saddle": [("1, 1", saddle())],
}


def full() -> dict[str, list[tuple[str, Input]]]:
    """The sizes of the suite, from the smallest to the largest of the table of results."""
    return {
        "llsq": [(f"{n}", llsq(n)) for n in (16, 128, 1024, 16392)],
        "lse": [(f"{n}", lse(n)) for n in (2500, 40000, 1280000)],
        "gmm": [(f"d{d} k{k}", gmm(d, k)) for d, k in ((2, 5), (10, 10), (20, 25), (64, 100))],
        "lstm": [(f"l{l} c{c}", lstm(l, c)) for l, c in ((2, 1024), (4, 4096), (6, 8192))],
        "ode": [(f"n{n} s{s}", ode(n, s)) for n, s in ((1000, 1), (1000, 100), (100000, 10))],
        "det": [(f"{n}", det(n)) for n in (5, 8, 11)],
        "kmeans": [(f"{k}×{n}×{d}", kmeans(k, n, d)) for k, n, d in ((10, 1000, 8), (100, 10000, 16))],
        "ba": [("1", ba(49, 7776, 31843)), ("10", ba(1197, 126327, 563734))],
        "ht": [(f"big c{c}", ht(c)) for c in (100, 6400)],
        "particle": [("w=0", particle()), ("w=1", particle(1.0))],
        "saddle": [("1, 1", saddle())],
    }
