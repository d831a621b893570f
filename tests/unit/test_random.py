"""pb.random: the published vectors of Threefry, the same bits on every way, and distributions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Int64, UInt32

import pullback as pb
from pullback import Array, random

pytestmark = pytest.mark.slow

KEY = random.key(0)
N = 20_000

# Random123, kat_vectors: threefry2x32 20, its counter, key and result
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter: Any, key: Any, result: Any) -> None:
    from pullback.ir import types
    from pullback.random import _cipher

    @pb.function
    def block(key: UInt32[Array, "2"], counter):
        return _cipher(key, counter, types.u64)

    place = np.uint64((counter[0] << 32) | counter[1])
    for route in (block, block.interpret):
        assert int(route(np.array(key, np.uint32), place)) == (result[0] << 32) | result[1]


def test_bits_are_those_of_jax() -> None:
    """jax.random 0.10 of key(0), typed from its output."""
    bits = pb.function(lambda key: random.bits(key, 4))
    assert bits(KEY).tolist() == [4070199207, 4202968722, 1427181096, 2012915765]
    keys = pb.function(lambda key: random.split(key))(KEY).tolist()
    assert keys == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert pb.function(lambda key: random.fold_in(key, 3))(KEY).tolist() == [2467461003, 3840466878]


DRAWS = {
    "bits": lambda key, n: random.bits(key, n),
    "bits64": lambda key, n: random.bits(key, n, dtype="uint64"),
    "uniform": lambda key, n: random.uniform(key, n),
    "uniform32": lambda key, n: random.uniform(key, n, low=-1.0, high=2.0, dtype="float32"),
    "normal": lambda key, n: random.normal(key, n),
    "integers": lambda key, n: random.integers(key, n, low=-3, high=11),
    "bernoulli": lambda key, n: random.bernoulli(key, n, p=0.3),
    "exponential": lambda key, n: random.exponential(key, n),
}


def test_every_way_gives_the_same(tmp_path: Path) -> None:
    """Interpreter, C for these sizes and for all, one thread and two: bits and integers exactly."""

    def draw(key: UInt32[Array, "2"], n: pb.Size["N"]):
        return {name: f(key, n) for name, f in DRAWS.items()}

    every = pb.function(draw)
    wanted = every.interpret(KEY, 1001)
    ways = [pb.function(draw, threads=t, specialize=s) for t in (1, 2) for s in ("always", "never")]
    for found in (f(KEY, 1001) for f in ways):
        for name, a in wanted.items():
            if a.dtype.kind == "f" and name not in ("uniform",):
                np.testing.assert_allclose(found[name], a, rtol=1e-13, atol=5e-7 if a.dtype == np.float32 else 0)
            else:
                np.testing.assert_array_equal(found[name], a)


def test_an_element_depends_on_the_key_and_its_place_alone() -> None:
    for f in DRAWS.values():
        g = pb.function(lambda key, f=f: (f(key, 7), f(key, 12), f(key, (3, 4))))
        short, long, matrix = g(KEY)
        np.testing.assert_array_equal(short, long[:7])
        np.testing.assert_array_equal(matrix.ravel(), long)


def test_exported_c_gives_the_same(tmp_path: Path) -> None:
    @pb.function
    def draw(key: UInt32[Array, "2"]):
        return random.bits(key, 5)

    draw.export(tmp_path)
    source = next(p for p in tmp_path.glob("*.c") if p.name != "main.c")
    main = tmp_path / "print.c"
    header = source.with_suffix(".h").read_text()
    assert "draw(" in header
    main.write_text(
        f'#include <stdio.h>\n#include "{source.stem}.h"\n'
        "int main(void) { uint32_t key[2] = {0, 0}, out[5]; static unsigned char arena[1 << 16];\n"
        f"    {'draw(key, out, arena)' if 'arena' in header else 'draw(key, out)'};\n"
        '    for (int i = 0; i < 5; i++) printf("%u ", (unsigned)out[i]); return 0; }\n'
    )
    program = tmp_path / "print"
    subprocess.run(["cc", "-std=c99", "-O1", str(source), str(main), "-o", str(program), "-lm"], check=True)
    text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert list(map(int, text.split())) == draw(KEY).tolist()


def test_streams_differ() -> None:
    @pb.function
    def draw(key: UInt32[Array, "2"], step: Int64[Array, ""]):
        keys = random.split(key, 3)
        folded = random.fold_in(key, step)
        return pb.stack([random.bits(k, 50) for k in (*keys, folded)]), pb.scan(
            2, folded, lambda k, i: (random.fold_in(k, i), random.uniform(k, 3))
        )[1]

    rows, steps = draw(KEY, 7)
    assert len(set(rows.ravel().tolist())) == rows.size
    assert not np.array_equal(steps[0], steps[1])
    assert pb.function(lambda seed: random.key(seed))(2**33 + 5).tolist() == random.key(2**33 + 5).tolist() == [2, 5]


def quantiles(f: Any) -> Any:
    return np.sort(pb.function(lambda key: f(key, N))(random.key(11)))


def test_distributions() -> None:
    """Kolmogorov's distance of 20 000 numbers: above 0.0138 once in a thousand."""
    share = (np.arange(N) + 0.5) / N
    from math import erf

    phi = np.vectorize(lambda v: 0.5 * (1 + erf(v / 2**0.5)))
    cases = {
        "uniform": (random.uniform, lambda x: x),
        "uniform32": (lambda k, n: random.uniform(k, n, dtype="float32"), lambda x: x),
        "normal": (random.normal, phi),
        "normal32": (lambda k, n: random.normal(k, n, dtype="float32"), phi),
        "exponential": (random.exponential, lambda x: -np.expm1(-x)),
        "gumbel": (random.gumbel, lambda x: np.exp(-np.exp(-x))),
        "laplace": (random.laplace, lambda x: np.where(x < 0, np.exp(-np.abs(x)), 2 - np.exp(-np.abs(x))) / 2),
        "truncated": (
            lambda k, n: random.truncated_normal(k, -1.0, 0.5, n),
            lambda x: (phi(x) - phi(-1.0)) / (phi(0.5) - phi(-1.0)),
        ),
    }
    for name, (f, distribution) in cases.items():
        assert np.abs(distribution(quantiles(f)) - share).max() < 0.0138, name


def test_discrete_distributions() -> None:
    @pb.function
    def draw(key: UInt32[Array, "2"]):
        logits = pb.log(np.array([0.1, 0.6, 0.3]))
        return (
            random.integers(key, N, low=-2, high=3),
            random.bernoulli(key, N, p=0.25),
            random.categorical(key, logits, (N,)),
            random.categorical(key, pb.stack([logits, logits[::-1]], axis=1), (N, 2), axis=0),
            random.integers(key, N, low=0, high=2**40 + 1),
        )

    whole, flags, chosen, columns, large = draw(random.key(3))
    limit = 4 * np.sqrt(0.25 / N)  # four standard deviations
    for k in range(-2, 3):
        assert abs(np.mean(whole == k) - 0.2) < limit
    assert abs(flags.mean() - 0.25) < limit
    for k, p in enumerate((0.1, 0.6, 0.3)):
        assert abs(np.mean(chosen == k) - p) < limit
        assert abs(np.mean(columns[:, 0] == k) - p) < limit and abs(np.mean(columns[:, 1] == 2 - k) - p) < limit
    assert large.max() <= 2**40 and abs(large.mean() / 2**40 - 0.5) < limit


def test_permutations() -> None:
    @pb.function
    def draw(keys: UInt32[Array, "3 2"], x: Int64[Array, "N"]):
        rows = [random.permutation(keys[k], 4) for k in range(3)]
        return pb.stack(rows), random.permutation(keys[0], x), random.permutation(keys[0], x.shape[0])

    keys = pb.function(lambda key: random.split(key, 3))(KEY)
    rows, moved, order = draw(keys, np.arange(10, 50))
    assert all(sorted(r) == [0, 1, 2, 3] for r in rows.tolist())
    np.testing.assert_array_equal(moved, np.arange(10, 50)[order])
    many = pb.vmap(lambda key: random.permutation(key, 3))(pb.function(lambda key: random.split(key, 300))(KEY))
    seen = {tuple(r): 0 for r in many.tolist()}
    for r in many.tolist():
        seen[tuple(r)] += 1
    assert len(seen) == 6
    assert min(seen.values()) > 25


ERRORS = {
    "random.bits(np.zeros(3, np.uint32))": "bits: a key is u32[2], not u32[3]",
    "random.bits(key, 2, dtype='int32')": "bits are u32 or u64, not i32",
    "random.normal(key, 2, dtype='int32')": "normal gives floating-point numbers, not i32",
    "random.integers(key, 2, low=3, high=3)": "integers: there is none from 3 up to, not including, 3",
    "random.integers(key, 2, low=0, high=257, dtype='uint8')": "256 does not fit u8, which holds 0 to 255",
    "random.integers(key, 2, low=-1, high=5, dtype='uint8')": "-1 does not fit u8, which holds 0 to 255",
    "random.integers(key, 2, low=np.int64(-129), high=5, dtype='int8')":
        "-129 does not fit i8, which holds -128 to 127",
    "random.integers(key, 2, low=1.5, high=3)": "integers: low and high are integers, not a Python float",
    "random.key(1.5)": "a seed is one integer, not a Python float",
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    space: dict[str, Any] = {"random": random, "np": np, "UInt32": UInt32, "Array": Array}
    exec(f'def f(key: UInt32[Array, "2"]):\n    return {call}', space)
    with pytest.raises(pb.PullbackError) as caught:
        pb.function(space["f"])
    assert caught.value.what == ERRORS[call]
