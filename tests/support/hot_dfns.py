"""Random dfns in two sessions: one evaluates all calls, the other compiles after the first.

python -m tests.support.hot_dfns --dfns 2000 --seed 0 [--compiled]

Each dfn is called with arguments of one type and shape: ordinary numbers first, then zeros, large, tiny and negative
ones. Both sessions give the same types, shapes and errors, and numbers that are equal within 1e-9. Without --compiled
the traced program is interpreted, which takes no C compiler.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback import apl
from pullback.apl.hot import Hot
from tests.support.apl import AplFailure, NDArray, TooLongError, limited, random_verb

SHAPES: Final = ((), (1,), (2,), (3,), (4,), (2, 2), (2, 3), (3, 3), (70,), (2, 2, 2))
WORDS: Final = r"""
-  |  ×  ÷  *  ⍟  ⌊  ⌈  ~  +  ○  ,  ⍉  ⌽  ⊖  +/  ×/  ⌈/  ⌊⌿  +⌿  +\  ×\  -/  ÷/  ⊃  ≢  ⍴  1↓  2↑  ¯2↑  ⍪  ⊢
+/,  ⊂  ↑⊂  +.×⍨  ∘.×⍨  ∘.-⍨  1○  3○  ¯1○  0○  7○  {⍵×2}¨  {⍵÷⍵-1}¨  {*⍵}¨  {+/⍵}⍤1⊢  {⍵÷+/⍵}⍤1⊢  {⌽*⍵}⍤1⊢
{⍵×⍵}⍣3⊢  {⍵+1}⍣7⊢  {⍵×3}⍣9⊢  {÷⍵}⍣6⊢  2+/  2-/  (⌽+⊢)  (+/÷≢)  ∧/0<  ∨/0>  ≠/0=  ⊃1↓  ⊃⌽  +/¨⊂  2⊃  {⍵:1 ⋄ 2}
{0<⊃,⍵:*⍵ ⋄ ÷⍵}  {(⊃,⍵)>1:1 ⋄ 2.5}  {⍵≤1:1 ⋄ ⍵×∇⍵-1}  {⍵[1]}  {⍵[⍵]}  {⍵[1+2|⍵]}  {x←÷⍵ ⋄ 3}  {x←⍵ ⋄ x+←1 ⋄ x}
{(a b)←⍵ ⍵ ⋄ a-b}  {⍵ (2×⍵)}  ∊  ≡  ≢¨⊂  ⍳⍴  2|  0.5|  2*  ⌊0.5+  {⍵*2}  {⍵*0.5}  {⍵*3}  {⍵*¯1}  {⊃⍵÷¨⌽⍵}
{⍵⍳⌈/⍵}  {⍵∊1 2}  ⍋  {2 3⍴⍵}  {⎕CT←0 ⋄ ⍵=1÷3÷⍵}  {+/,⍵×(⍳⍴⍵){⍺+⍵}¨⍵}  {⊃+/,⍵×(⍳⍴⍵){2↑⍺↓⍵}¨⊂⍵}  {⍵≡⌽⍵}  {1=⍵}
{⍵,⍨⍵>0}
"""
ONE: Final = tuple(re.split(r"  |\n", WORDS.strip()))
TWO: Final = tuple("+-×÷*⍟|⌈⌊=≠<≤>≥∧∨⍲⍱,⍪")
NOUNS: Final = ("⍵", "⍵", "(⌽⍵)", "2", "0.5", "0", "¯1", "1", "(÷3)", "1E20", "(+/,⍵)", "100", "(⊃,⍵)", "(×⍵)", "(⍵>0)")
FLOATS: Final[tuple[Callable[[NDArray], NDArray], ...]] = (
    lambda x: x, lambda x: -x, lambda x: np.where(x > 0.5, x, 0), lambda x: x * 0, lambda x: np.round(x * 3),
    lambda x: x * 1e40, lambda x: x * 1e160, lambda x: x * 4e307, lambda x: x * 1e-310, lambda x: x * 800,
    lambda x: x + 1e-15, lambda x: np.round(x), lambda x: np.abs(x) + 1, lambda x: x * 1e9, lambda x: x * 0 + 1,
)  # fmt: skip
INTEGERS: Final[tuple[Callable[[NDArray], NDArray], ...]] = (
    lambda x: x, lambda x: -x, lambda x: x * 0, lambda x: x % 2, lambda x: x * 10**9, lambda x: x * 2**50,
    lambda x: x * 10**17, lambda x: x * 0 + 2**62, lambda x: x - 2**62, lambda x: x * 40, lambda x: x * 0 + 1,
)  # fmt: skip


def random_dfn(rng: np.random.Generator) -> str:
    """The text of a dfn of ⍵ that gives one result for one argument."""
    text = "⍵"
    for _ in range(int(rng.integers(1, 5))):
        way = rng.random()
        if way < 0.5:
            text = f"{rng.choice(np.array(ONE, object))} {text}"
        elif way < 0.9:
            text = f"{rng.choice(np.array(NOUNS, object))} {rng.choice(np.array(TWO, object))} {text}"
        else:
            text = f"{random_verb(rng, 1)} {text}"
    return f"{{{text}}}" if "?" not in text else random_dfn(rng)


def random_arguments(rng: np.random.Generator) -> list[NDArray]:
    """Arguments of one type and shape, ordinary ones first."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    kind = rng.random()
    base: NDArray
    if kind < 0.55:
        base, ways = np.round(rng.random(shape) * 4 - 1, 2) + 0.01, FLOATS
    elif kind < 0.9:
        base, ways = rng.integers(1, 6, shape), INTEGERS
    else:
        return [rng.random(shape) < 0.5 for _ in range(4)]
    return [np.asarray(base), *(np.asarray(ways[int(rng.integers(len(ways)))](base)) for _ in range(6))]


def interpreted(f: Any, *given: Any) -> Any:
    """Run a traced function without C."""
    return f.interpret(*given)


def sessions(compiled: bool) -> tuple[apl.Workspace, apl.Workspace]:
    """A session that evaluates every call, and one that compiles after the first."""
    cold, hot = apl.Workspace(show=lambda _: None), apl.Workspace(show=lambda _: None)
    hot.hot = Hot(0.0, background=False, **({} if compiled else {"run": interpreted}))
    return cold, hot


def compared(
    text: str, arguments: list[NDArray], compiled: bool = False, seconds: float = 20.0
) -> AplFailure | Counter[str]:
    """Call a dfn in both sessions: the first difference, or counts of the calls."""
    cold, hot = sessions(compiled)
    found: Counter[str] = Counter()
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for x in arguments:
                said, done = _value(cold, text, x), _value(hot, text, x)
                wrong = difference(said, done)
                if wrong is not None:
                    return AplFailure(f"{text} {x.tolist()}", wrong)
                found["errors"] += isinstance(said, str)
    except TooLongError:
        return Counter(long=1)
    versions = [v for record in hot.hot.records.values() for v in record.versions.values()]
    found["calls"] = sum(v.calls for v in versions)
    found["misses"] = sum(v.misses for v in versions)
    found["compiled"] = any(v.call is not None for v in versions)
    found["dfns"] = 1
    return found


def _value(work: apl.Workspace, text: str, x: NDArray) -> Any:
    try:
        if "f" not in work.scope.names:
            work.evaluate(f"f←{text}")
        work["x"] = x
        return work.evaluate("f x")
    except apl.AplError as error:
        return str(error)


def difference(a: Any, b: Any) -> str | None:
    """The difference between two values or errors; None if there is none."""
    if isinstance(a, str) or isinstance(b, str):
        return None if isinstance(a, str) and isinstance(b, str) and a == b else f"{a} and {b}"
    if a.shape != b.shape or a.dtype.char != b.dtype.char:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    if a.dtype == object:
        return next((w for p, q in zip(a.ravel(), b.ravel()) if (w := difference(p, q)) is not None), None)
    if a.dtype.kind in "fc":
        room = 1e-9 * np.abs(a) + 1e-12 * np.abs(a).max(initial=0)
        with np.errstate(invalid="ignore"):
            same = (np.abs(a - b) <= room) | (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = a == b
    return None if same.all() else f"{a.tolist()} and {b.tolist()}"


def main(arguments: list[str] | None = None) -> int:
    """Run random dfns and print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dfns", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    failures = []
    for n in range(options.dfns):
        rng = np.random.default_rng((options.seed, n))
        found = compared(random_dfn(rng), random_arguments(rng), options.compiled)
        if isinstance(found, AplFailure):
            failures.append(found)
            print(f"{n}: {found}", flush=True)
        else:
            total += found
    print(dict(total), f"{len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
