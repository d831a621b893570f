"""Users' C inside generated C."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from pullback.codegen.c.types import c_type
from pullback.codegen.target import Definitions
from pullback.ir.foreign import Foreign

_FUNCTION: Final = re.compile(  # the definition of an externally visible function
    r"^(?!static\b|typedef\b|struct\b|else\b)([A-Za-z_][\w \t*]*?[ \t*]\w+[ \t]*\([^;{}]*\)\s*\{)", re.MULTILINE
)
_NAME: Final = re.compile(r"\b([A-Za-z_]\w*)\s*\(|#[ \t]*define[ \t]+(\w+)")


def parameters(f: Foreign) -> tuple[str, ...]:
    """The types of its parameters in C."""
    reads = (f"const {c_type(t)} *" for t in f.inputs)
    return (*reads, *(f"{c_type(t)} *" for t in f.outputs), *("int64_t " for _ in range(f.sizes)))


def prototype(f: Foreign) -> str:
    """The prototype that the definition must match."""
    return f"void {f.name}({', '.join(p.rstrip() for p in parameters(f))})"


def shown(f: Foreign) -> str:
    """The text with its functions made `static`; its lines do not move."""
    return _FUNCTION.sub(r"static \1", f.source)


def given(f: Foreign) -> tuple[str, Definitions]:
    """The name of a wrapper that no local can shadow, and the definitions it needs, once per source text."""
    mark = f"pb_given_{hashlib.blake2b(f.source.encode(), digest_size=4).hexdigest()}"
    called = f"pb_external_{f.name}"
    text = f"/* {mark}: C as it was given */\n{shown(f).rstrip()}\n/* end of {mark} */\n"
    types = parameters(f)
    names = [f"a{k}" for k in range(len(types))]
    call = f"""\
static void {called}({", ".join(f"{p}{n}" for p, n in zip(types, names, strict=True))}) {{
    {f.name}({", ".join(names)}); /* of {mark} */
}}
"""
    return called, ((mark, text), (called, call))


def names_in(source: str) -> frozenset[str]:
    """The names of functions and macros in a C text, including those that it calls."""
    return frozenset(a or b for a, b in _NAME.findall(source))
