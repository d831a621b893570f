"""A table cell: a program built without warnings, run where possible, and its imports."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from pullback.runtime.export import export
from tests.support.bounds import interpret_with_bounds
from tests.support.targets.programs import Programs
from tests.support.targets.toolchains import Toolchain

SECONDS: Final = 300
LIBC: Final = {"memcpy", "memset", "memmove", "bzero"}  # bzero: what clang makes of memset on macOS
LIBM: Final = frozenset(
    re.findall(
        r"\w+",
        """
    exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sqrt pow fabs
    floor ceil rint round trunc fmod copysign nextafter hypot erf erfc tgamma lgamma fma fmax fmin ldexp""",
    )
)


@dataclass(frozen=True)
class Cell:
    """The outcome of a program with a toolchain.

    Attributes:
        code: bytes of its code; None where nothing here reads object files of this kind.
        imports: names that it has from elsewhere.
        ran: whether it was run.
        fault: what failed; empty where nothing did.
    """

    code: int | None = None
    imports: frozenset[str] = field(default_factory=frozenset)
    ran: bool = False
    fault: str = ""

    @property
    def text(self) -> str:
        """The text of the cell in the table."""
        if self.fault:
            return f"**{self.fault}**"
        size = "built" if self.code is None else f"{self.code:,}"
        return size if self.ran else f"({size})"


def within_bounds(program: Any, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The f64 results and twice the error bound; without bounds, the interpreter's results."""
    values, bounds = interpret_with_bounds(program, inputs)
    return values, [2 * np.asarray(b, np.float64) for b in bounds]


def projects(programs: Programs, folder: Path) -> dict[str, Path]:
    """Make each program's project, whose example compares results within their bounds."""
    for name, (function, dims) in programs.items():
        export(*function.for_dims(dims), folder / name, reference=within_bounds)
    return {name: folder / name for name in programs}


def build(toolchain: Toolchain, project: Path, folder: Path) -> Cell:
    """Compile, link and run a project; the first thing that fails ends it."""
    source, main = next(f for f in sorted(project.glob("*.c")) if f.name != "main.c"), project / "main.c"
    objects = [folder / "function.o", folder / "main.o"]
    for c, made in zip((source, main), objects):
        said = _said([*toolchain.words, *toolchain.strict, "-c", str(c), "-o", str(made)])
        if said:
            return Cell(fault=f"{c.name}: {said}")
    code, imports = _size(toolchain, objects[0]), _imports(toolchain, objects[0])
    foreign = sorted(n for n in imports if not _is_allowed(n))
    if foreign:
        return Cell(code, imports, fault=f"imports {', '.join(foreign)}")
    if not toolchain.links:
        return Cell(code, imports)
    program = folder / "example"
    said = _said([*toolchain.words, *map(str, objects), "-o", str(program), *toolchain.link])
    if said:
        return Cell(code, imports, fault=f"link: {said}")
    runner = toolchain.runner()
    if runner is None:
        return Cell(code, imports)
    return Cell(code, imports, ran=True, fault=_differs([*runner, str(program)], folder))


def _said(command: Sequence[str]) -> str:
    """The first error or warning of a compiler; nothing where it has none to say."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    if not lines:
        return "" if done.returncode == 0 else f"ended with {done.returncode}"
    return next((s for s in lines if "error" in s or "warning" in s), lines[0]).strip()


def _differs(command: Sequence[str], folder: Path) -> str:
    """The numeric fault of a run; empty if there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return f"ran longer than {SECONDS} s"
    if " 0 numbers differ" in done.stdout:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"ended with {done.returncode}"]
    return f"numbers: {lines[0]}"


def _size(toolchain: Toolchain, made: Path) -> int | None:
    """Bytes of code and constants, as `size` counts them."""
    tool = toolchain.tool("size")
    if tool is None:
        return None
    done = subprocess.run([tool, str(made)], capture_output=True, text=True, check=False)
    found = re.search(r"^\s*(\d+)", done.stdout.partition("\n")[2])
    return int(found[1]) if found else None


def _imports(toolchain: Toolchain, made: Path) -> frozenset[str]:
    """The names that an object file leaves open."""
    tool = toolchain.tool("nm")
    if tool is None:
        return frozenset()
    done = subprocess.run([tool, str(made)], capture_output=True, text=True, check=False)
    return frozenset(line.split()[-1] for line in done.stdout.splitlines() if re.search(r"\bU \S+$", line))


def _is_allowed(name: str) -> bool:
    """Whether it is of libc or libm, or of the compiler's own library, as division of 64 bits on 32 is."""
    if name.startswith("__") or name == "_fltused":  # by which Windows knows that a program has floating point
        return True
    bare = name.removeprefix("_")  # of Mach-O
    return bare in LIBC | LIBM or bare.removesuffix("f") in LIBM


# The table ------------------------------------------------------------------------------------------------------


def markdown(rows: Mapping[Toolchain, Mapping[str, Cell]], absent: Mapping[Toolchain, str]) -> str:
    """The table, what programs import, and what is not here."""
    programs = list(next(iter(rows.values()), {}))
    out = [_HEAD, f"Measured on {platform.system()} {platform.machine()}.", ""]
    out += ["| compiler | target | run by | " + " | ".join(programs) + " |", "|---|---|---|" + "---:|" * len(programs)]
    for toolchain, cells in rows.items():
        runner = toolchain.runner()
        by = "not run here" if runner is None else Path(runner[0]).name if runner else "this machine"
        texts = " | ".join(cells[p].text.replace("|", "\\|") for p in programs)
        out.append(f"| {toolchain.compiler} | {toolchain.target} | {by} | {texts} |")
    out += ["", "Names that the functions import:", ""]
    for toolchain, cells in rows.items():
        names = frozenset[str]().union(*(c.imports for c in cells.values()))
        out.append(f"- {toolchain.name}: {_listed(names)}")
    if absent:
        out += ["", "Not on this machine:", "", *(f"- {t.name}: {why}" for t, why in absent.items())]
    return "\n".join(out) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in sorted(names)) or "none"


_HEAD: Final = """\
# The emitted C on every target

`python -m tests.support.targets` makes this table. A number is the bytes of code and constants of the function. The
program was built with warnings as errors, and ran. Its numbers agreed with the interpreter's within the bounds of
running error analysis. A number in brackets was built but not run, since nothing here runs its target. A name that
begins with two underscores is from the compiler's own library.
"""
