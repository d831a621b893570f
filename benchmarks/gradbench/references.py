"""Reference answers by independent means.

Values come from NumPy formulas. Derivatives come from formulas that were found by hand, from known identities (the
gradient of a determinant is the determinant times the transposed inverse), or from complex steps: Im f(x + ih) / h is
f' without cancellation, here with h = 1e-200. Long doubles are used where they are cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]
Answer = Any
LONG = np.longdouble
STEP = 1e-200


def complex_steps(f: Callable[[NDArray], NDArray], x: NDArray) -> NDArray:
    """The derivatives of f at a vector x, shaped (*result, len(x)); f takes the vector as its last axis."""
    return np.moveaxis(np.imag(f(x + 1j * STEP * np.eye(len(x)))) / STEP, 0, -1)


def hello(function: str, x: float) -> Answer:
    """A square and its slope."""
    return x * x if function == "square" else 2 * x


def llsq(function: str, given: Any) -> Answer:
    """Residuals, and powers times residuals."""
    x, n = np.array(given["x"], LONG), given["n"]
    t = -1 + 2 * np.arange(n).astype(LONG) / (n - 1)
    powers = np.cumprod(np.stack([np.ones(n, LONG), *[t] * (len(x) - 1)]), axis=0)
    residual = x @ powers - np.sign(t)
    return residual @ residual / 2 if function == "primal" else powers @ residual


def lse(function: str, given: Any) -> Answer:
    """The gradient is softmax."""
    x = np.array(given["x"], LONG)
    parts = np.exp(x - x.max())
    return x.max() + np.log(parts.sum()) if function == "primal" else parts / parts.sum()


def gmm(function: str, given: Any) -> Answer:
    """Gaussian mixture gradients μ̄ = Σ r Qᵀ z, Q̄ = −Σ r z (x − μ)ᵀ − γ² Q, where z = Q (x − μ).

    Here r is the share of a component in a point.
    """
    D, K, N, m, gamma = (given[name] for name in ("d", "k", "n", "m", "gamma"))
    x, alpha, mu, q, l = (np.array(given[name], float) for name in ("x", "alpha", "mu", "q", "l"))
    columns, rows = np.triu_indices(D, 1)  # column after column
    Q = np.zeros((K, D, D))
    Q[:, rows, columns], Q[:, range(D), range(D)] = l, np.exp(q)
    away = x[:, None] - mu
    z = np.einsum("kij,nkj->nki", Q, away)
    beta = alpha + q.sum(1) - (z**2).sum(2) / 2
    high = beta.max(1, keepdims=True)
    shares = np.exp(beta - high)
    total = shares.sum(1, keepdims=True)
    weights = np.exp(alpha - alpha.max())
    if function == "objective":
        n = D + m + 1
        log_gamma = D * (D - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - j) / 2) for j in range(D))
        likelihood = (high + np.log(total)).sum() - N * (D / 2 * math.log(2 * math.pi))
        likelihood -= N * (alpha.max() + math.log(weights.sum()))
        prior = K * (n * D * math.log(gamma / math.sqrt(2)) - log_gamma) - gamma**2 / 2 * (Q**2).sum() + m * q.sum()
        return likelihood + prior
    shares /= total
    weighted = shares[:, :, None] * z
    Q_bar = -np.einsum("nki,nkj->kij", weighted, away) - gamma**2 * Q
    return {
        "alpha": shares.sum(0) - N * weights / weights.sum(),
        "mu": np.einsum("nki,kij->kj", weighted, Q),
        "q": Q_bar[:, range(D), range(D)] * np.exp(q) + shares.sum(0)[:, None] + m,
        "l": Q_bar[:, rows, columns],
    }


def lstm(function: str, given: Any) -> Answer:
    """Step after step, for all directions of the complex step together."""
    main, extra, state, sequence = (
        np.array(given[name], float) for name in ("main_params", "extra_params", "state", "sequence")
    )
    L, B = len(main) // 2, main.shape[1] // 4

    def loss(parameters: NDArray) -> NDArray:
        layers = parameters[..., : main.size].reshape(-1, L, 2, 4, B)
        around = parameters[..., main.size :].reshape(-1, 3, B)
        shape = (len(layers), L, B)
        hidden, cell = (np.broadcast_to(state.reshape(L, 2, B)[:, k], shape).astype(layers.dtype) for k in range(2))
        total = 0
        for now, after in pairwise(sequence):
            x = now * around[:, 0]
            for n in range(L):
                (wf, wi, wo, wc), (bf, bi, bo, bc) = np.moveaxis(layers[:, n], 0, 2)
                forget, out = (1 / (1 + np.exp(-(x * w + b))) for w, b in ((wf, bf), (wo, bo)))
                ingate = 1 / (1 + np.exp(-(hidden[:, n] * wi + bi)))
                cell[:, n] = cell[:, n] * forget + ingate * np.tanh(hidden[:, n] * wc + bc)
                hidden[:, n] = x = out * np.tanh(cell[:, n])
            y = x * around[:, 1] + around[:, 2]
            total = total + (after * (y - np.log(2 + np.exp(y).sum(-1, keepdims=True)))).sum(-1)
        return -total / ((len(sequence) - 1) * B)

    parameters = np.concatenate([main.ravel(), extra.ravel()])
    return loss(parameters[None])[0] if function == "objective" else complex_steps(loss, parameters)


def ode(function: str, given: Any) -> Answer:
    """The last component is a constant times the product of all x, whatever the number of steps."""
    x, h = np.array(given["x"], LONG), LONG(2) / given["s"]

    def rate(y: NDArray) -> NDArray:
        return x * np.concatenate([[LONG(1)], y[:-1]])

    y = np.zeros_like(x)
    for _ in range(given["s"]):
        a = rate(y)
        b = rate(y + h / 2 * a)
        c = rate(y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + rate(y + h * c))
    return y if function == "primal" else y[-1] / x


def det(function: str, given: Any) -> Answer:
    """The determinant by elimination, and its gradient by Jacobi's formula."""
    a = np.array(given["A"], float).reshape(given["ell"], -1)
    value = np.linalg.det(a)
    return value if function == "primal" else np.ravel(value * np.linalg.inv(a).T)


def kmeans(function: str, given: Any) -> Answer:
    """The step goes from the mean of a centroid's points to the centroid."""
    points, centroids = np.array(given["points"], float), np.array(given["centroids"], float)
    distances = np.stack([((points - c) ** 2).sum(1) for c in centroids])
    if function == "cost":
        return distances.min(0).sum()
    nearest = distances.argmin(0)
    return np.array([c - points[nearest == k].mean(0) for k, c in enumerate(centroids)])


def project(z: NDArray, feature: NDArray) -> NDArray:
    """The error of an observation from (camera, point, weight) in z's last axis, by a rotation matrix."""
    rotation, center, focal, principal, radial, point, weight = np.split(z, [3, 6, 7, 9, 11, 14], axis=-1)
    a, b, c = np.moveaxis(rotation, -1, 0)
    none = np.zeros_like(a)
    k = np.moveaxis(np.array([[none, -c, b], [c, none, -a], [-b, a, none]]), (0, 1), (-2, -1))
    squared = (rotation**2).sum(-1)[..., None, None]
    angle = np.sqrt(np.where(squared == 0, 1, squared))
    first = np.where(np.real(squared) == 0, 1, np.sin(angle) / angle)
    second = np.where(np.real(squared) == 0, 0, (1 - np.cos(angle)) / angle**2)
    turned = np.eye(3) + first * k + second * (k @ k)
    seen = np.einsum("...ij,...j->...i", turned, point - center)
    flat = seen[..., :2] / seen[..., 2:]
    r = (flat**2).sum(-1, keepdims=True)
    return weight * (flat * (1 + radial[..., :1] * r + radial[..., 1:] * r**2) * focal + principal - feature)


def ba(function: str, given: Any) -> Answer:
    """One block, as all observations are equal; the last entry is the slope of the last weight's error."""
    N, M, P, w = (given[name] for name in "nmpw")
    z, feature = np.array([*given["cam"], *given["x"], w], float), np.array(given["feat"], float)
    if function == "objective":
        error = {"elements": project(z, feature), "repeated": P}
        return {"reproj_error": error, "w_err": {"element": 1 - w * w, "repeated": P}}
    block = complex_steps(lambda z: project(z, feature), z)
    columns = [*range(11), *(11 * N + k for k in range(3)), 11 * N + 3 * M]
    starts = [15 * r if r <= 2 * P else 28 * P + r for r in range(3 * P + 1)]
    return {
        "rows": [*starts[:30], starts[-1]],
        "cols": [*columns, *columns, 11 * N + 3 * M + P - 1],
        "vals": [*block.ravel(), -2 * w],
    }


def ht(function: str, given: Any) -> Answer:
    """Matrix products for one pose after the other."""
    data, model = given["data"], given["data"]["model"]
    us, points, at = (np.array(x, float) for x in (given["us"], data["points"], data["correspondences"]))
    rest, weights = np.array(model["base_positions"], float), np.array(model["weights"], float)
    relatives, inverses = np.array(model["base_relatives"]), np.array(model["inverse_base_absolutes"])
    at = at.astype(int)
    corners = np.array(model["triangles"])[at] if len(us) else at[:, None]

    def turn(v: NDArray) -> NDArray:
        angle = np.sqrt((v * v).sum())
        if abs(angle) < 1e-4:
            return np.eye(3, dtype=v.dtype)
        x, y, z = v / angle
        k = np.array([[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]])
        return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)

    def distances(u: NDArray, theta: NDArray) -> NDArray:
        angles = np.zeros((len(relatives), 2), theta.dtype)
        for finger in range(5):
            first = 6 + 4 * finger
            angles[4 * finger + 2] = theta[first], theta[first + 1]
            angles[4 * finger + 3, 0], angles[4 * finger + 4, 0] = theta[first + 2], theta[first + 3]
        placed: list[NDArray] = []
        for parent, relative, (x, z) in zip(model["parents"], relatives, angles, strict=True):
            about_x, about_z = np.eye(4, dtype=theta.dtype), np.eye(4, dtype=theta.dtype)
            about_x[1:3, 1:3] = [[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]
            about_z[:2, :2] = [[np.cos(z), -np.sin(z)], [np.sin(z), np.cos(z)]]
            placed.append((placed[parent] if parent >= 0 else np.eye(4)) @ relative @ about_z @ about_x)
        bones = np.array(placed) @ inverses
        chosen, where = np.unique(corners, return_inverse=True)
        moved = np.einsum("vb,bij,vj->vi", weights[chosen], bones, rest[chosen])[:, :3]
        if model["is_mirrored"]:
            moved = moved * [-1, 1, 1]
        moved = (moved @ turn(theta[:3]).T + theta[3:6])[where.reshape(corners.shape)]
        shares = np.stack([u[:, 0], u[:, 1], 1 - u.sum(1)], 1) if len(us) else np.ones((len(at), 1))
        return (points - np.einsum("ck,cki->ci", shares, moved)).ravel()

    theta = np.array(given["theta"], float)
    if function == "objective":
        return distances(us, theta)
    slopes = [np.imag(distances(us, theta + 1j * STEP * e)) / STEP for e in np.eye(26)]
    own = [np.imag(distances(us + 1j * STEP * e, theta.astype(complex))) / STEP for e in np.eye(2)] if len(us) else []
    return np.stack([*own, *slopes], 1)


def argmin(f: Callable[[Any], Any], slope: Callable[[Any], Any], x: NDArray) -> NDArray:
    """Gradient descent as `particle` and `saddle` ask for it."""
    value, down, rate, good = f(x), slope(x), 1e-5, 0
    while np.sqrt(down @ down) > 1e-5:
        if good == 10:
            rate, good = 2 * rate, 0
            continue
        there = x - rate * down
        if np.sqrt((there - x) @ (there - x)) <= 1e-5:
            break
        if f(there) < value:
            x, value, down, good = there, f(there), slope(there), good + 1
        else:
            rate, good = rate / 2, 0
    return x


def crossing(w: complex) -> complex:
    """Where the particle of charge 1 crosses the axis, squared; the force by its formula."""
    x, velocity = np.array([0, 8], complex), np.array([0.75, 0], complex)
    while True:
        ahead = x + 0.1 * velocity
        if ahead[1].real <= 0:
            return (x[0] - x[1] / velocity[1] * velocity[0]) ** 2
        away = [x - [10, 10 - w], x - [10, 0]]
        x, velocity = ahead, velocity + 0.1 * sum(d / (d @ d) ** 1.5 for d in away)


def particle(function: str, given: Any) -> Answer:
    """The same in all modes."""
    found = argmin(
        lambda w: crossing(w[0]).real,
        lambda w: np.array([crossing(w[0] + 1j * STEP).imag / STEP]),
        np.array([given["w"]], float),
    )
    return found[0]


def saddle(function: str, given: Any) -> Answer:
    """The inner maximum does not depend on x, nor does where it is found."""
    start = np.array(given["start"], float)
    y = argmin(lambda y: y @ y, lambda y: 2 * y, start)
    x = argmin(lambda x: x @ x - y @ y, lambda x: 2 * x, start)
    return np.concatenate([x, y])


def expected(module: str, function: str, given: Any) -> Answer:
    """The expected answer of a module's function."""
    return globals()[module](function, given)


def differences(found: Any, wanted: Any, tolerance: float, path: str = "output") -> list[str]:
    """The places where an answer differs from the expected one.

    Numbers of one array may differ by `tolerance` times the larger of the number and the array's largest; NaN is wrong.
    """
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or set(found) != set(wanted):
            return [f"{path}: has not the fields {', '.join(wanted)}"]
        return [line for name in wanted for line in differences(found[name], wanted[name], tolerance, f"{path}.{name}")]
    try:
        a, b = np.array(found, float), np.array(wanted, float)
    except (TypeError, ValueError):
        return [f"{path}: not numbers of equal rows"]
    if a.shape != b.shape:
        return [f"{path}: shape {a.shape} instead of {b.shape}"]
    if not b.size:
        return []
    off = np.abs(a - b) / max(np.abs(b).max(), 1e-300)
    worst = np.unravel_index(np.argmax(np.where(np.isfinite(off), off, np.inf)), off.shape)
    if off[worst] <= tolerance:
        return []
    return [f"{path}{list(map(int, worst))}: {a[worst]} instead of {b[worst]}, off by {off[worst]:.1e}"]
