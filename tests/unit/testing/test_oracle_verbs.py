"""Linear algebra and rank verbs of the oracle beside those of the language, with all derivatives."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.support.agreement import Program

A: Final = np.array([[3.0, 0.5, 0.2], [0.4, 2.5, -0.3], [0.1, 0.2, 4.0]])
ARGUMENTS: Final = {"A": A, "S": A @ A.T, "B": np.arange(6.0).reshape(3, 2) + 0.5, "b": np.array([1.0, 2.0, 3.0])}
QUERIES: Final = (
    "m.solve(A,b)",
    "m.solve(A,B)",
    "m.inv(A)",
    "m.det(A)",
    "m.cholesky(S)",
    "v.rank(lambda r: r / pb.sum(r), 1)(A)",
    "v.rank(pb.add, (0,1))(b, A)",
    "v.each(pb.sin)(A)",
    "v.table(pb.subtract)(b,b)",
    "v.reduce(lambda a,b: a-b, A)",
    "v.reduce(pb.add, A, axis=0)",
    "v.reduce(pb.multiply, A, axis=None)",
    "v.reduce(lambda a, b: a - 0.5*b, A, axis=None)",
    "v.take(2,A)",
    "v.take((-2,5),A)",
    "v.drop((1,-1),A)",
    "v.reshape((2,7),A)",
    "v.ravel(A)",
    "v.catenate(A,B)",
    "v.replicate(2,A)",
    "v.transpose(B)",
    "v.transpose(A,(0,0))",
    "v.stencil(pb.sum, 3)(A)",
    "v.stencil(pb.max, (3,2), (2,1))(A)",
    "v.stencil(lambda w: v.reduce(pb.add,w)*w[0],3,2)(b)",
    "v.power(pb.sin,3)(b)",
)


@pytest.mark.parametrize("expression", QUERIES)
def test_oracle_agrees(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    source = f"v, m = pb.verbs, pb.linalg\nf = pb.function(lambda A, S, B, b: {expression})"
    program = Program(source, ARGUMENTS)
    for query in ("f(A, S, B, b)", "pb.jacobian(f, wrt=('A', 'S', 'B', 'b'))(A, S, B, b)"):
        verdict = program.judge(query)
        assert not verdict.faults and verdict.compared and not verdict.undecided, verdict
