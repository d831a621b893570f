"""The C of the corpus, and of programs that are packed, shared out among threads, or sorted: digests in `loops.txt`.

Nothing is compiled, so that the quick suite sees each change of these loops, also one that changes no value. After a
change that is meant: `pytest tests/golden/test_loops.py --update-golden`. To read it, print the C before and after:

    python -m tests.golden.test_loops product convolution
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from benchmarks.corpus import corpus
from pullback.ir.dims import determined_dims
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.product import blocking
from pullback.loops.threads import splitting
from pullback.machine import AVX512, GENERIC, Machine, of_width
from pullback.runtime.emit import lower_program, print_lowered
from tests.laws.test_threads import PROGRAMS as THREADS
from tests.packing import pack_all
from tests.unit.loops import test_packed as packed

FILE = Path(__file__).parent / "loops.txt"
AVX2 = of_width(32)


@dataclass(frozen=True)
class Case:
    """A program with its dims and the machine that it is for."""

    text: str
    dims: Mapping[str, int] = field(default_factory=dict)
    machine: Machine = AVX2


MATMUL = "mm(x: {t}[M, K], y: {t}[K, N]) {{ z = build m < M, n < N {{ sum k < K {{ x[m, k] * y[k, n] }} }} return z }}"
UPDATE = """update(p0: f32[N, M], x: f32[K, N], rate: f32[]) {{
      p = fold t < 3 (p = p0) {{
        a = build k < K, m < M {{ tanh(sum n < N {{ x[k, n] * p[n, m] }}) }}
        q = build n < N, m < M {{ p[n, m] - {factor} * sum k < K {{ x[k, n] * a[k, m] }} }}
        yield q }}
      return p }}"""
CASES = {
    "product": Case(MATMUL.format(t="f32"), {"M": 500, "N": 410, "K": 1300}),
    "product_open": Case(MATMUL.format(t="f32")),
    "product_wide": Case(MATMUL.format(t="f64"), {"M": 70, "N": 900, "K": 65}, AVX512),
    "product_small": Case(MATMUL.format(t="f32"), {"M": 9, "N": 13, "K": 11}, GENERIC),
    "transposed": Case("""tt(x: f64[K, M], y: f64[N, K], b: f64[N], w: f64[N, M]) {
      z = build n < N, m < M { w[n, m] - 0.5 * tanh(sum k < K { x[k, m] * y[n, k] } + b[n]) } return z }""",
      {"M": 300, "N": 203, "K": 700}),
    "batch": Case("""batch(x: f32[B, M, K], y: f32[B, K, N]) {
      z = build b < B, m < M, n < N { sum k < K { x[b, m, k] * y[b, k, n] } } return z }""",
      {"B": 8, "M": 64, "N": 65, "K": 66}),
    "triangle": Case("""triangle(x: f64[M, K], y: f64[K, N]) {
      z = build m < M, n < N { sum k < K { [m >= k] x[m, k] * y[k, n] } } return z }""",
      {"M": 200, "N": 201, "K": 202}),
    "convolution": Case("""conv(x: f32[B, C, H, W], w: f32[O, C, P, Q], b: f32[O]) {
      y = build n < B, o < O, i < (H - P) // 2 + 1, j < (W - Q) // 2 + 1 {
        sum c < C, p < P, q < Q { x[n, c, 2 * i + p, 2 * j + q] * w[o, c, p, q] } + b[o] }
      return y }""", {"B": 16, "C": 32, "H": 28, "W": 28, "O": 64, "P": 3, "Q": 3}),
    "convolution_back": Case("""back(w: f32[O, C, P, P], g: f32[B, O, I, I]) {
      x = build n < B, c < C, i < 2 * I + P - 2, j < 2 * I + P - 2 { sum o < O, p < P, q < P {
        [i >= p, j >= q, i - p < 2 * I - 1, j - q < 2 * I - 1, (i - p) % 2 == 0, (j - q) % 2 == 0]
          w[o, c, p, q] * g[n, o, (i - p) // 2, (j - q) // 2] } }
      return x }""", {"B": 16, "C": 32, "I": 13, "O": 64, "P": 3}),
    "rows": Case("""rows(x: f64[N, M], w: f64[M]) {
      y = build n < N { sum m < M { exp(x[n, m]) * w[m] } }
      z = build { sum n < N { y[n] * y[n] } }
      u = build n < N, m < M { x[n, m] / y[n] }
      return y, z, u }""", {"N": 500, "M": 900}),
    "columns": Case("""columns(x: f32[N, M], y: f32[N]) {
      z = build m < M { sum n < N { x[n, m] * y[n] } }
      most = build { max n < N, m < M { x[n, m] } }
      return z, most }""", {"N": 40000, "M": 24}),
    "shared_open": Case("""open(x: f64[N, M]) {
      y = build n < N, m < M { tanh(x[n, m]) }
      z = build { sum n < N, m < M { y[n, m] * x[n, M - 1 - m] } }
      return y, z }"""),
    "states": Case("""states(h0: f32[B, N], w: f32[N, N], x: f32[T, B, N]) {
      h, all = fold t < T (h = h0) {
        a = build b < B, n < N { tanh(x[t, b, n] + sum m < N { h[b, m] * w[m, n] }) }
        yield a, a }
      return h, all }""", {"T": 20, "B": 64, "N": 128}),
    "scattered": Case("""scattered(x: f64[N, M], y: f64[K, M], at: i64[N]) {
      z = build k < K, m < M { y[k, m] + sum n < N { [check(at[n], K) == k] x[n, m] } }
      return z }""", {"N": 5000, "M": 64, "K": 100}),
    "gathered": Case("""gather(x: f64[M, K], y: f64[L, N], at: i64[K]) {
      z = build m < M, n < N { sum k < K { 3.0 * x[m, k] * y[check(at[k], L), n] } } return z }""",
      {"M": 130, "N": 90, "K": 300, "L": 500}),
    "by_weights": Case("""weights(x: f32[B, C, H, W], g: f32[B, O, I, J]) {
      w = build o < O, c < C, p < H - I + 1, q < W - J + 1 {
        sum b < B, i < I, j < J { x[b, c, i + p, j + q] * g[b, o, i, j] } }
      return w }""", {"B": 32, "C": 16, "H": 20, "W": 20, "O": 32, "I": 18, "J": 18}),
    "groups": Case("""groups(x: f32[B, G * C, H], w: f32[G * O, C, P], g: f32[B, G * O, H]) {
      y = build b < B, c < G * C, i < H { sum o < O, p < P {
        [i >= p] w[O * (c // C) + o, c % C, p] * g[b, O * (c // C) + o, i - p] } }
      return y }""", {"B": 16, "G": 4, "C": 16, "O": 16, "P": 5, "H": 200}),
    "kronecker": Case("""kronecker(x: f64[M, K], y: f64[N, K]) {
      z = build m < M * N { sum k < K { x[m // N, k] * y[m % N, k] } } return z }""", {"M": 90, "N": 70, "K": 200}),
    "layers_open": Case("""layers(x: f32[B, M], v: f32[N, M], w: f32[K, N], c: f32[N]) {
      a = build b < B, n < N { tanh(sum m < M { x[b, m] * v[n, m] } + c[n]) }
      y = build b < B, k < K { sum n < N { a[b, n] * w[k, n] } }
      loss = build { sum b < B, k < K { y[b, k] * y[b, k] } }
      return y, loss }"""),
    "pooled": Case("""pooled(x: f32[B, C, H, W]) {
      y = build b < B, c < C, i < H // 2, j < W // 2 { max p < 2, q < 2 { x[b, c, 2 * i + p, 2 * j + q] } }
      s = build c < C { sum b < B, i < H // 2, j < W // 2 { y[b, c, i, j] } }
      return y, s }""", {"B": 32, "C": 16, "H": 28, "W": 28}),
    "columns_open": Case("""columns(x: f32[N, M], y: f32[N]) {
      z = build m < M { sum n < N { x[n, m] * y[n] } }
      return z }"""),
    "few_rows": Case("""few(x: f64[N, M], y: f64[N]) {
      z = build n < N, m < M { exp(x[n, m]) * y[n] }
      s = build n < N { sum m < M { z[n, m] * z[n, m] } }
      u = build n < N, m < M { [m >= n] z[n, m] - s[n] }
      return z, s, u }""", {"N": 3, "M": 200000}),
    "triangular_sums": Case("""lower(x: f64[N, N], y: f64[N]) {
      z = build n < N { sum m < N { [n >= m] x[n, m] * y[m] } }
      u = build m < N { sum n < N { [n >= m] x[n, m] * y[n] } }
      return z, u }""", {"N": 3000}),
    "extremes_open": Case("""most(x: f32[N, M]) {
      a = build { max n < N, m < M { x[n, m] } }
      p = build m < M { argmax n < N { x[n, m] } }
      b = build n < N { any m < M { x[n, m] > 0.5 } }
      return a, p, b }"""),
    "rows_in_loop": Case("""rows(x: f64[T, N], y0: f64[N]) {
      y, total = fold t < T (y = y0) {
        e = build n < N { tanh(y[n] + x[t, n]) }
        s = build { sum n < N { e[n] * e[n] } }
        z = build n < N { e[n] / s }
        yield z, s }
      return y, total }""", {"T": 50, "N": 100000}),
    "sorted_values": Case("""top(x: f64[N, M]) {
      p = order n < N, m < M { x[n, m] }
      v = build n < N, k < 5 { x[n, check(p[n, k], M)] }
      return v }""", {"N": 50, "M": 300}),
    "sorted_all": Case("""all(x: f64[N, M], y: f64[N, M]) {
      p = order n < N, m < M { exp(x[n, m]) }
      v = build n < N, m < M { y[n, check(p[n, m], M)] }
      q = order m < M { y[0, m] }
      u = build m < M { y[0, check(q[m], M)] }
      return v, u }""", {"N": 50, "M": 300}),
    "sorted_keys": Case("""keys(x: f64[N, M]) {
      p = order n < N, m < M { -x[n, m] }
      k = build n < N, m < M { -x[n, m] }
      v = build n < N, m < M { k[n, check(p[n, m], M)] }
      w = order m < M { x[m % N, m] }
      return v, w }""", {"N": 50, "M": 300}),
    "product_in_place": Case("""steps(p0: f64[N, N], x: f64[N, N], rate: f64[]) {
      p = fold t < 3 (p = p0) {
        q = build n < N, m < N { p[n, m] + rate[] * sum k < N { p[n, k] * x[k, m] } }
        yield q }
      return p }""", {"N": 300}),
    "scaled_update": Case("""update(w: f32[M, N], x: f32[M, K], y: f32[K, N], rate: f32[]) {
      z = build m < M, n < N { w[m, n] + rate[] * sum k < K { x[m, k] * y[k, n] } }
      return z }""", {"M": 200, "N": 300, "K": 400}),
    "update_by_rate": Case(UPDATE.format(factor="0.5 * rate[]"), {"N": 130, "M": 97, "K": 64}),
    "update_by_number": Case(UPDATE.format(factor="0.5"), {"N": 130, "M": 97, "K": 64}),
    "update_open": Case(UPDATE.format(factor="rate[]")),
    "lone_column": Case(MATMUL.format(t="f32"), {"M": 300, "N": 97, "K": 400}),
    "lone_column_wide": Case(MATMUL.format(t="f64"), {"M": 300, "N": 97, "K": 400}, AVX512),
    "strided_open": Case("""strided(x: f32[B, C, 2 * H, W], w: f32[O, C]) {
      y = build b < B, o < O, i < H, j < W { sum c < C { x[b, c, 2 * i, j] * w[o, c] } }
      return y }"""),
    "far_steps_open": Case("""far(x: f64[N, H, 2 * W], y: f64[M, H, W]) {
      z = build n < N, m < M { sum h < H, w < W { x[n, h, 2 * w] * y[m, h, w] } }
      return z }"""),
    "evaluated": Case("""evaluated(x: f32[M, K], v: f32[M, K], y: f32[K, N], at: i64[N]) {
      z = build m < M, n < N { sum k < K { [n >= k] x[m, k] * v[m, k] * y[k, check(at[n], N)] } }
      return z }""", {"M": 150, "N": 170, "K": 130}),
    "chosen_products": Case("""chosen(x: f32[M, K], v: f32[M, K], y: f32[K, N], w: f32[K, N]) {
      z = build c < 3, m < M, n < N { sum k < K {
        [c == 0] x[m, k] * y[k, n] + [c == 1] x[m, k] * w[k, n] + [c == 2] v[m, k] * y[k, n] } }
      return z }""", {"M": 200, "N": 300, "K": 400}),
    "rows_of_one_product": Case("""lone(x: f32[K], y: f32[K, N], w: f32[M, K]) {
      z = build n < N { sum k < K { x[k] * y[k, n] } }
      u = build m < M { sum k < K { w[m, k] * x[k] } }
      return z, u }""", {"M": 900, "N": 1000, "K": 1100}),
    "sorted": Case("""top(x: f64[N, M], w: f64[N, M]) {
      p = order n < N, m < M { -x[n, m] }
      v = build n < N, k < 5 { x[n, check(p[n, k], M)] }
      u = build n < N, m < M { w[n, check(p[n, m], M)] }
      s = sort n < N, m < M { w[n, m] }
      return v, u, s }""", {"N": 50, "M": 300}),
}


EAGER = replace(GENERIC, meeting=1, chunk=1, waking=1)  # whatever can be is shared out
SIZES = {"N": 77, "M": 29, "K": 90, "B": 3, "C": 5, "H": 17, "W": 19, "O": 7, "P": 3, "Q": 2, "I": 9, "J": 8, "G": 3,
         "L": 40}  # fmt: skip
PACKED = {name: text for name, text in vars(packed).items() if name.isupper() and isinstance(text, str)}
CASES |= {f"threads {name}": Case(text, SIZES, EAGER) for name, text in THREADS.items()}
CASES |= {f"threads {name} open": Case(text, {}, EAGER) for name, text in THREADS.items()}
CASES |= {f"packed {name.lower()}": Case(text.format(t="f32"), SIZES) for name, text in PACKED.items()}
ANY_SIZES = ("KRONECKER", "BY_WEIGHTS", "GATHER")
CASES |= {f"packed {name.lower()} open": Case(PACKED[name].format(t="f32")) for name in ANY_SIZES}


LARGE = {"network mobilenet_v2", "network resnet18", "network gpt", "network lenet", "program lenet-500",
         "program lenet-64", "kernel product-1x4096x9216-f32"}  # take longer than all others of their kind
CORPUS = {e.name: e for e in corpus() if e.name not in LARGE and not e.name.startswith("random")}
NAMES = [*CASES, *CORPUS]


def program_of(name: str) -> tuple[Program, Mapping[str, int]]:
    """The program of a case or of the corpus, with its dims."""
    if name in CORPUS:
        return CORPUS[name].make()
    program = parse_program(CASES[name].text)
    return program, {d: n for d, n in CASES[name].dims.items() if d in determined_dims(program)}


def text_of(name: str, patch: pytest.MonkeyPatch) -> str:
    """The C of a case, with its large loops shared out; of those of threads and packing all loops that can be."""
    program, dims = program_of(name)
    machine = CASES[name].machine if name in CASES else AVX2
    if name.startswith("threads"):
        patch.setattr(splitting, "CHEAP", 0)
    elif name.startswith("packed"):
        pack_all(patch, blocking.Blocks(32, 4096, 512 * 1024, 16 * 1024, 16384))
    made = lower_program(program, dims, False, machine, canonical=True, threaded=True)
    verify_function(made.function, made.memory)
    return print_lowered(made, names="user" if name in CASES else "canonical", comments=False).text


def digest(text: str) -> str:
    """The lines of a text, and what tells it from others."""
    return f"{text.count(chr(10))} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_digest(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = digest(text_of(name, monkeypatch))
    kept = dict(line.split(": ", 1) for line in FILE.read_text().splitlines()) if FILE.exists() else {}
    if request.config.getoption("--update-golden"):
        kept[name] = found
        FILE.write_text("".join(f"{n}: {kept[n]}\n" for n in NAMES if n in kept))
    assert kept.get(name) == found, f"the C has changed: `python -m tests.golden.test_loops '{name}'` before and after"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or NAMES:
        with pytest.MonkeyPatch.context() as fixed:
            print(f"/* {wanted} */\n{text_of(wanted, fixed)}")
