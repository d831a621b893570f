"""Programs as users of PyTorch write them: their values and gradients are those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback import lazy, nn

torch: Any = pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
R = np.random.default_rng(0)
Weights = dict[str, Any]


def recurrent(xp: Any, p: Weights, array: Callable[[Any], Any]) -> Any:
    """Stops as soon as its state is large."""
    h = array(np.zeros(6))
    for x in array(SEQUENCE):
        h = xp.tanh(p["w"] @ h + p["u"] @ x)
        if (h * h).sum() > 4.0:
            break
    return (h * h).sum()


def tree_lstm(xp: Any, p: Weights, array: Callable[[Any], Any]) -> Any:
    """As deep as its tree."""

    def encoded(tree: Any) -> Any:
        if isinstance(tree, int):
            return p["leaf"][tree], p["leaf"][tree] * 0.5
        (h1, c1), (h2, c2) = map(encoded, tree)
        z = xp.concat([h1, h2])
        i, o, f = (1.0 / (1.0 + xp.exp(-(p[k] @ z))) for k in "iof")
        c = i * xp.tanh(p["g"] @ z) + f * (c1 + c2)
        return o * xp.tanh(c), c

    return encoded(((0, 1), (2, (3, 4))))[0].sum()


def experts(xp: Any, p: Weights, array: Callable[[Any], Any]) -> Any:
    """The two experts that a gate likes best."""
    x = array(SEQUENCE[0])
    scores = xp.exp(p["gate"] @ x)
    weights = scores / scores.sum()
    chosen = sorted(range(4), key=lambda k: weights[k].item())[2:]
    return (sum(weights[k] * xp.tanh(p[f"expert{k}"] @ x) for k in chosen) ** 2).sum()


def attention(xp: Any, p: Weights, array: Callable[[Any], Any]) -> Any:
    """Over texts of several lengths."""
    total = 0.0
    for n in (3, 5, 2):
        x = array(SEQUENCE[:n])
        scores = xp.exp(x @ p["w"] @ x.T)
        total = total + (xp.tril(scores / scores.sum(axis=1, keepdims=True)) @ x).sum()
    return total


def shared(xp: Any, p: Weights, array: Callable[[Any], Any]) -> Any:
    """One weight in three places, one of them transposed; half of a root by Newton's iteration in Python."""
    y = (p["w"] @ xp.tanh(p["w"] @ (p["w"].T @ array(SEQUENCE[0])))).sum() ** 2 + 1.0
    root = y * 0.5
    while abs(root * root - y) > 1e-12:
        root = (root + y / root) * 0.5
    return root


SEQUENCE = R.normal(size=(20, 3))
PROGRAMS: dict[Any, Weights] = {
    recurrent: {"w": R.normal(size=(6, 6)) * 0.4, "u": R.normal(size=(6, 3))},
    tree_lstm: {"leaf": R.normal(size=(5, 4)), **{k: R.normal(size=(4, 8)) for k in "iofg"}},
    experts: {"gate": R.normal(size=(4, 3)), **{f"expert{k}": R.normal(size=(5, 3)) for k in range(4)}},
    attention: {"w": R.normal(size=(3, 3))},
    shared: {"w": R.normal(size=(3, 3))},
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_are_those_of_torch(program: Any) -> None:
    cells = lazy.weights(PROGRAMS[program])
    theirs = {k: torch.tensor(v, requires_grad=True) for k, v in PROGRAMS[program].items()}
    wanted = program(torch, theirs, torch.tensor)
    wanted.backward()
    assert lazy.backward(program(lazy, cells, lazy.asarray)) == pytest.approx(wanted.item(), rel=1e-12)
    for name, cell in cells.items():
        if theirs[name].grad is None:
            assert cell.grad is None
        else:
            np.testing.assert_allclose(cell.grad, theirs[name].grad, rtol=1e-9, atol=1e-12)


def test_a_bandit_learns_as_torch_does() -> None:
    r, w, t = np.random.default_rng(3), lazy.Weight(np.zeros(4)), torch.zeros(4, dtype=torch.float64).requires_grad_()
    trainer, theirs = lazy.Trainer([w], nn.sgd(0.1)), torch.optim.SGD([t], 0.1)
    for _ in range(10):
        p = lazy.softmax(w)
        a = int(r.choice(4, p=p.numpy()))
        trainer.step(-lazy.log(p[a]) * (0.0, 1.0, 0.2, 0.5)[a])
        theirs.zero_grad()
        (-torch.log(torch.softmax(t, 0)[a]) * (0.0, 1.0, 0.2, 0.5)[a]).backward()
        theirs.step()
    np.testing.assert_allclose(w, t.detach(), rtol=1e-12)


def test_arrays_go_to_torch_and_back() -> None:
    a = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.from_dlpack(lazy.from_dlpack(a) * 3.0), a * 3.0)
    assert (lazy.asarray(a) + 1.0).tolist() == (a + 1.0).tolist()
