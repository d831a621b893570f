"""The source locations of operations in layers are those of a walk over all frames."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.ir.program import walk_statements
from pullback.nn import scope as scopes


@nn.layer()
def doubled(scope: Any, x: Any) -> Any:
    inner = scope.call(nn.sequential(nn.relu, nn.dense(3)), x)
    return inner * 2


def places(monkeypatch: pytest.MonkeyPatch, once: bool) -> list[list[str]]:
    """The locations of all statements of a network; `once` as the package finds them."""
    if not once:
        monkeypatch.setattr(scopes, "walked", nullcontext)
    network = nn.sequential(nn.dense(4), nn.residual(nn.sequential(nn.relu, nn.dense(4))), doubled(), nn.batch_norm())
    on = network.on("N 5")
    parameters, state = on.init()

    @pb.function
    def f(x: Any) -> Any:
        y, _ = network.apply(parameters, state, x, training=True)
        return pb.sum(y * y)

    program = f.program(np.ones((2, 5), np.float32))
    return [[str(p) for p in getattr(s, "positions", ())] for s in walk_statements(program.body)]


def test_layers_look_for_the_users_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = places(monkeypatch, True)
    assert found == places(monkeypatch, False)
    lines = {p.rpartition("/")[2].split(":")[1] for place in found for p in place}
    assert len(lines) >= 3  # in a layer of the user's, at the call of the network, and after it
    assert all("test_places.py" in p for place in found for p in place)
