"""The page about the papers: a row for each of their sections, tests and functions that exist."""

from __future__ import annotations

import re

import pytest

import pullback as pb
from pullback import data, lazy, linalg, nn, operators
from tests.papers.test_claims import CLAIMS, TESTS, functions

PAGE = (TESTS.parent / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
SECTIONS = {
    "Convolutional neural networks in APL": """
        1 Introduction | 2 Background | 2.1 CNN | 2.2 APL | 3 CNN Building Blocks | 3.1 Gradient Descent | 4 Performance
        | 5 Related Work | 6 Conclusions & Future Work""",
    "DeepLearning.scala": """
        1 Background and Introduction | 2 Basic Concepts | 3 Dynamic Neural Networks | 3.1 Eager Execution
        | 3.2 Monadic Control Flow | 3.3 Parallel Applicative Control Flow + Sequential Monadic Control Flow
        | 3.4 Direct style DSL | 4 Ad Hoc Polymorphic Differentiable Functions | 5 Implementation
        | 5.1 Ordinary Dual Number | 5.2 Monadic Closure-based Dual Number | 5.3 Generic Tape
        | 5.4 Reference Counted Tape | 5.5 The Overview of a Training Iteration | 6 Evaluation | 7 Future Works
        | 7.1 New Back-end | 7.2 Distributed Model | 8 Discussion | 8.1 Interoperable Differentiable Computational Graph
        | 8.2 AD in a Functional Library | 8.3 Portability | 8.4 Related works | 9 Conclusion""",
    "DeepDSL": """
        1 Introduction | 2 Overview | 2.1 Lenet | 2.2 Tensor | 2.3 Tensor Function | 2.4 Fixed Tensor
        | 2.5 Function Application and Composition | 2.6 Network as Function Composition | 2.7 Training
        | 3 Formalization | 3.1 Syntax | 3.2 Semantics | 3.3 Typing Rules | 3.4 Examples | 4 Gradient derivation
        | 5 High-level Optimization | 5.1 Examples | 6 Low-level Optimization | 7 Code Scheduling
        | 8 Code Generation and Runtime | 9 Performance | 10 Related work | 10.1 DL frameworks
        | 10.2 Automatic differentiation | 10.3 DeepDSL as a deeply embedded DSL
        | 10.4 DSL on scientific computing with tensors | 11 Conclusion""",
    "dF̃": """
        1 Introduction | 1.1 The problem we address | 1.2 Our contributions | 2 Overview | 2.1 F̃ | 2.2 M̃
        | 3 Differentiation | 3.1 High-Level API | 3.2 Source-to-Source Automatic Differentiation
        | 3.3 Perturbation Confusion and Nested Differentiation | 4 Efficient Differentiation | 4.1 Transformation Rules
        | 4.2 Code Generation | 5 Experimental Results | 6 Related Work | 7 Outlook and Conclusions""",
    "Backpropagation through back substitution with a backslash": """
        1 Preface: Summary and the Challenge | 2 Introduction | 3 A Matrix Method for Weighted Paths
        | 3.1 "Forward and Back" through Graphs and Linear Algebra | 3.1.1 Path Weights on Directed Graphs
        | 3.1.2 Generalizing "Forward and Back" to a Catalan number of possibilities | 3.1.3 Edge Elimination
        | 3.1.4 Edge addition at the Sink Node | 3.2 Examples of DAGs and Weighted Paths
        | 3.2.1 The "Complete DAG" and Weighted Paths | 3.2.2 The "multi-layer perceptron DAG" and Weighted Paths
        | 3.3 Computational Graphs, Derivative Graphs, and their superposition
        | 3.3.1 The chain rule, derivatives, and Jacobians | 4 Linear Operators as elements of Matrices
        | 5 Operator Methodology | 5.1 Matrices of scalars | 5.2 Matrices of vectors | 5.3 Matrices of operators
        | 5.4 The Power of Notation | 5.5 Relationship to the Adjoint Method | 6 Julia, the power of language
        | 6.1 The challenge | 6.2 Modern Computer Science meets Linear Algebra""",
}
MODULES = {"pb": pb, "lazy": lazy, "nn": nn, "operators": operators, "linalg": linalg, "data": data}


def parts() -> dict[str, str]:
    """The text of each paper's part, by its heading."""
    found = re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_paper_has_a_part() -> None:
    assert list(parts()) == list(SECTIONS)


@pytest.mark.parametrize("paper", SECTIONS)
def test_every_section_has_a_row(paper: str) -> None:
    titles = [" ".join(title.split()) for title in re.split(r"\s\|\s", SECTIONS[paper])]
    assert [row[0] for row in rows(parts()[paper])] == titles


def test_tests_exist() -> None:
    known = {name for path in TESTS.rglob("test_*.py") for name in functions(path)}
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 100
    assert named - known == set()


def test_functions_and_files_exist() -> None:
    """Every name of the package in the text, as `pb.grad` or `nn.models.lenet`, and every path."""
    names = re.findall(rf"`(?:pb|{'|'.join(MODULES)})\.[\w.]+(?=[(`])", PAGE)
    assert len(names) > 60
    for name in names:
        module, *attributes = name.strip("`").split(".")
        found = MODULES[module]
        for attribute in attributes:
            found = getattr(found, attribute)
    for name in re.findall(r"`((?:pullback|benchmarks|examples|tests)/[\w./]+)`", PAGE):
        assert (TESTS.parent / name).exists(), name


def test_open_claims_are_told() -> None:
    """Each omission that stands under [open] is named among the differences, unless it is about devices alone."""
    still = {claim for claim in CLAIMS["open"] if claim.startswith("F")} - {"F08"}
    assert set(re.findall(r"\((F\d\d)\)", PAGE)) == still
