"""Complex numbers, Fourier transforms and random numbers against the oracle: values and derivatives of the pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.agreement import Program
from tests.support.oracle.complex import BINARY, UNARY
from tests.support.oracle.random import threefry

RNG = np.random.default_rng(8)


def turned(*shape: int) -> Any:
    return RNG.uniform(0.4, 1.3, shape) * np.exp(1j * RNG.uniform(-2.5, 2.5, shape))


GIVEN = {"z": turned(4), "w": turned(4), "d": turned(4), "e": turned(4), "m": turned(3, 4), "x": RNG.uniform(-1, 1, 4),
         "k": np.array([3, 2**31 + 5], np.uint32)}  # fmt: skip
SMOOTH = [name for name in (*UNARY, *BINARY) if name not in ("equal", "not_equal", "stop_gradient")]
UNITARY = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SOURCES = {
    "functions": [
        *(f"pb.{name}({'z' if name in UNARY else 'z, w'})" for name in SMOOTH), "z ** 3", "x * z", "z / x",
        "2.0 / z", "z * x - 1j * z", "pb.conj(z)", "pb.angle(z)", "pb.complex(x, z.imag)",
    ],
    "arrays": [
        "m @ z", "pb.vecdot(z, w)", "pb.outer(z, x)", "pb.tensordot(m, m, axes=([0, 1], [0, 1]))", "pb.sum(m, axis=0)",
        "pb.stack([z, x])", "pb.concat([m, m[:1]], axis=0)", "pb.where(x > 0, z, x)", "pb.roll(m, 1, axis=1)",
        "m.T[1:]", "pb.cumulative_sum(z)", "pb.tril(m)", "pb.reshape(m, (2, 6))", "pb.mean(m)",
        "m.mean(axis=1)", "pb.outer(z, w).mT", "pb.conj(x)", "pb.real(x) - pb.imag(z)", "pb.where(x > 0, x, z)",
        "pb.take(z, pb.argsort(x))", "pb.sum_over(4, lambda i: z[i] * w[3 - i])",
        "pb.build((3, 4), lambda i, j: m[i, j] * z.at(j + i))",
        "pb.fold(3, z, lambda s, t: s * w + 0.1 * m[t])", "pb.cond(x[0] > 0, lambda v: v * v, lambda v: pb.exp(v), z)",
    ],
    "transforms": [
        *(f"pb.fft.{name}({'x' if name in ('rfft', 'ihfft') else 'z'}{more})" for name in UNITARY
          for more in ("", ", n=6, norm='ortho'")),
        "pb.fft.fft(z, n=3)", "pb.fft.irfft(z, n=5)", "pb.fft.hfft(x)", "pb.fft.fftn(m, s=(2, 5))",
        "pb.fft.fft(m, axis=0, norm='forward')", "pb.fft.fftn(m)",
        "pb.fft.ifftn(m, s=(2, 5))",
        "pb.fft.irfftn(pb.fft.rfftn(pb.outer(x, x), norm='forward'))", "pb.fft.fftshift(z) * pb.fft.fftfreq(4, d=0.5)",
        "pb.fft.ifftshift(m, axes=1)", "pb.fft.rfft(x) * pb.fft.rfftfreq(4)",
    ],
    "chances": [
        "pb.random.uniform(k, 4, low=x, high=x + 2.0) * x", "pb.random.uniform(pb.random.split(k, 3)[2], (2, 3))",
        "pb.where(pb.random.bernoulli(pb.random.fold_in(k, 2**31 + 7), 4, p=0.6), pb.sin(x), z.real)",
        "x[pb.random.permutation(k, 4)]", "pb.random.permutation(k, x)", "pb.random.exponential(k, (2, 2))",
        "pb.random.gumbel(k, 3)", "pb.random.laplace(k, 5)",
        "pb.random.normal(k, (2, 3))", "pb.random.truncated_normal(k, x - 0.5, x + 1.0, 4)",
        "pb.random.truncated_normal(k, 1.0, 2.0, 3)", "x[pb.random.categorical(k, pb.sin(x), (6,))]",
        "x[pb.random.integers(k, 9, high=4)]",
        "x * pb.astype(pb.random.integers(k, x.shape, low=-100, high=100, dtype='int8'), pb.float64)",
    ],
}  # fmt: skip
QUERIES = (
    "f(z, w, m, x, k)",
    "pb.jvp(lambda z, w, m, x: f(z, w, m, x, k))((z, w, m, x), (d, e, 0.5 * m, z.real))",
    "pb.grad(total, wrt=(0, 1, 2, 3))(z, w, m, x, k)",
    "pb.jvp(lambda z, w, m, x: pb.grad(total, wrt=(0, 3))(z, w, m, x, k))((z, w, m, x), (d, e, 0.5 * m, z.real))",
)
TOTAL = """
@pb.function
def total(z, w, m, x, k):
    return sum(pb.sum(pb.sin(pb.real(v)) + 0.5 * pb.imag(v) ** 2) for v in f(z, w, m, x, k))
"""


@pytest.mark.parametrize("backend", ["interpreter", "c"])
@pytest.mark.parametrize("kind", SOURCES)
def test_programs(kind: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", backend)
    text = f"@pb.function\ndef f(z, w, m, x, k):\n    return ({', '.join(SOURCES[kind])},)\n{TOTAL}"
    program = Program(text, GIVEN)
    for query in QUERIES if backend == "interpreter" else QUERIES[:3:2]:
        verdict = program.judge(query)
        assert not (verdict.faults or verdict.undecided or verdict.refused), f"{query}\n{verdict}"
        assert verdict.open <= verdict.compared / 20


def test_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    single = {"c": np.complex64, "f": np.float32, "u": np.uint32}
    given = {name: a.astype(single[a.dtype.kind]) for name, a in GIVEN.items()}
    results = "pb.fft.fft(z) * pb.exp(w) / z, pb.random.uniform(k, 4, low=x), m @ z, pb.random.normal(k, 3)"
    text = f"@pb.function\ndef f(z, w, m, x, k):\n    return ({results})\n{TOTAL}"
    for query in (QUERIES[0], QUERIES[2]):
        verdict = Program(text, given).judge(query)
        assert not (verdict.faults or verdict.undecided or verdict.refused), f"{query}\n{verdict}"


def test_the_cipher_is_that_of_its_paper() -> None:
    """Known answers of the authors' Random123 for 20 rounds."""
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert threefry((2**32 - 1,) * 2, (2**32 - 1,) * 2) == (0x1CB996FC, 0xBB002BE7)
    assert threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == (0xC4923A9C, 0x483DF7A0)
