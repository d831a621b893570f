"""Peers of the paper's evaluation: PyTensor, and C that Tapenade generated, which the user has in a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.derivatives import CASES, HEAD, SYSTEMS, bench_derivatives, cells
from benchmarks.systems import derivatives_pullback, derivatives_pytensor, derivatives_tapenade
from benchmarks.systems.derivatives_pullback import FUNCTIONS
from pullback.runtime.compile import compiler_command
from pullback.runtime.shim import extension

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "derivatives.md"

# What stands in for the generated files: the same names and arguments, and derivatives by dual numbers.
BUNDLE = """
#include <math.h>
#include "utils.h"
typedef struct { double a, b; } dual;
static dual plus(dual x, dual y) { return (dual){x.a + y.a, x.b + y.b}; }
static dual minus(dual x, dual y) { return (dual){x.a - y.a, x.b - y.b}; }
static dual times(dual x, dual y) { return (dual){x.a * y.a, x.a * y.b + x.b * y.a}; }
static dual over(dual x, dual y) { return (dual){x.a / y.a, (x.b - x.a / y.a * y.b) / y.a}; }
static void seen(const dual *p, const dual *x, dual *y) {
    const dual one = {1, 0};
    dual squared = plus(times(p[0], p[0]), plus(times(p[1], p[1]), times(p[2], p[2])));
    dual along = {0, 0}, v[3], z[3], t[3];
    dual angle = {sqrt(squared.a), squared.b / sqrt(squared.a) / 2};
    dual cosine = {cos(angle.a), -sin(angle.a) * angle.b}, sine = {sin(angle.a), cos(angle.a) * angle.b};
    for (int k = 0; k < 3; k++) v[k] = over(p[k], angle), z[k] = minus(x[k], p[3 + k]);
    for (int k = 0; k < 3; k++) along = plus(along, times(v[k], z[k]));
    for (int k = 0; k < 3; k++) {
        const int m = (k + 1) % 3, n = (k + 2) % 3;
        dual across = minus(times(v[m], z[n]), times(v[n], z[m]));
        t[k] = plus(plus(times(z[k], cosine), times(across, sine)), times(times(v[k], along), minus(one, cosine)));
    }
    dual e[2] = {over(t[0], t[2]), over(t[1], t[2])}, q = plus(times(e[0], e[0]), times(e[1], e[1]));
    dual bent = plus(one, times(q, plus(p[9], times(q, p[10]))));
    for (int k = 0; k < 2; k++) y[k] = plus(times(times(e[k], bent), p[6]), p[7 + k]);
}
void compute_reproj_error_b(const double *cam, double *camb, const double *X, double *Xb, const double *w, double *wb,
                            const double *feat, double *err, double *errb) {
    dual at[14], y[2];
    *wb = push(0) - feat[0] * 0;
    for (int j = 0; j < 14; j++) {
        for (int k = 0; k < 14; k++) at[k] = (dual){k < 11 ? cam[k] : X[k - 11], k == j};
        seen(at, at + 11, y);
        err[0] = y[0].a, err[1] = y[1].a;
        *(j < 11 ? camb + j : Xb + j - 11) = *w * (errb[0] * y[0].b + errb[1] * y[1].b);
    }
}
"""
HEADER = """
#pragma once
#include "utils.h"
void compute_reproj_error_b(const double *, double *, const double *, double *, const double *, double *,
                            const double *, double *, double *);
"""


def stand_in(folder: Path, text: str = BUNDLE) -> Path:
    """A folder as the user would have it, files in folders of their own."""
    parts = {
        "ba/ba_b.c": text,
        "ba/ba_b.h": HEADER,
        "ba/utils.h": "double push(double x);\n",
        "utils/adStack.c": "double push(double x) { return x; }\n",
        "utils/adBuffer.c": "int buffer;\n",
    }
    for name, part in parts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(part)
    return folder


needs_compiler = pytest.mark.skipif(compiler_command() is None or extension() is None, reason="no C compiler")


@needs_compiler
def test_f19_generated_c_is_measured_in_turns(tmp_path: Path) -> None:
    said: list[str] = []
    rows = bench_derivatives(cases=("blocks",), sizes=(1000,), systems=("pullback", "tapenade"), rounds=1,
                             tapenade=stand_in(tmp_path), note=said.append)  # fmt: skip
    assert [row["system"] for row in rows] == ["pullback", "tapenade"], said
    (line,) = cells(rows)
    shown = dict(zip(HEAD, line, strict=True))
    assert shown["case"] == "blocks-1000"
    assert float(shown["tapenade µs"]) > 0
    assert float(shown["peer / ours"]) > 1


@needs_compiler
def test_f19_generated_c_with_other_values_is_not_measured(tmp_path: Path) -> None:
    """The values are compared first, and a file that changes is compiled again."""
    for text, kept in ((BUNDLE, 2), (BUNDLE.replace("errb[1] * y[1].b", "errb[1] * y[0].b"), 1)):
        said: list[str] = []
        rows = bench_derivatives(cases=("blocks",), sizes=(1000,), systems=("pullback", "tapenade"), rounds=1,
                                 tapenade=stand_in(tmp_path, text), note=said.append)  # fmt: skip
        assert len(rows) == kept, said
    assert any(line.startswith("WRONG: blocks-1000 float64 tapenade") for line in said)


@needs_compiler
def test_f19_the_dense_jacobian_is_the_same_blocks(tmp_path: Path) -> None:
    cases = {case.name: case for case in CASES}
    folder = stand_in(tmp_path)
    by_camera, dense = derivatives_tapenade.prepare(cases["project"], 100, "generated C", folder)()
    p, x = cases["project"].make(100)
    expected = FUNCTIONS["blocks"](p, x)
    np.testing.assert_allclose(by_camera, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dense[range(100), :, range(100)], expected[1], rtol=1e-10, atol=1e-12)
    assert np.count_nonzero(dense) == np.count_nonzero(expected[1])


def test_f19_without_a_folder_the_column_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["derivatives", "--cases", "dot", "blocks", "--sizes", "1000", "--rounds", "1", "--markdown"]
    assert main([*words, "--systems", "pullback", "tapenade"]) == 0
    out, said = capsys.readouterr()
    dot, blocks = (dict(zip(HEAD, line.strip("| ").split(" | "), strict=True)) for line in out.splitlines()[2:])
    assert (dot["tapenade µs"], blocks["tapenade µs"]) == ("–", "–")
    assert "left out: blocks-1000 float64 tapenade (generated C): C generated by Tapenade is in no --tapenade" in said


def test_f19_pytensor_takes_part_in_every_kind_of_case() -> None:
    kinds = {case.name.partition("-")[0] for case in CASES}
    assert kinds - derivatives_pytensor.FORMS.keys() == {"project"}
    assert {"dot", "max", "plus", "scale", "nnmf", "gmm", "blocks"} <= derivatives_pytensor.FORMS.keys()
    assert set(derivatives_tapenade.FORMS) == {"gmm", "project", "blocks"}
    assert {"pytensor", "tapenade"} <= set(SYSTEMS)


@pytest.mark.parametrize("name", ["dot", "max", "scale"])
def test_f19_pytensor_has_the_same_values(name: str) -> None:
    pytest.importorskip("pytensor", reason="PyTensor is a peer, not a dependency")
    (case,) = (c for c in CASES if c.name == name)
    expected = derivatives_pullback.prepare(case, 1000, "function")()
    np.testing.assert_allclose(derivatives_pytensor.prepare(case, 1000, "grad")(), expected, rtol=1e-12)


def test_f19_the_table_of_results_has_both() -> None:
    text = RESULTS.read_text(encoding="utf-8")
    (head,) = {line for line in text.splitlines() if "pytensor µs" in line}
    columns = [c.strip() for c in head.strip("|").split("|")]
    assert tuple(columns) == HEAD
    lines = [line.strip("| ").split(" | ") for line in text.partition(head)[2].splitlines()[2:] if line.startswith("|")]
    measured = {system: {line[0].rpartition("-")[0] for line in lines if line[columns.index(f"{system} µs")] != "–"}
                for system in ("pytensor", "tapenade")}  # fmt: skip
    assert {"dot", "max", "plus", "scale", "nnmf", "gmm", "blocks"} <= measured["pytensor"]
    assert {"gmm", "blocks"} <= measured["tapenade"]
