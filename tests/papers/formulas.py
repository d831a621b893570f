"""Comparing what Pullback derives with a formula written by hand, as programs and as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import pullback as pb
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Block, Program
from pullback.rewrite.copies import tidy
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.normal_form import normalize


def last(program: Program) -> Program:
    """The program of the last result alone."""
    body = Block(program.body.statements, program.outputs[-1:])
    return eliminate_dead(replace(program, body=body, output_names=program.output_names[-1:]))


def cotangent(f: Callable[..., Any], wrt: int = 0) -> Program:
    """z_x of a function, from the cotangent of its result, which is the last input."""
    return last(pb.vjp(f, wrt=wrt).program())


def same_program(found: Program, text: str) -> None:
    """Whether a program is, up to names, the one that the text says."""
    expected = parse_program(text)
    assert structurally_equal(found, expected), print_program(found) + "\nis not\n" + print_program(expected)


def normal(f: Callable[..., Any]) -> Program:
    """A function in normal form, copies read at their source."""
    return tidy(normalize(pb.function(f).program()))


def differences(f: Callable[..., Any], args: tuple[Any, ...], z: Any, wrt: int = 0) -> Any:
    """The derivative of <z, f> by one argument, by central differences."""
    out = np.zeros(np.shape(args[wrt]))
    for at in np.ndindex(out.shape):
        ends = []
        for sign in (1, -1):
            moved = np.array(args[wrt])
            moved[at] += sign * 1e-6
            ends.append(np.sum(z * np.asarray(f(*args[:wrt], moved, *args[wrt + 1 :]))))
        out[at] = (ends[0] - ends[1]) / 2e-6
    return out


def check_cotangent(f: Callable[..., Any], args: tuple[Any, ...], wrt: int = 0) -> Any:
    """Compare a cotangent with differences, compiled and interpreted; give z and it."""
    g = pb.function(f)
    z = np.random.default_rng(7).standard_normal(np.shape(g(*args)))
    derived = pb.vjp(g, wrt=wrt)
    found = derived(*args, cotangent=z)[1]
    np.testing.assert_allclose(found, differences(g, args, z, wrt), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(derived.interpret(*args, cotangent=z)[1], found, rtol=1e-13, atol=1e-14)
    return z, found


def cited_rules(f: Callable[..., Any], wrt: int = 0) -> set[str]:
    """The numbers and names of the rules in the derivation of a cotangent."""
    from pullback.rewrite.rules import rules_of

    derivation = pb.vjp(f, wrt=wrt).derivation()
    assert derivation is not None
    return {r.number for r in rules_of(derivation.rules)}
