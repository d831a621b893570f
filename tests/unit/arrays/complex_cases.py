"""Special values of complex functions, as C99 (Annex G) and the array API standard (2025.12) have them.

A row is a function, the parts of its argument and those of its result. An argument may name several numbers, see
`SAMPLES`. In a result `±` leaves the sign open, `+0` is the same for the conjugate, and `cis` stands for
cos b + i sin b of the argument's imaginary part b.
Rows are for b with the sign bit clear, or NaN: all functions take the conjugate to the conjugate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

INF, NAN, PI = math.inf, math.nan, math.pi
SAMPLES: dict[str, list[float]] = {
    "0": [0.0], "±0": [0.0, -0.0], "-0": [-0.0], "1": [1.0], "-1": [-1.0], "inf": [INF], "-inf": [-INF],
    "±inf": [INF, -INF], "nan": [NAN], "positive": [0.25, 1.0, 3.0, 1e8], "nonzero": [0.25, 1.0, 3.0, 1e8, -1.0, -1e8],
    "finite": [0.0, -0.0, 0.25, 1.0, 3.0, 1e8, -1.0, -1e8], "any": [0.0, -0.0, 1.0, -1e8, INF, -INF, NAN],
}  # fmt: skip
ODD = ("asin", "asinh", "atan", "atanh", "sin", "sinh", "tan", "tanh")
EVEN = ("cos", "cosh")
TURNED = {"asinh": "asin", "atanh": "atan", "sinh": "sin", "tanh": "tan"}
"""f -> g with g(z) = -i f(i z)."""
ROWS = """
acos   ±0       0         pi/2   -0
acos   ±0       nan       pi/2   nan
acos   finite   inf       pi/2   -inf
acos   nonzero  nan       nan    nan
acos   -inf     positive  pi     -inf
acos   inf      positive  0      -inf
acos   -inf     inf       3pi/4  -inf
acos   inf      inf       pi/4   -inf
acos   ±inf     nan       nan    ±inf
acos   nan      finite    nan    nan
acos   nan      inf       nan    -inf
acos   nan      nan       nan    nan
acosh  ±0       0         0      pi/2
acosh  finite   inf       inf    pi/2
acosh  ±0       nan       nan    ±pi/2
acosh  nonzero  nan       nan    nan
acosh  -inf     positive  inf    pi
acosh  inf      positive  inf    0
acosh  -inf     inf       inf    3pi/4
acosh  inf      inf       inf    pi/4
acosh  ±inf     nan       inf    nan
acosh  nan      finite    nan    nan
acosh  nan      inf       inf    nan
acosh  nan      nan       nan    nan
asinh  0        0         0      0
asinh  positive inf       inf    pi/2
asinh  0        inf       inf    pi/2
asinh  finite   nan       nan    nan
asinh  inf      0         inf    0
asinh  inf      positive  inf    0
asinh  inf      inf       inf    pi/4
asinh  inf      nan       inf    nan
asinh  nan      0         nan    0
asinh  nan      nonzero   nan    nan
asinh  nan      inf       ±inf   nan
asinh  nan      nan       nan    nan
atanh  0        0         0      0
atanh  0        nan       0      nan
atanh  1        0         inf    0
atanh  positive inf       0      pi/2
atanh  0        inf       0      pi/2
atanh  nonzero  nan       nan    nan
atanh  inf      positive  0      pi/2
atanh  inf      inf       0      pi/2
atanh  inf      nan       0      nan
atanh  nan      finite    nan    nan
atanh  nan      inf       ±0     pi/2
atanh  nan      nan       nan    nan
cosh   0        0         1      0
cosh   0        inf       nan    ±0
cosh   0        nan       nan    ±0
cosh   nonzero  inf       nan    nan
cosh   nonzero  nan       nan    nan
cosh   inf      0         inf    0
cosh   inf      positive  inf*cis
cosh   inf      inf       ±inf   nan
cosh   inf      nan       inf    nan
cosh   nan      0         nan    ±0
cosh   nan      nonzero   nan    nan
cosh   nan      inf       nan    nan
cosh   nan      nan       nan    nan
exp    ±0       0         1      0
exp    finite   inf       nan    nan
exp    finite   nan       nan    nan
exp    inf      0         inf    0
exp    -inf     0         0      0
exp    -inf     positive  0*cis
exp    inf      positive  inf*cis
exp    -inf     inf       ±0     ±0
exp    inf      inf       ±inf   nan
exp    -inf     nan       ±0     ±0
exp    inf      nan       ±inf   nan
exp    nan      0         nan    0
exp    nan      nonzero   nan    nan
exp    nan      inf       nan    nan
exp    nan      nan       nan    nan
expm1  ±0       0         0      0
expm1  finite   inf       nan    nan
expm1  finite   nan       nan    nan
expm1  inf      0         inf    0
expm1  -inf     0         -1     0
expm1  -inf     positive  -1     0*cis
expm1  inf      positive  inf*cis
expm1  -inf     inf       -1     ±0
expm1  inf      inf       ±inf   nan
expm1  -inf     nan       -1     ±0
expm1  inf      nan       ±inf   nan
expm1  nan      0         nan    0
expm1  nan      nonzero   nan    nan
expm1  nan      inf       nan    nan
expm1  nan      nan       nan    nan
log    -0       0         -inf   pi
log    0        0         -inf   0
log    finite   inf       inf    pi/2
log    finite   nan       nan    nan
log    -inf     positive  inf    pi
log    inf      positive  inf    0
log    -inf     inf       inf    3pi/4
log    inf      inf       inf    pi/4
log    ±inf     nan       inf    nan
log    nan      finite    nan    nan
log    nan      inf       inf    nan
log    nan      nan       nan    nan
log1p  -1       0         -inf   0
log1p  finite   inf       inf    pi/2
log1p  finite   nan       nan    nan
log1p  -inf     positive  inf    pi
log1p  inf      positive  inf    0
log1p  -inf     inf       inf    3pi/4
log1p  inf      inf       inf    pi/4
log1p  ±inf     nan       inf    nan
log1p  nan      finite    nan    nan
log1p  nan      inf       inf    nan
log1p  nan      nan       nan    nan
sinh   0        0         0      0
sinh   0        inf       ±0     nan
sinh   0        nan       ±0     nan
sinh   nonzero  inf       nan    nan
sinh   nonzero  nan       nan    nan
sinh   inf      0         inf    0
sinh   inf      positive  inf*cis
sinh   inf      inf       ±inf   nan
sinh   inf      nan       ±inf   nan
sinh   nan      0         nan    0
sinh   nan      nonzero   nan    nan
sinh   nan      inf       nan    nan
sinh   nan      nan       nan    nan
sqrt   ±0       0         0      0
sqrt   any      inf       inf    inf
sqrt   finite   nan       nan    nan
sqrt   -inf     positive  0      inf
sqrt   inf      positive  inf    0
sqrt   -inf     nan       nan    ±inf
sqrt   inf      nan       inf    nan
sqrt   nan      finite    nan    nan
sqrt   nan      nan       nan    nan
tanh   0        0         0      0
tanh   0        inf       0      nan
tanh   0        nan       0      nan
tanh   nonzero  inf       nan    nan
tanh   nonzero  nan       nan    nan
tanh   inf      0         1      0
tanh   inf      positive  1      0
tanh   inf      inf       1      ±0
tanh   inf      nan       1      ±0
tanh   nan      0         nan    0
tanh   nan      nonzero   nan    nan
tanh   nan      inf       nan    nan
tanh   nan      nan       nan    nan
sign   ±0       0         +0     +0
sign   nan      any       nan    nan
sign   any      nan       nan    nan
sign   inf      finite    1      ±0
sign   finite   inf       ±0     1
abs    any      inf       inf    0
abs    ±inf     any       inf    0
abs    nan      finite    nan    0
abs    finite   nan       nan    0
abs    ±0       0         0      0
"""
Case = tuple[str, complex, str, str]


def _complex(a: float, b: float) -> complex:
    return complex(a, b)


def _value(text: str) -> float:
    text = text.replace("±", "")
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.removeprefix("-")
    if "pi" in text:
        before, _, after = text.partition("pi")
        return sign * float(before or 1) * PI / float(after[1:] or 1)
    return sign * float(text)


def _other(text: str, sign: float = -1.0) -> str:
    """The text of a part with the other sign, where `sign` is -1."""
    if sign > 0 or text[0] in "±+" or text == "nan":
        return text
    return text[1:] if text.startswith("-") else f"-{text}"


def _plain() -> Iterator[Case]:
    for line in ROWS.split("\n"):
        if not line:
            continue
        name, first, second, *result = line.split()
        for a in SAMPLES[first]:
            for b in (v for v in SAMPLES[second] if not np.signbit(v)):
                size, _, turn = result[-1].partition("*")
                if not turn:
                    parts = [result[0], result[1]]
                elif name == "cosh" or name == "sinh" or name.startswith("exp"):
                    signs = np.cos(b), np.sin(b)
                    parts = [_other(size, np.copysign(1, s)) for s in signs]
                    parts = [result[0], parts[1]] if len(result) == 2 else parts
                yield name, _complex(a, b), parts[0], parts[1]


def cases() -> Iterator[Case]:
    """All rows with numbers for arguments, and what follows from them by symmetry."""
    for name, z, along, across in _plain():
        found = [(z, along, across)]
        if name != "abs":
            found.append((z.conjugate(), along, _other(across)))
        if name in ODD:
            found += [(-z, _other(u), _other(v)) for z, u, v in found]
        if name in EVEN:
            found += [(-z, u, v) for z, u, v in found]
        for z, u, v in found:
            yield name, z, u, v
            if name in TURNED:  # g(w) = -i f(i w), w = -i z
                yield TURNED[name], _complex(z.imag, -z.real), v, _other(u)
            if name == "cosh":
                yield "cos", _complex(z.imag, -z.real), u, v


def holds(text: str, found: float) -> bool:
    """Whether a part is what a row says."""
    value, kind = _value(text), type(found)
    if math.isnan(value):
        return bool(np.isnan(found))
    if text.startswith("±"):
        found = abs(found)
    if value == 0 or np.isinf(value):
        return bool(found == value and np.signbit(found) == np.signbit(value))
    return bool(abs(found - value) <= 2 * np.spacing(np.abs(kind(value))))
