"""Random APL: glyph strings, which may be refused but not crash, and expressions with NumPy values.

python -m tests.support.apl --texts 10000 --expressions 2000 --seed 0

A string of glyphs gives a value or an `AplError` with its place in the text. An expression is the body of a function
of ⍵, made by steps of which each says what it does in NumPy. The results of the workspace, of the compiled function
and of the steps are equal within 1e-9 of their magnitude.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

import numpy as np

from pullback import apl

NDArray = np.ndarray[Any, Any]

GLYPHS: Final = "+-×÷*⍟!○|⌈⌊?~∧∨⍲⍱=≠<≤>≥≡≢⍴,⍪⌽⊖⍉↑↓⊂⊃⊆⌷⍳⍸∊⍷∪∩⍋⍒⊢⊣⊤⊥⌹⍕/⌿\\⍀¨⍨⍣.∘⍤⍥⌺⌸@"
PIECES: Final = (
    *GLYPHS,
    *"0123()()[]{}⍺⍵∇←⋄:;'¯⍬⎕ abxy",
    "⍵",
    "⍵",
    "(⍳3)",
    "1 2",
    "2 2⍴",
    "'ab'",
    "{⍵}",
    "{⍺+⍵}",
    "x←",
    "⎕IO",
    "+/",
    "∘.×",
    "¨1 2",
    "\n",
    "1.5",
    "¯1",
    "⍝",
    "0.5",
    "(1 2)(3 4)",
    "⍤1",
    "⍤0 1",
    "@1",
    "⍣2",
    "1E5",
    "3J4",
    "#",
    "⍛",
    "é",
)


@dataclass(frozen=True)
class AplFailure:
    """A text that went wrong, and how."""

    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.text!r}: {self.what}"


# Strings of glyphs --------------------------------------------------------------------------------------------


NOUNS: Final = (
    "⍬",
    "''",
    "'ab'",
    "'a'",
    "5",
    "0",
    "¯1",
    "1 2",
    "(,3)",
    "1.5 ¯2",
    "(2 3⍴⍳6)",
    "(2 2 2⍴⍳8)",
    "(0 3⍴0)",
    "(2 0⍴'')",
    "(1 2)(3 4)",
    "(⊂1 2)",
    "(0⍴⊂1 2)",
    "1(2 3)",
    "3J4",
    "'a'1",
    "(2 2⍴(1 2)'ab')",
    "(1 1⍴7)",
    "1 0 1",
    "(3 3⍴⍳9)",
    "(⍳2 2)",
    "1E300",
    "⍵",
    "(2 2⍴1 0 1)",
)


def random_text(rng: np.random.Generator) -> str:
    """A string of random pieces or, as often, one by the grammar that may mean nothing."""
    if rng.random() < 0.5:
        pieces = rng.choice(np.array(PIECES, dtype=object), size=int(rng.integers(1, 21)))
        return "".join(pieces)
    return _phrase(rng, int(rng.integers(1, 5)))


def _phrase(rng: np.random.Generator, verbs: int) -> str:
    text = random_noun(rng)
    for _ in range(verbs):
        left = random_noun(rng) if rng.random() < 0.5 else ""
        text = f"{left}{random_verb(rng, 2)}{text}"
    return text if rng.random() < 0.9 else f"{{{text}}}{random_noun(rng)}"


def random_noun(rng: np.random.Generator) -> str:
    """A literal, of numbers or characters, of any rank or none."""
    return str(rng.choice(np.array(NOUNS, dtype=object)))


def random_verb(rng: np.random.Generator, depth: int) -> str:
    """A glyph, or one derived with operators, of which some are not meant to fit."""
    if not depth or rng.random() < 0.5:
        return str(rng.choice(list("+-×÷*⍟!○|⌈⌊?~∧∨⍲⍱=≠<≤>≥≡≢⍴,⍪⌽⊖⍉↑↓⊂⊃⊆⌷⍳⍸∊⍷∪∩⍋⍒⊢⊣⊤⊥⌹⍕")))
    f, g = random_verb(rng, depth - 1), random_verb(rng, depth - 1)
    made = (
        f"{f}/",
        f"{f}⌿",
        f"{f}\\",
        f"{f}⍀",
        f"{f}¨",
        f"{f}⍨",
        f"{f}.{g}",
        f"∘.{f}",
        f"{f}∘{g}",
        f"({f}⍤{g})",
        f"{f}⍥{g}",
        f"{f}⍤{_literal(int(rng.integers(-1, 3)))}⊢",
        f"{f}⍤0 1⊢",
        f"({f}⍣{_literal(int(rng.integers(-1, 3)))})",
        f"({f}@1)",
        f"({f}⌺3)",
        f"{{{f}⍵}}",
        f"{{⍵{f}⍵}}",
        f"{{⍺{f}⍵}}",
        f"({f} {g})",
        f"({f}{g}{f})",
        f"{f}[{rng.integers(0, 4)}]",
        f"2∘{f}",
        f"({f}∘3)",
        f"2{f}/",
        f"{{⍺←2 ⋄ ⍺{f}⍵}}",
        f"{{({f}⍵):0 ⋄ {g}⍵}}",
        f"{f}⌺(2 2⍴2)⊢",
        f"(0@({f}))",
    )
    return made[int(rng.integers(len(made)))]


def text_failure(text: str, seconds: float = 5.0) -> AplFailure | None:
    """The fault in handling a text: a foreign error, an error without a place, a warning; else None."""
    try:
        with limited(seconds), redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error")
            apl.Workspace().evaluate(text)
    except apl.AplError as error:
        message = str(error)
        return None if "^" in message else AplFailure(text, f"no caret: {message}")
    except TooLongError:
        return None  # a search for a fixed point that does not end is no fault of the evaluator
    except Exception as error:
        return AplFailure(text, f"{type(error).__name__}: {error}")
    return None


class TooLongError(BaseException):
    """The time that a text may take is over."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the block with `TooLongError` after a time."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Expressions that NumPy values --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """An expression and what NumPy says it is.

    Attributes:
        whole: made of whole numbers by operations that leave them so, so that comparisons and floors are exact.
    """

    text: str
    value: NDArray
    whole: bool = True

    @property
    def closed(self) -> str:
        """The text where a left argument stands."""
        return self.text if self.text.isalnum() or self.text in "⍵⍺" else f"({self.text})"


Step = Callable[[np.random.Generator, Term], Term | None]
STEPS: Final[list[Step]] = []


def _step(f: Step) -> Step:
    STEPS.append(f)
    return f


def _table(
    rows: dict[str, Callable[[NDArray], NDArray]], exact: bool, applies: Callable[[Term], bool] = lambda t: True
) -> None:
    """One step for verbs with one argument that are written before it."""

    @_step
    def prefix(rng: np.random.Generator, t: Term) -> Term | None:
        glyph = str(rng.choice(list(rows)))
        return Term(f"{glyph} {t.text}", rows[glyph](t.value), t.whole and exact) if applies(t) else None


def _has_axis(t: Term) -> bool:
    return t.value.ndim > 0 and t.value.size > 0


def _by_rank(f: Callable[[NDArray], NDArray]) -> Callable[[NDArray], NDArray]:
    return lambda x: f(x) if x.ndim else x


_table({"-": np.negative, "|": np.abs, "×": np.sign, "+": np.positive, "⊢": np.positive}, exact=True)
_table({"⌊": np.floor, "⌈": np.ceil}, exact=True, applies=lambda t: t.whole)
_table({"÷": lambda x: 1 / x}, exact=False, applies=lambda t: bool((np.abs(t.value) > 1e-2).all()))
_table({"*": np.exp}, exact=False, applies=lambda t: bool((np.abs(t.value) < 5).all()))
_table({"⍟": np.log}, exact=False, applies=lambda t: bool((t.value > 1e-2).all()))
_table({"~": lambda x: 1 - x, "-~": lambda x: x - 1}, True, lambda t: t.whole and bool(np.isin(t.value, (0, 1)).all()))
_table(
    {"⌽": _by_rank(lambda x: x[..., ::-1]), "⊖": _by_rank(lambda x: x[::-1]), "⍉": np.transpose, ",": np.ravel},
    exact=True,
)
_table({"⍪": lambda x: x.reshape(len(x) if x.ndim else 1, -1)}, True, lambda t: t.value.size > 0)
_table(
    {
        "+/": lambda x: x.sum(-1),
        "+⌿": lambda x: x.sum(0),
        "⌈/": lambda x: x.max(-1),
        "⌊⌿": lambda x: x.min(0),
        "×/": lambda x: x.prod(-1),
        "+\\": lambda x: np.cumsum(x, -1),
        "+⍀": lambda x: np.cumsum(x, 0),
        "⌈\\": lambda x: np.maximum.accumulate(x, -1),
        "⌊⍀": lambda x: np.minimum.accumulate(x, 0),
        "×⍀": lambda x: np.cumprod(x, 0),
        "+/⍤1⊢": lambda x: x.sum(-1),
        "⌽⍤1⊢": lambda x: x[..., ::-1],
        "{+/⍵}⍤1⊢": lambda x: x.sum(-1),
        "-/": lambda x: (x * (-1.0) ** np.arange(x.shape[-1])).sum(-1),
        "{⍺+⍵}/": lambda x: x.sum(-1),
        "⊃": lambda x: x.reshape(-1)[0],
        "≢": lambda x: np.array(float(len(x))),
        "⍴": lambda x: np.array(x.shape, float),
        "(+/÷≢),": lambda x: x.mean(),
        "1↓": lambda x: x[1:],
        "¯1↓": lambda x: x[:-1],
        "3↑": lambda x: _taken(x, 3),
        "¯2↑": lambda x: _taken(x, -2),
        "1⌽": lambda x: np.roll(x, -1, -1),
        "¯1⊖": lambda x: np.roll(x, 1, 0),
        "2/": lambda x: np.repeat(x, 2, -1),
        "2⌿": lambda x: np.repeat(x, 2, 0),
        "0,": lambda x: np.concatenate([np.zeros((*x.shape[:-1], 1)), x], -1),
        "2+/0,": lambda x: np.concatenate([x[..., :1], x[..., 1:] + x[..., :-1]], -1),
        "{⍵}¨": np.positive,
        "{-⍵}¨": np.negative,
        "{⍵×2}⍣3⊢": lambda x: 8 * x,
        "+⍨": lambda x: 2 * x,
        "×⍨": np.square,
        "0@1⊢": lambda x: _first_zero(x),
        "(⊢+⌽)": lambda x: x + x[..., ::-1],
        "⌽∘-": lambda x: -x[..., ::-1],
    },
    exact=True,
    applies=_has_axis,
)


def _taken(x: NDArray, count: int) -> NDArray:
    missing = max(abs(count) - len(x), 0)
    kept = x[:count] if count > 0 else x[count:]
    width = [(0, missing) if count > 0 else (missing, 0), *[(0, 0)] * (x.ndim - 1)]
    return np.pad(kept, width)


def _first_zero(x: NDArray) -> NDArray:
    made = x.copy()
    made[0] = 0
    return made


@_step
def _mean(rng: np.random.Generator, t: Term) -> Term | None:
    return Term(f"(+/÷≢){t.text}", t.value.mean(), False) if t.value.ndim == 1 and t.value.size else None


@_step
def _with_number(rng: np.random.Generator, t: Term) -> Term | None:
    number = int(rng.integers(-3, 5))
    glyph, f = [("+", np.add), ("-", np.subtract), ("×", np.multiply), ("⌈", np.maximum), ("⌊", np.minimum)][
        rng.integers(5)
    ]
    if rng.random() < 0.5:
        return Term(f"{_literal(number)}{glyph}{t.text}", f(float(number), t.value), t.whole)
    return Term(f"{t.closed}{glyph}{_literal(number)}", f(t.value, float(number)), t.whole)


@_step
def _compared(rng: np.random.Generator, t: Term) -> Term | None:
    tests = {"=": np.equal, "≠": np.not_equal, "<": np.less, "≤": np.less_equal, ">": np.greater, "≥": np.greater_equal}
    glyph, number = str(rng.choice(list(tests))), int(rng.integers(-2, 4))
    return (
        Term(f"{t.closed}{glyph}{_literal(number)}", tests[glyph](t.value, number).astype(float)) if t.whole else None
    )


@_step
def _residue(rng: np.random.Generator, t: Term) -> Term | None:
    number = int(rng.choice([-3, -2, 2, 3, 5]))
    return Term(f"{_literal(number)}|{t.text}", np.mod(t.value, number)) if t.whole else None


@_step
def _reshaped(rng: np.random.Generator, t: Term) -> Term | None:
    shape = [int(n) for n in rng.integers(1, 4, size=rng.integers(1, 4))]
    return Term(f"{' '.join(map(str, shape))}⍴{t.text}", np.resize(t.value, shape), t.whole) if t.value.size else None


@_step
def _compressed(rng: np.random.Generator, t: Term) -> Term | None:
    if not _has_axis(t) or t.value.shape[-1] > 8:
        return None
    mask = rng.integers(0, 3, size=t.value.shape[-1])
    text = " ".join(map(str, mask)) if len(mask) > 1 else f"(,{mask[0]})"
    return Term(f"{text}/{t.text}", np.repeat(t.value, mask, -1), t.whole)


@_step
def _selected(rng: np.random.Generator, t: Term) -> Term | None:
    if not _has_axis(t):
        return None
    at = int(rng.integers(len(t.value)))
    return Term(f"{at + 1}⌷{t.text}", t.value[at], t.whole)


@_step
def _outer(rng: np.random.Generator, t: Term) -> Term | None:
    return (
        Term(f"1 2 3∘.×{t.text}", np.multiply.outer(np.array([1.0, 2, 3]), t.value), t.whole)
        if t.value.ndim < 3
        else None
    )


@_step
def _inner(rng: np.random.Generator, t: Term) -> Term | None:
    if not _has_axis(t) or t.value.shape[0] > 6 or t.value.shape[0] < 2:
        return None
    left = np.arange(1.0, len(t.value) + 1)
    return Term(f"{' '.join(str(int(n)) for n in left)}+.×{t.text}", np.tensordot(left, t.value, 1), t.whole)


@_step
def _windows(rng: np.random.Generator, t: Term) -> Term | None:
    if t.value.ndim != 1 or t.value.size < 2:
        return None
    padded = np.pad(t.value, 1)
    return Term(f"{{+/⍵}}⌺3⊢{t.text}", padded[:-2] + padded[1:-1] + padded[2:], t.whole)


@_step
def _guarded(rng: np.random.Generator, t: Term) -> Term | None:
    return Term(f"{{y←⍵+1 ⋄ y×2}}{t.text}", (t.value + 1) * 2, t.whole)


@_step
def _joined(rng: np.random.Generator, t: Term) -> Term | None:
    return (
        Term(f"{t.closed},{t.text}", np.concatenate([t.value, t.value], -1), t.whole)
        if _has_axis(t) and len(t.text) < 40
        else None
    )


def _literal(number: int) -> str:
    return str(number).replace("-", "¯")


def random_expression(rng: np.random.Generator) -> tuple[Term, NDArray]:
    """A body of a function of ⍵, with its value by NumPy, and the ⍵ that it is the value for."""
    shape = [int(n) for n in rng.integers(1, 5, size=rng.integers(0, 4))]
    argument = rng.integers(-4, 6, size=shape).astype(float)
    term = Term("⍵", argument)
    for _ in range(int(rng.integers(1, 7))):
        made = STEPS[int(rng.integers(len(STEPS)))](rng, term)
        if made is None or np.size(made.value) > 500 or np.size(made.value) == 0 or np.abs(made.value).max() > 1e9:
            continue
        other = STEPS[int(rng.integers(len(STEPS)))](rng, term) if rng.random() < 0.2 and len(term.text) < 60 else None
        if (
            other is not None
            and np.shape(other.value) in ((), np.shape(made.value))
            and np.abs(other.value).max() < 1e3
        ):
            made = Term(f"{other.closed}+{made.text}", other.value + made.value, made.whole and other.whole)
        term = made
    return term, argument


def as_literal(x: NDArray) -> str:
    """An array of whole numbers as APL text."""
    numbers = " ".join(_literal(int(n)) for n in x.reshape(-1))
    return f"({' '.join(map(str, x.shape))}⍴{numbers})" if x.ndim else numbers


def expression_failure(term: Term, argument: NDArray, compiled: bool = True) -> AplFailure | None:
    """The fault in an expression's values, in the workspace and of the compiled function; else None."""
    text = f"{{{term.text}}}{as_literal(argument)}"
    try:
        failure = _difference(text, "the workspace", apl.Workspace().evaluate(text), term.value)
        if failure is None and compiled:
            failure = _difference(text, "the compiled function", apl.apl(f"{{{term.text}}}")(argument), term.value)
    except Exception as error:
        return AplFailure(text, f"{type(error).__name__}: {error}")
    return failure


def _difference(text: str, where: str, found: Any, expected: NDArray) -> AplFailure | None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return AplFailure(text, f"{where} gives the shape {found.shape}, NumPy {expected.shape}")
    if found.dtype == object or not np.allclose(found.astype(float), expected, rtol=1e-9, atol=1e-9):
        return AplFailure(text, f"{where} gives {found.tolist()}, NumPy {expected.tolist()}")
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run random texts and expressions and print what fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.apl", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=1000, help="strings of glyphs")
    parser.add_argument("--expressions", type=int, default=200, help="expressions that NumPy values")
    parser.add_argument("--interpreted", action="store_true", help="expressions in the workspace only")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    begun, failures = time.monotonic(), []
    for n in range(options.texts):
        failure = text_failure(random_text(np.random.default_rng((options.seed, n))))
        failures += [failure] if failure else []
    for n in range(options.expressions):
        term, argument = random_expression(np.random.default_rng((options.seed, n, 1)))
        failure = expression_failure(term, argument, compiled=not options.interpreted)
        failures += [failure] if failure else []
    for failure in failures:
        print(failure)
    seconds = time.monotonic() - begun
    print(f"{options.texts} texts and {options.expressions} expressions in {seconds:.1f} s: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
