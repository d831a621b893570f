"""Sessions under random programs: each line gives a value or an error of APL, and the workspace stays.

The programs are strings of glyphs and phrases of `tests.support.apl`, and lines of `tests/apl/pairs`
with tokens changed, among them huge numbers, names of the system, characters that no path has, and commands.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pullback.apl.limits import Limits
from pullback.apl.session import Session
from tests.support.apl import GLYPHS, PIECES, random_noun, random_text, random_verb

NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
PROGRAMS = 5_000 if NIGHTLY else 150
SECONDS = 0.3  # of a line

TOKEN = re.compile(r"⎕[A-Z]*|[A-Za-z_]\w*|¯?\d[\d.eEjJ¯]*|'[^']*'|\s+|.")
HUGE = (
    *("1e8", "1e12", "1e300", "¯1e9", "9223372036854775807", "¯9223372036854775808", "1e308", "1e¯308", "0.1", "0J1"),
    *("¯1", "⍬", "''", "(2*40)", "(2*62)", "(2*63)", "(⊂⍬)", "(⎕UCS 0)", "(⎕UCS 55296)", "1e8 1e8", "(1e5⍴1)"),
)
NAMES = TOKEN.findall("⎕NTIE⎕NSIZE⎕NREAD⎕NUNTIE⎕NNUMS⎕CSV⎕UCS⎕TS⎕A⎕D⎕WA⎕IO⎕CT⎕PP⎕FR⎕ML⎕ARGS⎕GRAD⎕VGRAD⎕⍞⍺⍵∇")
COMMANDS = ("]type ", "]ir ", "]grad ", "]box on", "]box", ")vars", ")fns", "]keys", "]", ")nothing ")
FURTHER = (
    *("'a.csv'⎕NTIE 0", "⎕CSV'x.csv'", "⎕NREAD ¯1 83 4 0", "{+/⍵*3}⎕GRAD 1 2 3"),
    *("{⍵ ⍵}⍣4⊢1", "⊂⍣5⊢1 2", "⍎'1+1'", "{∇⍵}1"),
)
PAIRS = sorted((Path(__file__).parent / "pairs").glob("*.txt"))
SEEDS = [line.strip() for path in PAIRS for line in path.read_text("utf-8").splitlines() if line.startswith(" " * 6)]
SEEDS += FURTHER * (len(SEEDS) // 40)


def program(rng: np.random.Generator) -> list[str]:
    """A few lines, of which most mean nothing."""
    lines = []
    for _ in range(int(rng.integers(1, 4))):
        draw = rng.random()
        if draw < 0.15:
            line = random_text(rng)
        elif draw < 0.4:
            line = changed(f"{random_noun(rng)}{random_verb(rng, 2)}{random_noun(rng)}", rng)
        else:
            line = changed(str(rng.choice(SEEDS)), rng)
        if rng.random() < 0.05:
            line = str(rng.choice(COMMANDS)) + line
        lines.append(line)
    return lines


def changed(line: str, rng: np.random.Generator) -> str:
    """A line with some of its tokens changed, left out, doubled, or from elsewhere."""
    tokens = TOKEN.findall(line)
    for _ in range(int(rng.choice((1, 1, 1, 2, 4)))):
        at = int(rng.integers(len(tokens) + 1))
        match int(rng.integers(7)):
            case 0:
                del tokens[at : at + 1]
            case 1:
                tokens[at:at] = tokens[at : at + 3]
            case 2:
                tokens[at : at + 1] = [random_noun(rng)]
            case 3:
                tokens[at:at] = [random_verb(rng, 1)]
            case 4:
                tokens[at : at + 1] = [f" {rng.choice(HUGE)} "]
            case 5:
                tokens[at : at + 1] = [str(rng.choice([*GLYPHS, *map(str, PIECES)]))]
            case _:
                tokens[at : at + 1] = [str(rng.choice(NAMES))]
    return "".join(tokens)


def outcomes(numbers: range, written: list[str]) -> Iterator[tuple[list[str], str]]:
    """The programs of these numbers and what their sessions printed."""
    for n in numbers:
        lines = program(np.random.default_rng((28, n)))
        written.clear()
        session = Session(written.append, limits=Limits(SECONDS, 1 << 29))
        assert session.line("kept←⍳3")
        for line in lines:
            if session.line(line):
                continue
            assert line.startswith(")off")
        yield lines, "".join(written)


@pytest.mark.slow
def test_random_programs_end_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    kinds: Counter[str] = Counter()
    start = time.monotonic()
    faults = []
    for lines, printed in outcomes(range(PROGRAMS), []):
        found = set(re.findall(r"\[(E\d+)\]", printed))
        kinds.update(found or {"value"})
        if "E812" in found:
            faults.append(("\n".join(lines), printed[-600:]))
    print(f"{PROGRAMS} programs, {time.monotonic() - start:.0f} s:", dict(kinds))
    assert not faults, f"{len(faults)} programs: {faults[:5]}"
