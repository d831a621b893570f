"""States of recurrent networks in and out, attention between two sequences, and the example that has both."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.cli.options import import_file
from pullback.errors import PullbackError
from pullback.testing import check_grads
from tests.strict import QUIET

COMPILER = shutil.which("gcc") or shutil.which("cc")
ROOT = Path(__file__).resolve().parents[3]
RANDOM = np.random.default_rng(0)


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


# States -----------------------------------------------------------------------------------------------------------

NETS = {
    "lstm": nn.lstm(4),
    "deep": nn.sequential(nn.dense(5), nn.lstm(4, num_layers=2), nn.layer_norm(), nn.gru(3), nn.dense(2)),
    "inside": nn.sequential(nn.residual(nn.gru(3)), nn.dense(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_a_sequence_in_parts_is_the_sequence(name: str) -> None:
    net, step = NETS[name].on("2 L 3"), nn.with_states(NETS[name].on("2 L 3"))
    p, _ = net.init(seed=1, dtype=np.float64)
    x = RANDOM.normal(size=(2, 7, 3))
    parts, states = [], None
    for k in range(0, 7, 3):
        y, states = step(p, (x[:, k : k + 3], states))
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, 1), net(p, x), rtol=1e-12, atol=1e-14)
    y, other = step(p, (x, None))
    for a, b in zip(leaves(states), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def leaves(tree: Any) -> list[Any]:
    from pullback.tracing.tree import flatten

    return flatten(tree)[0]


def test_states_have_the_names_of_layers() -> None:
    net = NETS["deep"].on("N L 3")
    step = nn.with_states(net)
    assert step.type.takes == (
        "(f32[N, L, 3], {gru1: {h: f32[N, 3]}, lstm1: {lstm1: {cell: f32[N, 4], h: f32[N, 4]}, "
        "lstm2: {cell: f32[N, 4], h: f32[N, 4]}}})"
    )
    assert step.on(("1 1 3", None)).type.takes.startswith("(f32[1, 1, 3], {gru1: {h: f32[1, 3]}, ")
    assert repr(step) == f"with_states({net!r})"
    whole = nn.sequential(step, lambda pair: pair[0]).on(("2 L 3", None))  # it stays a part of its own
    p = whole.init(seed=0)[0]
    assert list(p) == ["with_states1"] and whole.type.result == "f32[2, L, 2]"
    own = nn.layer("N L M")(lambda scope, x: kept(scope, x))()
    assert nn.with_states(own).type.takes == "(f32[N, L, M], {sum: f32[N, M]})"
    y, states = nn.with_states(own)({}, (np.ones((1, 3, 2), np.float32), {"sum": np.full((1, 2), 4.0, np.float32)}))
    assert (y.tolist(), states["sum"].tolist()) == ([[7.0, 7.0]], [[7.0, 7.0]])


def kept(scope: Any, x: Any) -> Any:
    total = scope.carried("sum", (x.shape[0], x.shape[2])) + pb.sum(x, axis=1)
    scope.carry("sum", total)
    return total


def test_states_that_do_not_fit() -> None:
    net = nn.sequential(nn.gru(4)).on("N L 3")
    step, (p, _) = nn.with_states(net), net.init(seed=0)
    x = np.zeros((2, 5, 3), np.float32)
    at = "with_states(sequential(gru(4))): "
    takes = "a tree as the network takes it: (N L 3, {gru1: {h: N 4}})"
    assert message(lambda: step(p, (x, {"gru1": {"g": x[:, 0]}}))) == (
        f"E168 {at}the input[1]['gru1'] is a dict of 'g': there is no 'h'; 'g' is not taken |  | {takes}"
    )
    assert message(lambda: step(p, x)) == f"E168 {at}the input is one array, and a tuple of 2 is taken |  | {takes}"
    assert message(lambda: step(p, (x, {"gru1": {"h": np.zeros((2, 3), np.float32)}}))) == (
        f"E168 {at}input[1]['gru1']['h'] is f32[2, 3], and [N, 4] is taken |  | "
        "arrays of the sizes that the network takes"
    )
    assert message(lambda: step(p, (x, {"gru1": {"h": np.zeros((3, 4), np.float32)}}))) == (
        f"E168 {at}input[0] has N = 2, and input[1]['gru1']['h'] has N = 3 |  | "
        "arrays of the sizes that the network takes"
    )
    inner = nn.layer("N L 3")(lambda scope, x: scope.call(nn.with_states(nn.gru(4)), x, "g"))()
    assert message(lambda: inner(p, x)) == (
        "E168 with_states takes a pair (x, states), and was given f32[2, 5, 3] | in g = with_states(gru(4)), which was "
        "given f32[2, 5, 3] | `(x, None)` begins with zeros"
    )


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_step_with_its_states_in_c(tmp_path: Path) -> None:
    net = nn.sequential(nn.dense(5), nn.lstm(4), nn.dense(2)).named("stream").on("N L 3")
    step = nn.with_states(net).on(("1 1 3", None))
    p, _ = step.init(seed=2)
    step.export(tmp_path, p, weights="const")
    sources = sorted(map(str, tmp_path.glob("*.c")))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", *QUIET]
    assert COMPILER is not None
    subprocess.run([COMPILER, *flags, *sources, "-o", "program", "-lm"], cwd=tmp_path, check=True)
    x = RANDOM.normal(size=(6, 1, 1, 3)).astype(np.float32)
    cell, h = RANDOM.normal(size=(2, 6, 4)).astype(np.float32)
    for name, array in (("x", x), ("cell", cell), ("h", h)):
        array.tofile(tmp_path / name)
    run = subprocess.run(["./program", "infer", "x", "cell", "h"], cwd=tmp_path, check=True, capture_output=True,
                         text=True)  # fmt: skip
    for line, *given in zip(run.stdout.splitlines(), x, cell, h, strict=True):
        y, states = step(p, (given[0], {"lstm1": {"cell": given[1][None], "h": given[2][None]}}))
        wanted = [*y.ravel(), *states["lstm1"]["cell"].ravel(), *states["lstm1"]["h"].ravel()]
        np.testing.assert_allclose([float(n) for n in line.split()], wanted, rtol=1e-5, atol=1e-6)


# Attention --------------------------------------------------------------------------------------------------------


def by_hand(p: Any, query: Any, key: Any, mask: Any, heads: int) -> Any:
    """Attention in NumPy; steps that see nothing have heads of zeros."""
    q, k, v = (z @ p[n]["w"].T + p[n]["b"] for n, z in (("query", query), ("key", key), ("value", key)))
    q, k, v = (z.reshape(*z.shape[:2], heads, -1).transpose(0, 2, 1, 3) for z in (q, k, v))
    scores = np.where(mask, q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]), -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.nan_to_num(weights / weights.sum(-1, keepdims=True)) @ v
    return y.transpose(0, 2, 1, 3).reshape(query.shape) @ p["out"]["w"].T + p["out"]["b"]


MASK = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0]], bool)
EACH = RANDOM.random((2, 3, 5)) < 0.5


@pytest.mark.parametrize("mask", [None, MASK, EACH], ids=["none", "padding", "each"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_between_sequences(mask: Any, causal: bool) -> None:
    given = {"query": "N L 8", "key": "N K 6"}
    x = {"query": RANDOM.normal(size=(2, 3, 8)), "key": RANDOM.normal(size=(2, 5, 6))}
    if mask is not None:
        given["mask"], x["mask"] = "bool[N, K]" if mask.ndim == 2 else "bool[N, L, K]", mask
    net = nn.attention(2, is_causal=causal).on(given)
    p, _ = net.init(seed=0, dtype=np.float64)
    p["out"]["b"] += 0.5
    seen = np.ones((2, 1, 1, 5), bool) if mask is None else mask[:, None] if mask.ndim == 3 else mask[:, None, None]
    seen = seen & (np.tril(np.ones((3, 5), bool)) if causal else True)
    wanted = by_hand(p, x["query"], x["key"], seen, 2)
    np.testing.assert_allclose(net(p, x), wanted, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(pb.function(lambda p, x: net(p, x)).interpret(p, x), wanted, rtol=1e-11, atol=1e-12)
    rest = {} if mask is None else {"mask": mask}
    check_grads(pb.function(lambda p, q, k: net(p, {"query": q, "key": k, **rest})), (p, x["query"], x["key"]), order=1)


def test_a_mask_of_the_own_sequence_hides_what_it_hides() -> None:
    net = nn.attention(2).on({"query": "N L 8", "mask": "bool[N, L]"})
    p, _ = net.init(seed=0)
    x, mask = RANDOM.normal(size=(2, 5, 8)).astype(np.float32), np.arange(5) < np.array([[3], [5]])
    y = net(p, {"query": x, "mask": mask})
    changed = x.copy()
    changed[0, 3:] = 1e3
    np.testing.assert_array_equal(net(p, {"query": changed, "mask": mask})[0, :3], y[0, :3])
    np.testing.assert_allclose(y[1:], nn.attention(2)(p, x[1:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("takes", "said"),
    [
        ({"query": "N L 8", "mask": "N L"}, "E122 attention: the mask is f32[N, L], and bools are taken |  | "
         "`lengths[:, None] > np.arange(K)`"),
        ({"query": "N L 8", "keys": "N L 8"}, "E168 attention takes one array, or a dict of 'query', 'key' and 'mask', "
         'and was given {keys: f32[N, L, 8], query: f32[N, L, 8]} |  | `{"query": x, "key": other, "mask": is_there}`'),
        ({"query": "3 L 8", "key": "4 L 8"}, "E162 the query and the key differ in how many sequences they have: [3] "
         "and [4] |  | layers that keep the shape, or a projection"),
        ({"query": "3 L 8", "key": "3 5 8", "mask": "bool[3, 4]"}, "E162 the mask has other sizes than the sequences: "
         "[3, 4] and [3, 5] |  | layers that keep the shape, or a projection"),
        ({"query": "N L 8", "key": "N 8"}, "E162 attention: key takes sequences N L M, and was given f32[N, 8] |  | "
         "`nn.reshape(L, M)` before it, with the sizes of a sample; `x[None]` if x is one sample"),
    ],
)  # fmt: skip
def test_sequences_that_do_not_fit(takes: Any, said: str) -> None:
    assert message(lambda: nn.attention(2).on(takes)) == said


@pytest.mark.slow
def test_the_example_reads_backward() -> None:
    assert import_file(ROOT / "examples" / "reverse.py").main() >= 0.95
