"""The `main.c` of an exported network, and the weights file that it reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.c.types import c_type
from pullback.codegen.target import Source
from pullback.ir.types import DType, dtype_of
from pullback.loops.program.values import Buffer

__all__ = ["Array", "Main", "Step"]

SAFETENSORS: Final = {"f4": "F32", "f8": "F64", "i8": "I64", "i4": "I32", "u4": "U32", "u1": "U8", "b1": "BOOL"}


@dataclass(frozen=True)
class Array:
    """An array of the weights file: its name there, its variable in C, and its first value."""

    name: str
    variable: str
    value: NDArray[Any]

    @classmethod
    def of(cls, name: str, value: NDArray[Any]) -> Self:
        """Of a name such as parameters/conv1/w."""
        return cls(name, re.sub(r"\W+", "_", name), np.ascontiguousarray(value).reshape(value.shape))

    @property
    def type(self) -> str:
        """The C type of its elements."""
        return c_type(_dtype(self.value))

    @property
    def count(self) -> int:
        """How many elements it has, at least 1, as C wants it."""
        return max(1, self.value.size)


@dataclass(frozen=True)
class Step:
    """A function of the project, and the result that `main` looks at."""

    source: Source
    result: Buffer

    def call(self, arguments: Sequence[str]) -> str:
        """The statements that call it in its arena."""
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
    """All that `main.c` says.

    Attributes:
        name: of the network.
        infer: the function of one sample, None where nothing is recognised.
        train: the function of one update, None where nothing is trained.
        arrays: those of the weights file in its order; none where the weights are in the C.
        inferred: how many of them, from the first, inference takes.
        sample: one sample of the input, with an axis of 1 before it.
        target: one target, likewise.
        batch: samples of an update.
    """

    name: str
    infer: Step | None
    train: Step | None
    arrays: Sequence[Array]
    inferred: int
    sample: NDArray[Any]
    target: NDArray[Any]
    batch: int

    # The weights file -----------------------------------------------------------------------------------------------

    @property
    def weights(self) -> str:
        """Its name."""
        return f"{self.name}.safetensors"

    @property
    def content(self) -> bytes:
        """What it holds before training."""
        return self._head + b"".join(a.value.tobytes() for a in self.arrays)

    @property
    def _head(self) -> bytes:
        """Eight bytes that count those of a JSON object, and the object: where each array lies behind it."""
        table: dict[str, Any] = {"__metadata__": {"program": "pullback", "network": self.name}}
        at = 0
        for a in self.arrays:
            kind = SAFETENSORS[a.value.dtype.str[1:]]
            table[a.name] = {"dtype": kind, "shape": list(a.value.shape), "data_offsets": [at, at + a.value.nbytes]}
            at += a.value.nbytes
        text = json.dumps(table, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    # The program ----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The program."""
        parts = [self._about, self._includes, self._memory]
        if self.arrays:
            parts += [self._table, _LOAD, _SAVE] if self.train else [self._table, _LOAD]
        parts.append(_OPEN)
        if self.infer:
            parts += [self._infer, self._infer_file, self._test_file]
        if self.train:
            parts.append(self._train_file)
        return "\n\n".join([*parts, self._entry]) + "\n"

    @property
    def cmake(self) -> str:
        """The project for CMake."""
        sources = " ".join(["main.c", *(f"{s.source.name}.c" for s in (self.infer, self.train) if s)])
        return f"""\
cmake_minimum_required(VERSION 3.10)
project({self.name} C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_executable({self.name} {sources})
set_target_properties({self.name} PROPERTIES C_STANDARD 99)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({self.name} PRIVATE -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi)
endif()
if(UNIX)
  target_link_libraries({self.name} PUBLIC m)
endif()
"""

    @property
    def _classes(self) -> bool:
        """Whether targets are labels and the result has a score for each."""
        return self.target.dtype.kind in "iu" and self.target.ndim == 1

    @property
    def _usage(self) -> list[str]:
        lines = []
        if self.infer:
            lines.append(("infer INPUTS", "the result for every sample, one a line"))
            lines.append(("test INPUTS TARGETS", "how many are right" if self._classes else "the mean squared error"))
        if self.train:
            lines.append(("train INPUTS TARGETS EPOCHS", f"updates for {self.batch} samples each, in their order"))
        return [f"{self.name} {command:28}  {what}" for command, what in lines]

    @property
    def _about(self) -> str:
        sources = " ".join(["main.c", *(f"{s.source.name}.c" for s in (self.infer, self.train) if s)])
        weights = f"\n   Parameters are those of {self.weights}" if self.arrays else "\n   Parameters are in the C"
        weights += ", which training writes anew." if self.train else "."
        x, t = self.sample, self.target
        return f"""\
/* {self.name}

     {f"{chr(10)}     ".join(self._usage)}

   Inputs are {_dtype(x)}{list(x.shape[1:])}, targets {_dtype(t)}{list(t.shape[1:]) or ""}, one behind the other in the
   byte order of the machine.{weights}

   cc -std=c99 -O2 -Wno-psabi {sources} -o {self.name} -lm
   cc -std=gnu99 -O3 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math gives the best code.
*/"""

    @property
    def _includes(self) -> str:
        own = [f'#include "{s.source.name}.h"' for s in (self.infer, self.train) if s]
        return "\n".join(["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", *own])

    @property
    def _memory(self) -> str:
        samples = self.batch if self.train else 1
        lines = [f"static {a.type} {a.variable}[{a.count}];" for a in self.arrays]
        if self.train:
            lines += ["", "/* What an update makes of them. */"]
            lines += [f"static {a.type} next_{a.variable}[{a.count}];" for a in self.arrays[:-1]]
        lines += [
            "",
            f"static {c_type(_dtype(self.sample))} input[{samples * self.sample.size}];",
            f"static {c_type(_dtype(self.target))} target[{samples * self.target.size}];",
        ]
        for s in (self.infer, self.train):
            if s is not None:
                lines.append(f"{s.source.name.upper()}_STATIC_ARENA({s.source.name}_arena);")
        if self.infer:
            lines.append(f"static {c_type(self.infer.result.dtype)} result[{_size(self.infer.result)}];")
        return "\n".join(lines)

    @property
    def _table(self) -> str:
        rows = [f"    {{{a.variable}, {a.value.nbytes}}}," for a in self.arrays]
        head = [f'    "{_quoted(line)}"' for line in _lines(self._head[8:].decode())]
        return "\n".join(
            [
                "/* The arrays of the weights file in its order. */",
                "static const struct {",
                "    void *data;",
                "    size_t bytes;",
                "} arrays[] = {",
                *rows,
                "};",
                "",
                f'#define WEIGHTS "{self.weights}"',
                "/* What the file begins with, behind eight bytes that count it (safetensors). */",
                "static const char head[] =",
                *head[:-1],
                head[-1] + ";",
            ]
        )

    @property
    def _infer(self) -> str:
        assert self.infer is not None
        given = [a.variable for a in self.arrays[: self.inferred]]
        return f"""\
/* Whether `result` holds what the network makes of `input`. */
static int run(void) {{
{self.infer.call([*given, "input", "result"])}
    return 1;
}}"""

    @property
    def _infer_file(self) -> str:
        return _INFER.replace("COUNT", str(_size(self.infer.result))).replace("SAMPLE", str(self.sample.nbytes))  # type: ignore[union-attr]

    @property
    def _test_file(self) -> str:
        assert self.infer is not None
        body = _RIGHT if self._classes else _ERROR
        count = str(_size(self.infer.result))
        return body.replace("COUNT", count).replace("SAMPLE", str(self.sample.nbytes)).replace(
            "TARGET", str(self.target.nbytes)
        )

    @property
    def _train_file(self) -> str:
        assert self.train is not None
        *trees, step = self.arrays
        given = [a.variable for a in trees] + [step.variable, "input", "target"]
        results = [f"next_{a.variable}" for a in trees] + ["&loss"]
        copies = "\n".join(f"    memcpy({a.variable}, next_{a.variable}, {a.value.nbytes});" for a in trees)
        return (
            _TRAIN.replace("CALL", self.train.call([*given, *results]))
            .replace("COPIES", copies)
            .replace("LOSS", c_type(self.train.result.dtype))
            .replace("SAMPLES", str(self.batch * self.sample.nbytes))
            .replace("TARGETS", str(self.batch * self.target.nbytes))
        )

    @property
    def _entry(self) -> str:
        cases = []
        if self.infer:
            cases += [('"infer"', 3, "infer_file(argv[2])"), ('"test"', 4, "test_file(argv[2], argv[3])")]
        if self.train:
            cases.append(('"train"', 5, "train_file(argv[2], argv[3], argv[4])"))
        lines = ["int main(int argc, char **argv) {"]
        if self.arrays:
            lines += ["    if (argc > 1 && !load()) return 1;"]
        lines += [f"    if (argc == {n} && !strcmp(argv[1], {c})) return {call};" for c, n, call in cases]
        usage = "\\n".join(f"{line}" for line in self._usage)
        return "\n".join([*lines, f'    fprintf(stderr, "{usage}\\n");', "    return 2;", "}"])


_LOAD: Final = """\
static int load(void) {
    static unsigned char found[sizeof head + 7];
    FILE *file = fopen(WEIGHTS, "rb");
    if (!file) {
        perror(WEIGHTS);
        return 0;
    }
    size_t size = 0;
    int fits = fread(found, 1, sizeof found, file) == sizeof found;
    for (int k = 7; k >= 0; --k) size = size << 8 | found[k];
    fits = fits && size == sizeof head - 1 && !memcmp(found + 8, head, size);
    for (size_t k = 0; fits && k < sizeof arrays / sizeof *arrays; ++k)
        fits = fread(arrays[k].data, 1, arrays[k].bytes, file) == arrays[k].bytes;
    fits = fits && fgetc(file) == EOF;
    fclose(file);
    if (!fits) fprintf(stderr, "%s: not the weights of this network, or damaged\\n", WEIGHTS);
    return fits;
}"""

_SAVE: Final = """\
/* The file is there whole or as it was. */
static int save(void) {
    FILE *file = fopen(WEIGHTS ".new", "wb");
    int written = file != NULL;
    for (int k = 0; written && k < 8; ++k) written = fputc((int)((sizeof head - 1) >> 8 * k & 255), file) != EOF;
    written = written && fwrite(head, 1, sizeof head - 1, file) == sizeof head - 1;
    for (size_t k = 0; written && k < sizeof arrays / sizeof *arrays; ++k)
        written = fwrite(arrays[k].data, 1, arrays[k].bytes, file) == arrays[k].bytes;
    if (file) written = !fclose(file) && written;
#ifdef _WIN32
    if (written) remove(WEIGHTS);
#endif
    written = written && !rename(WEIGHTS ".new", WEIGHTS);
    if (!written) perror(WEIGHTS);
    return written;
}"""

_OPEN: Final = """\
static FILE *opened(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) perror(name);
    return file;
}

/* 1: the next bytes were read; 0: the file is at its end; -1: it ends within them. */
static int next(FILE *file, const char *name, void *data, size_t bytes) {
    const size_t count = fread(data, 1, bytes, file);
    if (count == bytes) return 1;
    if (count) fprintf(stderr, "%s: the last sample is not whole\\n", name);
    return count ? -1 : 0;
}"""

_INFER: Final = """\
static int infer_file(const char *inputs) {
    FILE *file = opened(inputs);
    if (!file) return 1;
    int more;
    while ((more = next(file, inputs, input, SAMPLE)) == 1 && run())
        for (int k = 0; k < COUNT; ++k) printf("%.9g%c", (double)result[k], k + 1 < COUNT ? ' ' : '\\n');
    fclose(file);
    return more != 0;
}"""

_BOTH: Final = """\
static int test_file(const char *inputs, const char *targets) {
    FILE *file = opened(inputs), *wanted = opened(targets);
    if (!file || !wanted) return 1;
    long samples = 0;
    VARIABLE;
    int more;
    while ((more = next(file, inputs, input, SAMPLE)) == 1 && (more = next(wanted, targets, target, TARGET)) == 1) {
        if (!run()) return 1;
LOOK
        ++samples;
    }
    fclose(file);
    fclose(wanted);
    SAY;
    return more != 0;
}"""

_RIGHT: Final = (
    _BOTH.replace("VARIABLE", "long right = 0")
    .replace(
        "LOOK",
        """\
        int best = 0;
        for (int k = 1; k < COUNT; ++k)
            if (result[k] > result[best]) best = k;
        right += best == (long)target[0];""",
    )
    .replace("SAY", 'printf("%ld of %ld right\\n", right, samples)')
)

_ERROR: Final = (
    _BOTH.replace("VARIABLE", "double total = 0")
    .replace(
        "LOOK",
        """\
        for (int k = 0; k < COUNT; ++k) {
            const double difference = (double)result[k] - (double)target[k];
            total += difference * difference;
        }""",
    )
    .replace("SAY", 'printf("mean squared error %.9g\\n", total / COUNT / (double)(samples ? samples : 1))')
)

_TRAIN: Final = """\
/* Whether an update was made for the samples in `input`; the loss before it is added to `total`. */
static int update(double *total) {
    LOSS loss;
CALL
COPIES
    ++step[0];
    *total += (double)loss;
    return 1;
}

static int train_file(const char *inputs, const char *targets, const char *epochs) {
    FILE *file = opened(inputs), *wanted = opened(targets);
    if (!file || !wanted) return 1;
    for (long epoch = 1, count = atol(epochs); epoch <= count; ++epoch) {
        double total = 0;
        long updates = 0;
        rewind(file);
        rewind(wanted);
        /* What is less than a batch at the end is left out. */
        while (fread(input, 1, SAMPLES, file) == SAMPLES && fread(target, 1, TARGETS, wanted) == TARGETS) {
            if (!update(&total)) return 1;
            ++updates;
        }
        if (!updates) {
            fprintf(stderr, "%s: less than a batch\\n", inputs);
            return 1;
        }
        printf("epoch %ld  loss %.6g\\n", epoch, total / (double)updates);
        if (!save()) return 1;
    }
    fclose(file);
    fclose(wanted);
    return 0;
}"""


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
