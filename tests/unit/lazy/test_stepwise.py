"""Pieces that run operation by operation before they have code, and kernels on several threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy
from pullback.errors import UsageError
from pullback.ir.interpret import interpret
from pullback.lazy import kernel, stepwise
from pullback.lazy.operation import traced_program
from pullback.lazy.piece import LIGHT, Piece

X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)
APPLIED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: x * x, "difference": lambda x: x - 0.5, "quotient": lambda x: 1.0 / x, "power": lambda x: x**3,
    "tanh": lazy.tanh, "compare": lambda x: x > 0.25, "cast": lambda x: x.astype("int32"), "row": lambda x: x + x[1],
    "number": lambda x: x * lazy.asarray(3.0), "sum": lambda x: lazy.sum(x, axis=0), "part": lambda x: x[1:, ::2],
    "matmul": lambda x: x @ x.T, "where": lambda x: lazy.where(x > 0.0, x, -x), "sort": lambda x: lazy.sort(x),
    "same": lambda x: +x, "single": lambda x: lazy.exp(x.astype("float32")), "half": lambda x: x.astype("float16") * 2,
    "complex": lambda x: lazy.exp(x * 1j), "several": lambda x: lazy.unstack(x)[2],
    "svd": lambda x: lazy.linalg.svd(x)[1],
    "remainder": lambda x: x % 0.75, "floor": lambda x: x.astype("int64") // 2, "nothing": lambda x: lazy.sum(x[:0]),
}  # fmt: skip


@pytest.mark.parametrize("name", APPLIED)
def test_an_operation_by_itself_gives_what_its_program_gives(name: str) -> None:
    node = APPLIED[name](lazy.asarray(X))
    for _ in range(2):
        while node.application is not None and node.application.item >= 0:
            node = node.operands[0]
        application = node.application
        given = [x.numpy() for x in node.operands]
        found = stepwise.evaluated(application, given)
        program, types, _ = traced_program("one", application.operands, application.run)
        expected = kernel.Kernel(program, application.operands, types).interpret(given)
        for a, b in zip([found] if application.type is not None else found, expected, strict=True):
            assert type(a) is np.ndarray and a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a, b)
            assert not any(np.shares_memory(a, x) for x in given)


def test_elementwise_operations_need_no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> Any:
        raise AssertionError("interpreted")

    monkeypatch.setattr(stepwise, "interpret", refuses)
    x = lazy.asarray(X)
    for name in ("product", "difference", "quotient", "tanh", "compare", "cast", "number", "remainder", "floor"):
        node = APPLIED[name](x)
        program = traced_program("one", node.application.operands, node.application.run)[0]
        given = [a.numpy() for a in node.operands]
        found = stepwise.evaluated(node.application, given)
        np.testing.assert_array_equal(found, interpret(program, given)[0])


def test_a_new_structure_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    monkeypatch.setattr(kernel, "_COMPILER", type("Compiler", (), {"put": staticmethod(lambda _: None)}))
    traced: list[Piece] = []
    monkeypatch.setattr(Piece, "_traced", lambda self, exact: traced.append(self))
    x = lazy.asarray(X)

    def chain() -> Any:
        h = lazy.tanh(x * 1.375) + x
        return h * x - lazy.tanh(h)

    h = np.tanh(X * 1.375) + X
    for _ in range(3):
        np.testing.assert_allclose(chain().numpy(), h * X - np.tanh(h), rtol=1e-15)
    assert traced == []


def test_a_heavy_structure_is_looked_up_on_disk_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    asked: list[kernel.Kernel] = []

    def absent(self: kernel.Kernel) -> bool:
        asked.append(self)
        return False

    monkeypatch.setattr(kernel.Kernel, "_is_on_disk", absent)
    x = lazy.asarray(np.ones(int(2 * LIGHT)))
    assert float((x * 1.4375)[0]) == 1.4375 and float((x[:5] * 1.4375)[0]) == 1.4375
    assert len(asked) == 1


def test_pieces_that_wait_for_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    monkeypatch.setenv("PULLBACK_LAZY", "wait")
    before = lazy.stats()
    x = lazy.asarray(X)
    np.testing.assert_allclose((x * 1.1875 + lazy.sum(x)).numpy(), X * 1.1875 + X.sum(), rtol=1e-14)
    assert (lazy.stats() - before).interpreted == 0
    assert float(lazy.sum(x[:0] * 1.1875)) == 0.0  # of nothing there is no code
    assert (lazy.stats() - before).interpreted == 1
    monkeypatch.setenv("PULLBACK_LAZY", "now")
    told = r"""^UsageError \[E602\] PULLBACK_LAZY=now is no way to compile
  try: background or wait      See `pullback explain-error E602`$"""
    with pytest.raises(UsageError, match=told):
        (x * 1.15625).numpy()


def test_threads_of_a_kernel_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    monkeypatch.setenv("PULLBACK_LAZY", "wait")
    x = lazy.asarray(np.random.default_rng(0).normal(size=500_000))
    asked: list[int] = []
    own = kernel.thread_count

    def counted() -> int:
        asked.append(own())
        return asked[-1]

    monkeypatch.setattr(kernel, "thread_count", counted)
    found = []
    for threads in (1, 2, 3):
        with pb.threads(threads):
            found.append((lazy.exp(x) * 1.0625).numpy())
            found.append(lazy.sum(lazy.exp(x) * 1.0625).numpy())
    assert asked == [1, 1, 2, 2, 3, 3]
    for k in (2, 4):
        np.testing.assert_array_equal(found[k], found[0])
        np.testing.assert_array_equal(found[k + 1], found[1])
    np.testing.assert_allclose(found[0], np.exp(np.asarray(x)) * 1.0625, rtol=1e-14)
