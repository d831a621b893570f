"""Random source programs of the public language, with arguments and queries for the oracle.

    sample = random_source(np.random.default_rng(seed))
    print(sample)                                   # a program to paste
    Program(sample.source, sample.arguments).judge(sample.queries[0])

Each module writes what the one before it cannot: `_writer` has choices and inputs, `_scalars` numbers, `_arrays` whole
arrays, `_loops` what has a body, `_programs` functions, `_expressions` functions of many numbers.
A writer grows text from the inside out: scalars over the index variables in scope, arrays of shapes asked for,
statements that give them names. Dims are names of an annotation or numbers; every read is provably in range, guarded,
or filled.
What is written is tame on purpose (most values stay near 1), and awkward in places: ties, zeros, kinks, tiny and huge
arguments.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.sources._expressions import COUNT, Expressions
from tests.support.sources._programs import Programs
from tests.support.sources._writer import LARGE, SMALL, Sample


def random_source(rng: np.random.Generator, *, large: bool = False, longest: int | None = None) -> Sample:
    """A random program.

    Args:
        rng: where all choices come from.
        large: extents up to 40, around those at which compiled code changes its form, instead of up to 5.
        longest: the most letters of its source: what is longer is drawn again. The time of a program is that of its
            derivation and grows with its length: a tenth of all take half of the time.
    """
    while True:
        sample = Programs(rng, LARGE if large else SMALL).sample()
        if longest is None or len(sample.source) <= longest:
            return sample


def random_expressions(rng: np.random.Generator) -> Sample:
    """A program that returns `COUNT` random numbers over a vector and two numbers."""
    return Expressions(rng, SMALL).sample()


def with_settings(sample: Sample, settings: str) -> Sample:
    """The program with settings of its function."""
    return replace(sample, source=sample.source.replace("@pb.function\n", f"@pb.function({settings})\n"))


__all__ = ["COUNT", "Sample", "random_expressions", "random_source", "with_settings"]
