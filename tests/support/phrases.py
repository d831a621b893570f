"""Random APL phrases valued three ways: in a session, interpreted, and compiled.

python -m tests.support.phrases --phrases 2000 --seed 0 [--compiled]

A phrase is verbs of the table, and those that operators derive, on an array ⍵ and on literals. Where both a session
and a function give a value, these have one shape and are equal within 1e-9 of their magnitude; and what the
interpreter and the compiled function give has one element type besides. A function may refuse what a session values
(E801 to E809). It gives ∞ or NaN where a session has a DOMAIN ERROR or a complex number, and for 0÷0. A phrase that a
session refuses for its lengths, ranks, indices or syntax has no value in a function either.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Final

import numpy as np

from pullback import apl
from pullback.apl.table import Settings
from tests.support.apl import AplFailure, NDArray, TooLongError, limited, random_noun, random_verb

ARGUMENTS: Final = (
    np.array([3.0, 1.0, -2.0, 0.5]),
    np.array([1.0, 0.0, 1.0]),
    np.array([4.0, 2.0]),
    np.array(2.0),
    np.arange(6.0).reshape(2, 3),
    np.array([[2.0, 1.0], [1.0, 3.0]]),
    np.arange(8.0).reshape(2, 2, 2) - 3,
    np.zeros(0),
    np.zeros((0, 3)),
    np.array([5.0]),
)


def random_phrase(rng: np.random.Generator) -> tuple[str, NDArray]:
    """The body of a function of ⍵, and its argument."""
    text = "⍵"
    for _ in range(int(rng.integers(1, 4))):
        left = random_noun(rng) if rng.random() < 0.35 else ""
        text = f"{left} {random_verb(rng, 2)}{text}"
    return text, ARGUMENTS[int(rng.integers(len(ARGUMENTS)))]


def agreement(body: str, x: NDArray, compiled: bool = True, seconds: float = 5.0) -> AplFailure | str:
    """Compare a phrase's values: the fault, or `values`, `refused`, `errors`, `long`."""
    text = f"{{{body}}}"
    try:
        with limited(seconds), redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = _in_session(text, x)
            function = apl.apl(text)
            try:
                found = function.interpret(x)
                wrong = _other_numbers(found, function(x)) if compiled else None
            except apl.AplError:
                return "errors" if isinstance(said, str) else "refused"
    except TooLongError:
        return "long"
    except Exception as error:
        return AplFailure(f"{text}{x.tolist()}", f"{type(error).__name__}: {error}")
    if wrong is not None:
        return AplFailure(f"{text}{x.tolist()}", f"the interpreter and the compiled function: {wrong}")
    if isinstance(said, str):
        if said in ("DOMAIN ERROR", "LIMIT ERROR"):
            return "errors"
        return AplFailure(f"{text}{x.tolist()}", f"a session has a {said}, the function gives {_shown(found)}")
    wrong = _other_values(said, found)
    if wrong is not None and not {"!", "÷", "⍟"}.isdisjoint(body) and "nan" in _shown(found):
        return "values"  # 0÷0 is NaN there, and binomial coefficients of two computed numbers are quotients
    return "values" if wrong is None else AplFailure(f"{text}{x.tolist()}", f"a session and the function: {wrong}")


def _in_session(text: str, x: NDArray) -> Any:
    """The value, or the name of the error."""
    work = apl.Workspace(Settings(ct=0.0))
    work["x"] = x
    try:
        return work.evaluate(f"{text}x")
    except apl.AplError as error:
        return error.kind


def _other_numbers(a: Any, b: Any) -> str | None:
    """The difference between results of the interpreter and of the compiled function; else None."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            return "one gives a nest, the other another"
        return next((w for p, q in zip(a, b) if (w := _other_numbers(p, q)) is not None), None)
    p, q = np.asarray(a), np.asarray(b)
    if p.dtype != q.dtype:
        return f"{p.dtype} and {q.dtype}"
    return _difference(p, q)


def _other_values(said: Any, found: Any) -> str | None:
    """The difference between values of a session and a function, where nests are tuples; else None."""
    said = np.asarray(said)
    if isinstance(found, tuple):
        if said.dtype != object or said.ndim > 1 or said.size != len(found):
            return f"{_shown(said)} and a nest of {len(found)}"
        return next((w for p, q in zip(said.ravel(), found) if (w := _other_values(p, q)) is not None), None)
    if said.dtype == object:
        if said.ndim == 0:
            return _other_values(said.item(), found)
        if not said.size:
            return None  # a nest of nothing has the shape of what it would hold, in a function
        parts = [np.asarray(e) for e in said.ravel()]
        if any(e.dtype == object for e in parts) or len({e.shape for e in parts}) > 1:
            return f"{_shown(said)} and {_shown(found)}"
        said = np.stack(parts).reshape(said.shape + parts[0].shape)
    if said.dtype.kind == "c" and np.shape(found) == said.shape:
        found, said = np.where(said.imag == 0, found, np.nan), np.where(said.imag == 0, said.real, np.nan)
    if said.dtype.kind not in "biuf":
        return f"{_shown(said)} and {_shown(found)}" if said.size else None
    return _difference(said, np.asarray(found))


def _difference(a: NDArray, b: NDArray) -> str | None:
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    if not np.allclose(a.astype(float), b.astype(float), rtol=1e-9, atol=1e-9, equal_nan=True):
        return f"{_shown(a)} and {_shown(b)}"
    return None


def _shown(x: Any) -> str:
    return str(np.asarray(x, dtype=object if isinstance(x, tuple) else None).tolist())[:200]


def main(arguments: list[str] | None = None) -> int:
    """Run random phrases and print what differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.phrases", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--phrases", type=int, default=1000)
    parser.add_argument("--compiled", action="store_true", help="compiled, too, and not in the interpreter only")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    begun, counts, failures = time.monotonic(), Counter[str](), 0
    for n in range(options.phrases):
        body, x = random_phrase(np.random.default_rng((options.seed, n, 2)))
        found = agreement(body, x, options.compiled)
        counts["differ" if isinstance(found, AplFailure) else found] += 1
        if isinstance(found, AplFailure):
            failures += 1
            print(found, flush=True)
    counted = ", ".join(f"{k} {v}" for k, v in sorted(counts.items()))
    print(f"{options.phrases} phrases in {time.monotonic() - begun:.1f} s: {counted}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
