"""The `main.c` of an exported network, and the weights file that it reads and writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.c.build import exported
from pullback.codegen.c.types import c_type
from pullback.codegen.target import Source
from pullback.ir.types import DType, dtype_of
from pullback.loops.program.values import Buffer
from pullback.nn.export_text import (
    ERROR,
    FILES,
    FINISHED,
    FINITE,
    INFER,
    LABELS,
    LOAD,
    NOT_FINITE,
    OPEN,
    RIGHT,
    SAVE,
    TRAIN,
)
from pullback.nn.safetensors_file import header
from pullback.runtime.export import cmake_options
from pullback.templates import filled

__all__ = ["Array", "Field", "Main", "Step"]


@dataclass(frozen=True)
class Array:
    """An array of the weights file: its name in the file, its C variable, and its initial value."""

    name: str
    variable: str
    value: NDArray[Any]

    @classmethod
    def of(cls, name: str, value: NDArray[Any]) -> Self:
        """Make an array from a name such as parameters/conv1/w."""
        return cls(name, re.sub(r"\W+", "_", name), np.ascontiguousarray(value).reshape(value.shape))

    @property
    def type(self) -> str:
        """The C type of the elements."""
        return c_type(_dtype(self.value))

    @property
    def count(self) -> int:
        """The number of elements, at least 1 because C has no empty arrays."""
        return max(1, self.value.size)


@dataclass(frozen=True)
class Field:
    """An array of each sample, which the program reads from a file.

    Attributes:
        label: the name of the file in the usage.
        variable: the C variable.
        sample: one sample, with a leading axis of size 1.
        kind: the array's part of the data, "inputs" or "targets".
        classes: the number of classes of labels, otherwise 0.
    """

    label: str
    variable: str
    sample: NDArray[Any]
    kind: str = "inputs"
    classes: int = 0


@dataclass(frozen=True)
class Step:
    """A function of the project, and the results that `main` reads."""

    source: Source
    results: Sequence[Buffer]

    def call(self, arguments: Sequence[str]) -> str:
        """The statements that call the function in its arena."""
        macro = self.source.name.upper()
        given = [*arguments, f"{macro}_ALIGNED({self.source.name}_arena)", *(["0"] if self.source.sites else [])]
        return f"""\
    const int status = {self.source.name}({_folded(given)});
    if (status) {{
        fprintf(stderr, "{self.source.name}: range check %d failed\\n", status);
        return 0;
    }}"""


@dataclass(frozen=True)
class Main:
    """The content of `main.c`.

    Attributes:
        name: the name of the network.
        infer: the function of one sample, or None without inference.
        train: the function of one update, or None without training.
        arrays: the arrays of the weights file in order; empty if the weights are constants in the C.
        inferred: the number of leading arrays that inference takes.
        inputs: the arrays of the input.
        targets: the arrays of the target.
        batch: the number of samples per update.
    """

    name: str
    infer: Step | None
    train: Step | None
    arrays: Sequence[Array]
    inferred: int
    inputs: Sequence[Field]
    targets: Sequence[Field]
    batch: int

    # The weights file -----------------------------------------------------------------------------------------------

    @property
    def weights(self) -> str:
        """The name of the weights file."""
        return f"{self.name}.safetensors"

    @property
    def content(self) -> bytes:
        """The content of the weights file before training."""
        return self._head + b"".join(a.value.tobytes() for a in self.arrays)

    @property
    def _head(self) -> bytes:
        """The header: the length of a JSON object in eight bytes, then the object, which locates each array."""
        return header({a.name: a.value for a in self.arrays}, {"program": "pullback", "network": self.name})

    # The program ----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text of `main.c`."""
        parts = [self._about, self._includes, self._memory, NOT_FINITE]
        if self.arrays:
            parts += [self._table, LOAD, SAVE] if self.train else [self._table, LOAD]
        parts += [OPEN, *map(self._fits, self._fields), self._files]
        if self.infer:
            parts += [self._infer, self._infer_file]
        if self._tests:
            parts.append(self._test_file)
        if self.train:
            parts.append(self._train_file)
        return "\n\n".join([*parts, self._entry]) + "\n"

    @property
    def cmake(self) -> str:
        """The text of `CMakeLists.txt`."""
        sources = " ".join(["main.c", *(f"{s.source.name}.c" for s in (self.infer, self.train) if s)])
        return f"""\
cmake_minimum_required(VERSION 3.10)
project({self.name} C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_executable({self.name} {sources})
set_target_properties({self.name} PROPERTIES C_STANDARD 99)
{cmake_options(self.name, False)}
if(UNIX)
  target_link_libraries({self.name} PUBLIC m)
endif()
"""

    @property
    def _tests(self) -> bool:
        """Whether the result can be compared with the target: each row has a label, or each result a number."""
        if self.infer is None or len(self.targets) != 1:
            return False
        (target,) = self.targets
        return _size(self.infer.results[0]) == target.sample.size * (target.classes or 1)

    @property
    def _compared(self) -> bool:
        """Whether the program reads targets."""
        return self.train is not None or self._tests

    @property
    def _fields(self) -> list[Field]:
        """The arrays of a sample that the program reads."""
        return [*self.inputs, *(self.targets if self._compared else ())]

    @property
    def _usage(self) -> list[str]:
        lines = []
        given, targets = (" ".join(f.label for f in fields) for fields in (self.inputs, self.targets))
        if self.infer:
            lines.append((f"infer {given}", "the result for every sample, one a line"))
        if self._tests:
            what = "how many are right" if self.targets[0].classes else "the mean squared error"
            lines.append((f"test {given} {targets}", what))
        if self.train:
            what = f"updates for {self.batch} samples each, in their order"
            lines.append((f"train {given} {targets} EPOCHS", what))
        width = max([28, *(len(command) for command, _ in lines)])
        return [f"{self.name} {command:{width}}  {what}" for command, what in lines]

    @property
    def _about(self) -> str:
        sources = " ".join(["main.c", *(f"{s.source.name}.c" for s in (self.infer, self.train) if s)])
        weights = f"\n   Parameters are those of {self.weights}" if self.arrays else "\n   Parameters are in the C"
        weights += ", which training writes anew." if self.train else "."
        if len(self.inputs) == len(self.targets) == 1:
            x, t = self.inputs[0].sample, self.targets[0].sample
            of = f"Inputs are {_dtype(x)}{list(x.shape[1:])}, targets {_dtype(t)}{list(t.shape[1:]) or ''}"
        else:
            of = ", ".join(f"{f.label} {_dtype(f.sample)}{list(f.sample.shape[1:]) or ''}" for f in self._fields)
            of = f"Samples are {of}"
        return f"""\
/* {self.name}

     {f"{chr(10)}     ".join(self._usage)}

   {of}, one behind the other in the
   byte order of the machine.{weights}

   cc -std=c99 -O2 -Wno-psabi {sources} -o {self.name} -lm
   cc -std=gnu99 -O3 -march=native {" ".join(exported(False))} gives the best code.
*/"""

    @property
    def _includes(self) -> str:
        own = [f'#include "{s.source.name}.h"' for s in (self.infer, self.train) if s]
        standard = [f"#include <{name}.h>" for name in ("math", "stdio", "stdlib", "string")]
        return "\n".join([*standard, *own])

    @property
    def _memory(self) -> str:
        samples = self.batch if self.train else 1
        lines = [f"static {a.type} {a.variable}[{a.count}];" for a in self.arrays]
        if self.train:
            lines += ["", "/* What an update makes of them. */"]
            lines += [f"static {a.type} next_{a.variable}[{a.count}];" for a in self.arrays[:-1]]
        lines.append("")
        lines += [f"static {c_type(_dtype(f.sample))} {f.variable}[{samples * f.sample.size}];" for f in self._fields]
        for s in (self.infer, self.train):
            if s is not None:
                lines.append(f"{s.source.name.upper()}_STATIC_ARENA({s.source.name}_arena);")
        if self.infer:
            lines += [f"static {c_type(r.dtype)} {name}[{_size(r)}];" for name, r in self._results]
        return "\n".join(lines)

    @property
    def _table(self) -> str:
        rows = [f"    {{{a.variable}, {a.value.nbytes}, {_kind(a.value)}}}," for a in self.arrays]
        head = [f'    "{_quoted(line)}"' for line in _lines(self._head[8:].decode())]
        return "\n".join(
            [
                "/* The arrays of the weights file in its order. */",
                "static const struct {",
                "    void *data;",
                "    size_t bytes;",
                "    char kind;",
                "} arrays[] = {",
                *rows,
                "};",
                "",
                f'#define WEIGHTS "{self.weights}"',
                f"#define WEIGHTS_BYTES {len(self.content)}L",
                "/* What the file begins with, behind eight bytes that count it (safetensors). */",
                "static const char head[] =",
                *head[:-1],
                head[-1] + ";",
            ]
        )

    @property
    def _results(self) -> list[tuple[str, Buffer]]:
        """The results of inference, each with its variable: the first is `result`."""
        assert self.infer is not None
        return [(f"result_{k}" if k else "result", r) for k, r in enumerate(self.infer.results)]

    @property
    def _infer(self) -> str:
        assert self.infer is not None
        given = [a.variable for a in self.arrays[: self.inferred]]
        read = ", ".join(f"`{f.variable}`" for f in self.inputs)
        return f"""\
/* Whether the results hold what the network makes of {read}. */
static int run(void) {{
{self.infer.call([*given, *(f.variable for f in self.inputs), *(name for name, _ in self._results)])}
    return 1;
}}"""

    @staticmethod
    def _fits(field: Field) -> str:
        sample = field.sample
        words = {"bytes": sample.nbytes, "count": sample.size, "kind": _kind(sample), "classes": field.classes}
        return filled(LABELS if field.classes else FINITE, {**words, "name": field.variable})

    @property
    def _files(self) -> str:
        rows = [f'    {{{f.variable}, {f.sample.nbytes}, {f.variable}_fits, "{f.kind}"}},' for f in self._fields]
        return filled(FILES, {"rows": "\n".join(rows), "count": len(rows)})

    @property
    def _infer_file(self) -> str:
        lines: list[str] = []
        for name, r in reversed(self._results):  # the line ends after the last one
            ending = "' '" if lines else f"k + 1 < {_size(r)} ? ' ' : '\\n'"
            lines.insert(0, f'for (int k = 0; k < {_size(r)}; ++k) printf("%.9g%c", (double){name}[k], {ending});')
        return filled(INFER, {"inputs": len(self.inputs), "shown": "\n".join(f"{8 * ' '}{x}" for x in lines)})

    @property
    def _test_file(self) -> str:
        (target,) = self.targets
        words = {"count": target.sample.size, "target": target.variable, "fields": len(self._fields)}
        return filled(RIGHT if target.classes else ERROR, {**words, "classes": target.classes})

    @property
    def _train_file(self) -> str:
        assert self.train is not None
        *trees, step = self.arrays
        given = [a.variable for a in trees] + [step.variable, *(f.variable for f in self._fields)]
        results = [f"next_{a.variable}" for a in trees] + ["&loss"]
        words = {
            "call": self.train.call([*given, *results]),
            "copies": "\n".join(f"    memcpy({a.variable}, next_{a.variable}, {a.value.nbytes});" for a in trees),
            "loss": c_type(self.train.results[-1].dtype),
            "fields": len(self._fields),
            "batch": self.batch,
        }
        return filled(TRAIN, words)

    @property
    def _entry(self) -> str:
        cases = []
        given, both = 2 + len(self.inputs), 2 + len(self._fields)
        if self.infer:
            cases.append(('"infer"', given, "infer_file(argv + 2)"))
        if self._tests:
            cases.append(('"test"', both, "test_file(argv + 2)"))
        if self.train:
            cases.append(('"train"', both + 1, f"train_file(argv + 2, argv[{both}])"))
        lines = [FINISHED, "", "int main(int argc, char **argv) {"]
        if self.arrays:
            lines += ["    if (argc > 1 && !load()) return 1;"]
        lines += [f"    if (argc == {n} && !strcmp(argv[1], {c})) return finished({call});" for c, n, call in cases]
        usage = "\\n".join(f"{line}" for line in self._usage)
        return "\n".join([*lines, f'    fprintf(stderr, "{usage}\\n");', "    return 2;", "}"])


def _kind(array: NDArray[Any]) -> str:
    """The letter for an array's elements in C: float, double, or integer."""
    return {"f4": "'f'", "f8": "'d'"}.get(array.dtype.str[1:], "'i'")


def _dtype(array: NDArray[Any]) -> DType:
    found = dtype_of(array.dtype)
    assert found is not None, array.dtype
    return found


def _size(b: Buffer) -> int:
    count = 1
    for e in b.shape:
        assert e.constant is not None, b
        count *= e.constant
    return count


def _folded(arguments: Sequence[str]) -> str:
    lines, line = [], ""
    for k, a in enumerate(arguments):
        text = a + (", " if k + 1 < len(arguments) else "")
        if len(line) + len(text) > 96:
            lines.append(line.rstrip())
            line = ""
        line += text
    return "\n        ".join([*lines, line])


def _lines(text: str, width: int = 96) -> list[str]:
    return [text[k : k + width] for k in range(0, len(text), width)]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
