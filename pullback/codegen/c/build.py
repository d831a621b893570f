"""C compiler flags that preserve the meaning of the loop IR and make it fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MATH_FLAGS: Final = ("-fno-math-errno", "-fno-trapping-math")
ROUNDING: Final = "--param=avoid-fma-max-bits=0"  # gcc: for some processors it rounds the products of a lone sum
FLAGS: Final = ("-std=gnu99", "-O2", "-march=native", "-ffp-contract=fast", *MATH_FLAGS, "-fPIC")
GCC_FLAGS: Final = (
    "-ftree-vectorize", "-fvect-cost-model=dynamic",  # clang's -O2 does this by default
    "-fno-inline-functions-called-once", "-fno-inline-small-functions",  # each kernel has all registers
    ROUNDING,
)
CLANG_FLAGS: Final = ("-ffp-contract=on",)  # within an expression; `fast` depends on loop unrolling
ZIG_FLAGS: Final = ("-fno-sanitize=undefined",)  # zig's default sanitizer lacks its library here
EXACT_FLAGS: Final = ("-ffp-contract=off",)
PLAIN_FLAGS: Final = ("-O1", "-fPIC", "-DPB_NO_VECTORS")  # replaces all other flags, for compilers that fail otherwise
DEBUG_FLAGS: Final = ("-std=gnu99", "-O1", "-g", "-fno-omit-frame-pointer", "-ffp-contract=off", "-fPIC")  # alone
LIBRARIES: Final = ("-lm",)


def flags(command: Sequence[str], version: str) -> tuple[str, ...]:
    """The flags for a compiler, by its command and version text: quick to compile, and fast code."""
    if "zig" in " ".join(command):
        return FLAGS + CLANG_FLAGS + ZIG_FLAGS
    return FLAGS + (CLANG_FLAGS if "clang" in version.lower() else GCC_FLAGS)


def exported(exact: bool) -> tuple[str, ...]:
    """Return the compiler flags that make exported C round as calls do, for gcc and clang.

    Contraction is the default of gnu99, which calls use: `fast` with gcc and `on` with clang.
    """
    return (*MATH_FLAGS, *(EXACT_FLAGS if exact else (ROUNDING,)))


QUIET: Final = ("-Wno-psabi", "-Wno-unused-command-line-argument")  # clang has no such rounding, and no such flag
