"""The rules of Zhao and Huang, "DeepDSL": Fig. 7, rules 1 to 38 and those without a number.

Here s is a scalar, t a tensor, g the gradient of a tensor, I and J lists of indices, i one index, y the variable of the
derivative.
"""

from __future__ import annotations

from typing import Final

from pullback.rewrite.rules.rule import Rule

EDGES = "ad/edges.py"
SWEEP = "ad/reverse.py"
BRACKETS = "rewrite/brackets.py"
BUILDERS = "ir/expr.py"
READING = "derivation/vectorize.py, as a reading of the result: loops are made from the indexed form"
REDUCTIONS = tuple(f"normal_form.{op}" for op in ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all"))
RANGE = "f⁻¹(i′) must be in the range of i, and f must take the value i′: both stay as a bracket"


# Citations for rules that the paper does not number.
NUMBERS: Final = {
    "ssa.variable": "Fig. 7 (1)", "ssa.tensor_function": "Fig. 7 (2)", "ssa.scalar_function": "Fig. 7 (3)",
    "ssa.builtin": "Fig. 7 (4)", "ssa.sum": "Fig. 7 (5)", "ssa.scaled": "Fig. 7 (6)", "z": "zⱼ", "trivial": "0 and 1",
    "index.difference": "i₁ − i₂", "index.shift": "i + n",
}


def _rule(number: int | str, name: str, text: str, latex: str, where: str, *fires: str, condition: str = "",
          exact: bool = True, applied: bool = True) -> Rule:
    cited = NUMBERS.get(str(number), str(number))
    return Rule(f"deepdsl.{number}", "002", cited, name, text, latex, where, fires, condition, exact, applied)


STATIC_SINGLE_ASSIGNMENT: Final = (
    _rule("ssa.variable", "a variable stays", "x ↝ x", r"x \rightsquigarrow x",
          "rewrite/normal_form.py: an element of an array is an operand already"),
    _rule("ssa.tensor_function", "a tensor function is inlined", "(x ⇒ t₁)(t) ↝ y ← t; t₁[y/x]",
          r"(x \Rightarrow t_1)(t) \rightsquigarrow y \leftarrow \hat t;\ t_1[y/x]",
          "calls/inline.py: a traced function called in another one puts its statements there"),
    _rule("ssa.scalar_function", "a scalar function is inlined", "(x ⇒ s)(t) ↝ y ← t; s[y/x]",
          r"(x \Rightarrow s)(t) \rightsquigarrow y \leftarrow \hat t;\ s[y/x]",
          "calls/inline.py: the same; a scalar is an array of rank 0"),
    _rule("ssa.builtin", "the operand of a builtin gets a name", "F(t) ↝ y ← t; F(y)",
          r"\mathcal F(t) \rightsquigarrow y \leftarrow \hat t;\ \mathcal F(y)",
          "rewrite/normal_form.py: the operand of exp, log, tanh, … is a statement, and so is the function",
          "normal_form.*"),
    _rule("ssa.sum", "the terms of a tensor sum get names", "t₁ + t₂ ↝ y₁ ← t₁; y₂ ← t₂; y₁ + y₂",
          r"t_1 + t_2 \rightsquigarrow y_1 \leftarrow \hat t_1;\ y_2 \leftarrow \hat t_2;\ y_1 + y_2",
          "rewrite/normal_form.py: a term that holds a reduction is a statement; others need no array of their own",
          *REDUCTIONS),
    _rule("ssa.scaled", "the tensor of a scalar product gets a name", "s · t ↝ y ← t; s · y",
          r"s \cdot t \rightsquigarrow y \leftarrow \hat t;\ s \cdot y",
          "rewrite/normal_form.py: as for sums", *REDUCTIONS),
)

DERIVATIVES: Final = (
    _rule(1, "chain rule", "∂f(t)/∂y = f′(t) · ∂t/∂y + (∂f/∂y)(t)",
          r"\frac{\partial f(t)}{\partial y} = f'(t) \cdot \frac{\partial t}{\partial y} + "
          r"\frac{\partial f}{\partial y}(t)",
          f"{SWEEP}: each statement passes its cotangent on to what it reads", "reverse.chain", "forward.chain"),
    _rule("z", "reverse accumulation", "z_j = ∑ᵢ z_i · ∂t_i/∂y_j; ∂s/∂w = ∑ᵢ z_i · ∂t_i/∂w",
          r"z_j = \sum_i z_i \cdot \frac{\partial \hat t_i}{\partial y_j},\quad"
          r"\frac{\partial s}{\partial w} = \sum_i z_i \cdot \frac{\partial \hat t_i}{\partial w}",
          f"{SWEEP}: the parts of a cotangent are added when the statement of its array is reached",
          "reverse.accumulate"),
    _rule(2, "sum of tensors", "∂(t₁ + t₂)/∂y = ∂t₁/∂y + ∂t₂/∂y",
          r"\frac{\partial (t_1 + t_2)}{\partial y} = "
          r"\frac{\partial t_1}{\partial y} + \frac{\partial t_2}{\partial y}",
          f"{EDGES}: tensors are added element by element, by 10"),
    _rule(3, "scalar times tensor", "∂(s · t)/∂y = s · ∂t/∂y",
          r"\frac{\partial (s \cdot t)}{\partial y} = s \cdot \frac{\partial t}{\partial y}",
          f"{EDGES}: as a product whose other factor is constant, by 11 and 13",
          condition="s must not depend on y; with 11 it may"),
    _rule(4, "cast", "∂((D) x)/∂y = (D′) ∂x/∂y, D′ = T(x)",
          r"\frac{\partial (D)\,x}{\partial y} = (D')\,\frac{\partial x}{\partial y},\quad D' = \mathcal T(x)",
          f"{EDGES}: a reshape reads x at quotients and remainders of the flat index; solving them casts back",
          "solve.mixed_radix", "solve.join", "solve.split", "vectorize.cast"),
    _rule(5, "a tensor by its elements", "∂x/∂y = ∂(I ⇒ x(I))/∂y",
          r"\frac{\partial x}{\partial y} = \frac{\partial (I \Rightarrow x(I))}{\partial y}",
          "tracing/tracer.py: every array expression is written element by element", "derivative.copy"),
    _rule(6, "under a tensor's indices", "∂(I ⇒ s)/∂y = I ⇒ ∂s/∂y",
          r"\frac{\partial (I \Rightarrow s)}{\partial y} = I \Rightarrow \frac{\partial s}{\partial y}",
          f"{EDGES}: an edge carries the variables of its statement", "derivative.build"),
    _rule(7, "by the elements of y", "∂s/∂y = J ⇒ ∂s/∂y(J)",
          r"\frac{\partial s}{\partial y} = J \Rightarrow \frac{\partial s}{\partial y(J)}",
          f"{SWEEP}: the operand's cotangent has index variables of its own", "derivative.build"),
    _rule(8, "logarithm", "∂log(s)/∂y(J) = s⁻¹ × ∂s/∂y(J)",
          r"\frac{\partial \log(s)}{\partial y(J)} = s^{-1} \times \frac{\partial s}{\partial y(J)}",
          "ir/primitives/transcendental.py: the row of log", "derivative.log"),
    _rule(9, "exponential", "∂exp(s)/∂y(J) = exp(s) × ∂s/∂y(J)",
          r"\frac{\partial \exp(s)}{\partial y(J)} = \exp(s) \times \frac{\partial s}{\partial y(J)}",
          "ir/primitives/transcendental.py: the row of exp; the factor is the result itself", "derivative.exp"),
    _rule(10, "sum", "∂(s₁ + s₂)/∂y(J) = ∂s₁/∂y(J) + ∂s₂/∂y(J)",
          r"\frac{\partial (s_1 + s_2)}{\partial y(J)} = "
          r"\frac{\partial s_1}{\partial y(J)} + \frac{\partial s_2}{\partial y(J)}",
          EDGES, "derivative.add"),
    _rule(11, "product", "∂(s₁ × s₂)/∂y(J) = s₂ × ∂s₁/∂y(J) + s₁ × ∂s₂/∂y(J)",
          r"\frac{\partial (s_1 \times s_2)}{\partial y(J)} = "
          r"s_2 \times \frac{\partial s_1}{\partial y(J)} + s_1 \times \frac{\partial s_2}{\partial y(J)}",
          EDGES, "derivative.multiply", "derivative.negative"),
    _rule(12, "power", "∂sⁿ/∂y(J) = (n × sⁿ⁻¹) × ∂s/∂y(J)",
          r"\frac{\partial s^n}{\partial y(J)} = (n \times s^{n-1}) \times \frac{\partial s}{\partial y(J)}",
          "ir/primitives/elementwise.py: the row of power, with a variable exponent too", "derivative.power",
          condition="for n = 0 it is 0 even if s = 0; for n = 1, 2, 3 pow is not called"),
    _rule(13, "constant", "∂n/∂y(J) = 0", r"\frac{\partial n}{\partial y(J)} = 0",
          f"{EDGES}: an expression that does not read y has no edge", "derivative.constant"),
    _rule(14, "sum over indices", "∂∑_I(s)/∂y(J) = ∑_I ∂s/∂y(J)",
          r"\frac{\partial \sum_I s}{\partial y(J)} = \sum_I \frac{\partial s}{\partial y(J)}",
          f"{EDGES}: the summed variables join those of the edge", "derivative.sum"),
    _rule(15, "element", "∂x(I)/∂y(J) = 0 if x ≠ y, else match(I, J) = ∏ₖ δ(iₖ, jₖ)",
          r"\frac{\partial x(I)}{\partial y(J)} = "
          r"\begin{cases} 0 & x \neq y \\ \prod_k \delta_{i_k j_k} & x = y \end{cases}",
          f"{EDGES}: an edge's source", "derivative.element"),
)

PRODUCTS: Final = (
    _rule(16, "cotangent times gradient", "x · (I ⇒ J ⇒ s) = J ⇒ ∑_I x(I) × s",
          r"x \cdot (I \Rightarrow J \Rightarrow s) = J \Rightarrow \sum_I x(I) \times s",
          f"{SWEEP}: an edge, transposed", "reverse.transpose"),
    _rule(17, "of a sum", "x · (g₁ + g₂) = x · g₁ + x · g₂", r"x \cdot (g_1 + g_2) = x \cdot g_1 + x \cdot g_2",
          f"{SWEEP}: each edge gives a part, and the parts are added", "reverse.add"),
    _rule(18, "of a multiple", "x · (s · g) = s · (x · g)", r"x \cdot (s \cdot g) = s \cdot (x \cdot g)",
          f"{SWEEP}: the factor is in the edge's weight, and stays inside the sum, by 16"),
    _rule(19, "of a cast", "x · (D) g = (D) (x · g)", r"x \cdot (D)\,g = (D)\,(x \cdot g)",
          f"{BRACKETS}: quotients, remainders and digits", "solve.mixed_radix", "solve.join", "solve.quotient",
          "solve.remainder", "solve.split"),
    _rule(20, "a sum of sums", "∑_I (s + s′) = ∑_I s + ∑_I s′", r"\sum_I (s + s') = \sum_I s + \sum_I s'",
          "rewrite/kronecker.py: where a term holds a delta", "kronecker.distribute", exact=False,
          condition="the order of additions changes: applied only if each sum then disappears"),
    _rule(21, "a factor leaves the sum", "∑ᵢ s × s′ = s × ∑ᵢ s′, i not in s",
          r"\sum_i s \times s' = s \times \sum_i s'",
          f"{BRACKETS}: not needed to reach a delta, because solving replaces the index in the whole summand; "
          "sums keep their factors, because rounding would change", exact=False, applied=False),
    _rule(22, "a sum over a delta", "∑ᵢ δ(f(i), i′) × s = s[f⁻¹(i′)/i]",
          r"\sum_i \delta_{f(i)\,i'} \times s = s[f^{-1}(i')/i]", BRACKETS,
          "solve.unit", "solve.mixed_radix", "solve.divided", "solve.common_factor", "solve.join", "solve.quotient",
          "solve.remainder", "solve.split", "kronecker.sum",
          condition=RANGE),
    _rule(23, "a sum over a delta alone", "∑ᵢ δ(f(i), i′) = 1", r"\sum_i \delta_{f(i)\,i'} = 1",
          f"{BRACKETS}: 22 with s = 1", "solve.alone", condition=RANGE),
    _rule(24, "distributivity", "s × (s₁ + s₂) = s × s₁ + s × s₂",
          r"s \times (s_1 + s_2) = s \times s_1 + s \times s_2",
          "rewrite/kronecker.py: where the sum is one of deltas", "kronecker.multiply_out", exact=False,
          condition="rounding differs: applied only to terms that are zero unless their indices agree"),
    _rule(25, "scalars merge", "s · (s′ · t) = (s × s′) · t", r"s \cdot (s' \cdot t) = (s \times s') \cdot t",
          f"{BUILDERS}: nested products become one product; numbers are multiplied if that is exact",
          condition="floating-point numbers merge only if one of them is a sign or a power of two"),
    _rule("trivial", "zeros and ones",
          "1 · t = t, 0 · t = 0, 1 × s = s, 0 × s = 0, 0 + s = s, s · 0 = 0, 0 + t = t",
          r"1 \times s = s,\quad 0 \times s = 0,\quad 0 + s = s",
          f"{BUILDERS}: mul drops ones, add drops zeros, a zero absorbs a product", "trivial.one", "trivial.zero",
          condition="the zero is structural, from derivatives or brackets; a 0.0 written by the user stays, because "
          "0.0 × s is not 0 if s is not finite"),
    _rule("index.difference", "type of a difference of indices", "i₁ : d₁, i₂ : d₂ ⊢ i₁ − i₂ : d₁ − d₂ + 1",
          r"\frac{\Gamma \vdash i_1 : d_1 \quad \Gamma \vdash i_2 : d_2}{\Gamma \vdash i_1 - i_2 : d_1 - d_2 + 1}",
          "ir/index/: ranges are proven, not typed",
          condition="i₁ − i₂ is negative for some values: the bracket 0 ≤ i₁ − i₂ < d₁ − d₂ + 1 stays"),
    _rule("index.shift", "type of a shifted index", "i : d ⊢ i + n : d + 2n",
          r"\frac{\Gamma \vdash i : d}{\Gamma \vdash i + n : d + 2n}", "ir/index/: ranges are proven, not typed"),
)

VECTORIZATION: Final = (
    _rule(26, "power of a tensor", "I ⇒ sⁿ = (I ⇒ s)ⁿ", r"I \Rightarrow s^n = (I \Rightarrow s)^n", READING,
          "vectorize.power"),
    _rule(27, "exponential of a tensor", "I ⇒ exp(s) = exp(I ⇒ s)",
          r"I \Rightarrow \exp(s) = \exp(I \Rightarrow s)", READING, "vectorize.exp"),
    _rule(28, "logarithm of a tensor", "I ⇒ log(s) = log(I ⇒ s)",
          r"I \Rightarrow \log(s) = \log(I \Rightarrow s)", READING, "vectorize.log"),
    _rule(29, "a scalar factor", "I ⇒ s₁ × s₂ = s₁ · (I ⇒ s₂), no index of I in s₁",
          r"I \Rightarrow s_1 \times s_2 = s_1 \cdot (I \Rightarrow s_2)", READING, "vectorize.scalar_factor"),
    _rule(30, "pointwise product", "I ⇒ s₁ × s₂ = (I ⇒ s₁) .* (I ⇒ s₂)",
          r"I \Rightarrow s_1 \times s_2 = (I \Rightarrow s_1) \mathbin{.*} (I \Rightarrow s_2)", READING,
          "vectorize.pointwise"),
    _rule(31, "sum of tensors", "I ⇒ s₁ + s₂ = (I ⇒ s₁) + (I ⇒ s₂)",
          r"I \Rightarrow s_1 + s_2 = (I \Rightarrow s_1) + (I \Rightarrow s_2)", READING, "vectorize.add"),
    _rule(32, "a tensor itself", "I ⇒ x(I) = x, T(x) = D(I)", r"I \Rightarrow x(I) = x", READING,
          "vectorize.identity"),
    _rule(33, "a factor leaves the sum over I", "∑_I s₁ × s₂ = s₁ × ∑_I s₂, no index of I in s₁",
          r"\sum_I s_1 \times s_2 = s_1 \times \sum_I s_2", READING, "vectorize.sum_factor", exact=False),
    _rule(34, "inner product", "∑_I s₁ × s₂ = (I ⇒ s₁) · (I ⇒ s₂)",
          r"\sum_I s_1 \times s_2 = (I \Rightarrow s_1) \cdot (I \Rightarrow s_2)", READING, "vectorize.inner"),
    _rule(35, "sum of a tensor", "∑_I s = ∑ (I ⇒ s)", r"\sum_I s = \sum (I \Rightarrow s)", READING,
          "vectorize.sum"),
    _rule(36, "partial sum", "I ⇒ ∑ J ⇒ s = ∑_|J| (I·J) ⇒ s",
          r"I \Rightarrow \sum J \Rightarrow s = \sum_{|J|} (I \cdot J) \Rightarrow s", READING,
          "vectorize.partial_sum"),
    _rule(37, "contraction", "I₁·I₂ ⇒ (J ⇒ s₁) · (J ⇒ s₂) = ((I₁·J) ⇒ s₁) ×_|J| ((I₂·J) ⇒ s₂), "
          "no index of I₁ in s₂ nor of I₂ in s₁",
          r"I_1 \cdot I_2 \Rightarrow (J \Rightarrow s_1) \cdot (J \Rightarrow s_2) = "
          r"((I_1 \cdot J) \Rightarrow s_1) \times_{|J|} ((I_2 \cdot J) \Rightarrow s_2)", READING,
          "vectorize.contraction"),
    _rule(38, "indices not used", "I ⇒ s = I ⇒ (J ⇒ s)(J), J the indices of I in s",
          r"I \Rightarrow s = I \Rightarrow (J \Rightarrow s)(J)",
          "rewrite/normal_form.py: a lifted part is an array over the indices it uses; " + READING,
          "vectorize.unused"),
)

DEEPDSL: Final = (*STATIC_SINGLE_ASSIGNMENT, *DERIVATIVES, *PRODUCTS, *VECTORIZATION)
