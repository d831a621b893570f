"""Formula styles: plain text and LaTeX."""

from __future__ import annotations

import re

PRIME = "′"
# Precedences, low to high.
CHOICE, COMPARE, SUM, REDUCTION, PRODUCT, UNARY, POWER, ATOM = range(8)


class Style:
    """The plain-text style of formulas."""

    times = " · "
    dot = " · "
    pointwise = ".*"
    sums = {"sum": "∑", "prod": "∏"}
    comparisons = {">=": "≥", "==": "=", "!=": "≠"}
    functions = {"logistic": "σ"}

    def name(self, text: str) -> str:
        """The text of a name of an array or index."""
        return text

    def subscript(self, name: str, below: str) -> str:
        """The text of a name with a subscript."""
        return f"{name}_{below}"

    def cotangent(self, name: str) -> str:
        """The notation of the cotangent of this array."""
        return self.subscript("z", name)

    def tangent(self, name: str) -> str:
        """The notation of the tangent of this array."""
        return f"d{name}"

    def words(self, text: str) -> str:
        """The text of words inside a formula."""
        return text

    def dim(self, text: str) -> str:
        """The text of a dim."""
        return text

    def number(self, value: bool | float) -> str:
        """The text of a number."""
        return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)

    def element(self, name: str, indices: str) -> str:
        """The text of an element, `name[indices]`."""
        return f"{name}[{indices}]" if indices else name

    def function(self, name: str, args: str) -> str:
        """The text of a function application."""
        return f"{self.functions.get(name, name)}({args})"

    def quotient(self, a: str, b: str) -> tuple[str, int]:
        """The text of `a / b`, and its precedence."""
        return f"{a} / {b}", PRODUCT

    def power(self, base: str, exponent: str, plain: bool) -> str:
        """The text of a power; `plain` if the exponent needs no parentheses."""
        return f"{base}^{exponent}" if plain else f"{base}^({exponent})"

    def reduction(self, op: str, variables: str, body: str) -> str:
        """The text of a reduction over variables."""
        return f"{self.sums.get(op, op)}({variables}) {body}"

    def delta(self, a: str, b: str) -> str:
        """The notation of a Kronecker delta."""
        return f"δ({a}, {b})"

    def iverson(self, conditions: str) -> str:
        """The notation of an Iverson bracket, which is 1 where the conditions hold, else 0."""
        return f"[{conditions}]"

    def choice(self, test: str, then: str, otherwise: str) -> str:
        """The text of a choice, `then if test else otherwise`."""
        return f"{then} if {test} else {otherwise}"

    def derivative(self, of: str, by: str) -> str:
        """The notation of the derivative of one element with respect to another."""
        return f"∂{of}/∂{by}"

    def arrow(self, indices: str, body: str) -> str:
        """The notation of the tensor of all values of `body` over these indices."""
        return f"({indices}) ⇒ {body}"

    def cast(self, shape: str, body: str) -> str:
        """The notation of a reshaped tensor."""
        return f"({shape}) {body}"

    def tensor_sum(self, axes: str, body: str) -> str:
        """The notation of the sum of a tensor, over its last `axes` axes if given, else over all."""
        return f"∑_{axes} {body}" if axes else f"∑ {body}"

    def contract(self, axes: str) -> str:
        """The operator that contracts the last axes of both sides."""
        return f"×_{axes}"

    def floor(self, a: str, b: str) -> str:
        """The text of a quotient rounded down."""
        return f"⌊{a} / {b}⌋"

    def parentheses(self, text: str) -> str:
        """The text in parentheses."""
        return f"({text})"


class Latex(Style):
    """The LaTeX style of formulas."""

    times = r"\, "
    dot = r" \cdot "
    pointwise = r"\mathbin{.*}"
    sums = {"sum": r"\sum", "prod": r"\prod", "max": r"\max", "min": r"\min"}
    comparisons = {">=": r"\ge", "==": "=", "!=": r"\ne"}
    functions = {
        "logistic": r"\sigma",
        "exp": r"\exp",
        "log": r"\log",
        "sin": r"\sin",
        "cos": r"\cos",
        "tan": r"\tan",
        "sinh": r"\sinh",
        "cosh": r"\cosh",
        "tanh": r"\tanh",
        "sqrt": r"\sqrt",
    }

    def name(self, text: str) -> str:  # noqa: D102
        stem = text.rstrip(PRIME)
        primes = "'" * (len(text) - len(stem))
        head, *tail = re.sub(r"(?<=[a-zA-Z])(?=\d+$)", "_", stem).strip("_").split("_")
        set_ = [part if len(part) == 1 or part.isdigit() else rf"\mathit{{{part}}}" for part in (head, *tail) if part]
        return set_[0] + (f"_{{{','.join(set_[1:])}}}" if len(set_) > 1 else "") + primes if set_ else r"\_"

    def subscript(self, name: str, below: str) -> str:  # noqa: D102
        return f"{name}_{{{below}}}"

    def words(self, text: str) -> str:  # noqa: D102
        return rf"\text{{{text}}}"

    def tangent(self, name: str) -> str:  # noqa: D102
        return rf"\dot{{{name}}}"

    def dim(self, text: str) -> str:  # noqa: D102
        return self.name(text)

    def function(self, name: str, args: str) -> str:  # noqa: D102
        if name == "sqrt":
            return rf"\sqrt{{{args}}}"
        operator = self.functions.get(name) or r"\operatorname{" + name.replace("_", " ") + "}"
        return f"{operator}({args})"

    def quotient(self, a: str, b: str) -> tuple[str, int]:  # noqa: D102
        return rf"\frac{{{a}}}{{{b}}}", UNARY

    def power(self, base: str, exponent: str, plain: bool) -> str:  # noqa: D102
        return f"{base}^{{{exponent}}}"

    def reduction(self, op: str, variables: str, body: str) -> str:  # noqa: D102
        operator = self.sums.get(op) or r"\operatorname{" + op + "}"
        return f"{operator}_{{{variables}}} {body}"

    def delta(self, a: str, b: str) -> str:  # noqa: D102
        return rf"\delta_{{{a},\,{b}}}"

    def choice(self, test: str, then: str, otherwise: str) -> str:  # noqa: D102
        return rf"\begin{{cases}} {then} & {test} \\ {otherwise} & \text{{else}} \end{{cases}}"

    def derivative(self, of: str, by: str) -> str:  # noqa: D102
        return rf"\frac{{\partial {of}}}{{\partial {by}}}"

    def floor(self, a: str, b: str) -> str:  # noqa: D102
        return rf"\left\lfloor {a} / {b} \right\rfloor"


    def arrow(self, indices: str, body: str) -> str:  # noqa: D102
        return rf"({indices}) \Rightarrow {body}"

    def cast(self, shape: str, body: str) -> str:  # noqa: D102
        return rf"({shape})\, {body}"

    def tensor_sum(self, axes: str, body: str) -> str:  # noqa: D102
        return rf"\sum_{{{axes}}} {body}" if axes else rf"\sum {body}"

    def contract(self, axes: str) -> str:  # noqa: D102
        return rf"\times_{{{axes}}}"


TEXT, LATEX = Style(), Latex()
