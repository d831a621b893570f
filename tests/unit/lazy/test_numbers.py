"""Numbers of Python beside lazy arrays: a few are part of the structure, numbers that keep changing are values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback import lazy

X = np.arange(4.0)


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8"])
def test_numbers_that_change_make_few_pieces(kind: str) -> None:
    x = lazy.asarray(X.astype(kind))
    integer = np.dtype(kind).kind in "iu"
    before = lazy.stats().pieces
    for k in range(60):
        number = k if integer else 0.37 * k
        for found, wanted in (
            (x + number, X + number),
            (number * x, number * X),
            (x > number, number < X),
            (60 + number - x, 60 + number - X),
        ):
            assert np.allclose(np.asarray(found), wanted, rtol=1e-6)
        assert (x + number).dtype == x.dtype
    assert lazy.stats().pieces - before <= 4 * 17 + 1


def test_an_integer_that_does_not_fit_is_refused_as_ever() -> None:
    x = lazy.asarray(X.astype("uint8"))
    for k in range(256):
        assert np.asarray(x % 7 + k)[0] == k
    with pytest.raises(TypeError, match="256 does not fit u8"):
        _ = x + 256


def test_rows_by_number_make_few_pieces_and_have_derivatives() -> None:
    w = lazy.Weight(np.ones((50, 3)))
    before = lazy.stats().pieces
    for k in range(-50, 50):
        lazy.backward(lazy.sum(w[k] * float(k)))
    assert lazy.stats().pieces - before <= 40
    assert np.array_equal(w.grad, np.repeat(2.0 * np.arange(50) - 50, 3).reshape(50, 3))
    with pytest.raises(ValueError, match=r"\[E103\]"):
        _ = w[50]


def test_which_rows_a_text_has_is_no_structure() -> None:
    """The first four letters stayed part of the structure, so that each text made pieces of its own, for ever."""
    r = np.random.default_rng(0)
    w, letters = lazy.Weight(np.full((3, 3), 0.1)), lazy.asarray(r.normal(size=(27, 3)))

    def read(text: list[int]) -> None:
        h = letters[text[0]]
        for letter in text[1:]:
            h = lazy.tanh(w @ h + letters[letter])
        lazy.backward(lazy.sum(h))

    for k in range(6):
        read([k] * 7)
    before = lazy.stats().pieces
    for _ in range(20):
        read([int(k) for k in r.integers(0, 27, 7)])
    assert lazy.stats().pieces == before


def test_what_keeps_changing_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from pullback.lazy import piece

    monkeypatch.setattr(piece, "MOST", 8)
    monkeypatch.setattr(piece, "_KNOWN", {})
    x = lazy.asarray(X)
    for k in range(30):
        assert np.allclose(np.asarray(lazy.clip(x, 0.0, 0.1 * k)), np.clip(X, 0, 0.1 * k))
    assert len(piece._KNOWN) <= 8


@pytest.mark.slow
def test_trees_are_soon_made_of_known_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tree was a piece of its own, traced for one use: what comes once runs as short pieces."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    r = np.random.default_rng(0)
    start = {"left": r.normal(size=(3, 3)), "right": r.normal(size=(3, 3)), "leaf": r.normal(size=(20, 3))}
    cells = lazy.weights(start)

    def drawn(leaves: int) -> Any:
        k = int(r.integers(1, leaves)) if leaves > 1 else 0
        return (drawn(k), drawn(leaves - k)) if k else int(r.integers(0, 20))

    def encoded(xp: Any, p: Any, tree: Any) -> Any:
        if isinstance(tree, int):
            return p["leaf"][tree]
        left, right = (encoded(xp, p, t) for t in tree)
        return xp.tanh(p["left"] @ left + p["right"] @ right)

    counts = []
    for k in range(40):
        before, tree = lazy.stats().pieces, drawn(int(r.integers(6, 20)))
        lazy.backward(lazy.sum(encoded(lazy, cells, tree)))
        counts.append(lazy.stats().pieces - before)
        if k % 20 == 0:  # along a direction
            moves = {n: r.normal(size=x.shape) for n, x in start.items()}
            ahead, behind = ({n: start[n] + s * moves[n] for n in start} for s in (1e-6, -1e-6))
            slope = (encoded(np, ahead, tree) - encoded(np, behind, tree)).sum() / 2e-6
            assert sum(np.sum(cells[n].grad * moves[n]) for n in start) == pytest.approx(slope, rel=1e-6)
        for cell in cells.values():
            cell.grad = None
    assert sum(counts) < 60
    assert sum(counts[20:]) < 15
