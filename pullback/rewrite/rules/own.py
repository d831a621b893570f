"""Pullback's own rules: for exactness, to keep zeros out of arrays, or to move less data."""

from __future__ import annotations

from typing import Final

from pullback.rewrite.rules.rule import Rule


def _rule(id_: str, name: str, text: str, where: str, *fires: str, latex: str = "", condition: str = "",
          exact: bool = True) -> Rule:
    return Rule(id_, "Pullback", "", name, text, latex or rf"\text{{{text}}}", where, fires or (id_,), condition, exact)


EDGES = "ad/edges.py"
BRACKETS = "rewrite/brackets.py"
KRONECKER = "rewrite/kronecker.py"

OWN: Final = (
    _rule("derivative", "any other primitive", "∂f(s₁, …)/∂y = ∑ₖ ∂ₖf(s₁, …) × ∂sₖ/∂y",
          "ir/primitives/: the partial derivatives of the primitive's row", "derivative.*",
          latex=r"\frac{\partial f(s_1, \dots)}{\partial y} = \sum_k \partial_k f(s_1, \dots) \times "
          r"\frac{\partial s_k}{\partial y}"),
    _rule("derivative.cast", "conversion", "∂ f64(s)/∂y = f64(∂s/∂y)", EDGES),
    _rule("derivative.extremum", "maximum and minimum", "∂ max_i s(i)/∂y = ∑ᵢ δ(i, argmax s) × ∂s(i)/∂y",
          f"{EDGES}: the position is a statement; the first of equal values receives the derivative",
          "derivative.max", "derivative.min",
          latex=r"\frac{\partial \max_i s(i)}{\partial y} = \sum_i \delta_{i\,\arg\max s} \times "
          r"\frac{\partial s(i)}{\partial y}"),
    _rule("derivative.prod", "product over indices", "∂ ∏ᵢ s(i)/∂y = ∑ᵢ (∏_{j ≠ i} s(j)) × ∂s(i)/∂y",
          f"{EDGES}: exact where factors are zero",
          latex=r"\frac{\partial \prod_i s(i)}{\partial y} = \sum_i \Big(\prod_{j \ne i} s(j)\Big) \times "
          r"\frac{\partial s(i)}{\partial y}"),
    _rule("derivative.scatter", "scatter", "x[f(i)] += s(i): ∂x(m)/∂y = ∑ᵢ δ(f(i), m) × ∂s(i)/∂y", EDGES),
    _rule("reverse.scatter", "an index that cannot be solved for",
          "z(m) = ∑ᵢ δ(data(i), m) × s(i) is written as z[data(i)] += s(i)", "ad/reverse.py"),
    _rule("solve.mixed_radix", "an index written in two digits",
          "∑_{v, r} δ(c v + r, m) × s = s[m // c / v, m mod c / r], 0 ≤ r < c", BRACKETS,
          latex=r"\sum_{v,r} \delta_{c v + r,\,m} \times s = s[\lfloor m/c \rfloor / v,\ (m \bmod c) / r]"),
    _rule("solve.common_factor", "a common factor of an equation", "[g e = m] = [g divides m] [e = m / g]", BRACKETS),
    _rule("solve.divided", "one multiple of an index", "∑_v δ(c v, m) × s = [c divides m] s[m / c / v]", BRACKETS),
    _rule("solve.join", "digits of one number",
          "δ(n mod c, s) × δ(n // (c k), t) = [0 ≤ s < c] ∑_{x < k} δ(n, c k t + c x + s); so for n mod c k d",
          BRACKETS),
    _rule("solve.quotient", "a quotient", "δ(n // d, t) = ∑_{r < d} δ(n, d t + r)", BRACKETS),
    _rule("solve.remainder", "a remainder",
          "∑_{v < e} δ((c v + k) mod d, t) × s = [0 ≤ t < d] ∑_{v, u < ⌈c e / d⌉} δ(c v, (t - k) mod d + d u) × s",
          BRACKETS),
    _rule("solve.split", "quotient and remainder", "n // d and n mod d become q and r with n = d q + r, 0 ≤ r < d",
          BRACKETS),
    _rule("loops.reduction", "a loop that only adds up", "ifold (fun a i → a + s(i)) z n = z + ∑ᵢ s(i)",
          "rewrite/reductions.py: also products, maxima and minima, any and all; one state of several is handled alone",
          condition="s reads no state; under exact() loops stay", exact=False),
    _rule("kronecker.inline", "a delta is read where it is used", "e = I ⇒ δ(i, j) × s; … e(I) … = … δ(i, j) × s …",
          KRONECKER, condition="s has few operations; otherwise it becomes an array"),
    _rule("kronecker.compress", "the factor of a delta", "δ(i, j) × s = δ(i, j) × t(i), t = i ⇒ s[i/j]", KRONECKER),
    _rule("kronecker.merge", "equal deltas", "δ s + δ s′ = δ (s + s′)", KRONECKER),
    _rule("copies.inline", "a copy is read at its source", "y = I ⇒ x(f(I)); … y(J) … = … x(f(J)) …",
          "rewrite/copies.py"),
    _rule("copies.absorb", "an array that is only copied", "x = I ⇒ s; y = J ⇒ x(I), J a permutation of I: y = J ⇒ s",
          "rewrite/copies.py"),
    _rule("cse", "equal statements", "y₁ = I ⇒ s; y₂ = J ⇒ s[J/I]: y₂ = y₁", "rewrite/cse.py"),
    _rule("trim", "elements that nothing reads", "y = i ⇒ s(i); z = j ⇒ … y(j + a) … = "
          "y = i ⇒ s(i + a); z = j ⇒ … y(j) …",
          "rewrite/trim.py", condition="all reads of an axis are at one variable and one constant"),
    _rule("dead", "unused statements", "a statement that no result needs is dropped", "rewrite/cse.py"),
    _rule("call.inline", "calls", "once derivatives are taken, a call with custom rules is replaced by its statements",
          "rewrite/calls.py"),
    _rule("alternatives.form", "two forms of a part", "one of two blocks with the same results stays",
          "passes/alternatives.py"),
    _rule("algebra.stop_gradient", "constants for derivatives", "stop_gradient(x) = x, when derivatives are taken",
          "rewrite/algebra.py"),
    _rule("call.again", "recursive rules", "inside the rule of a call, a call of the same name takes the same rules, "
          "over its own operands", "ad/calls.py"),
    _rule("fuse", "fusion", "y = I ⇒ s; … y(J) … = … s[J/I] …", "passes/fuse.py: where it pays", "fuse.*",
          condition="elements are evaluated no more often than before, or they are cheap"),
    _rule("sums.scatter", "sums by an index table", "z(j) = ∑ᵢ δ(j, data(i)) × s(i): z[data(i)] += s(i)",
          "passes/sums.py"),
    _rule("sums.band", "sums with few terms as scatters", "z(i) = ∑ᵥ [c] s(i − f(v), v): z[w + f(v)] += s(w, v)",
          "passes/sums.py", condition="there are at most a quarter as many w as i"),
    _rule("lookups.rows", "products of looked-up rows", "e = i, k ⇒ t(data(i), k); y = i, j ⇒ ∑ₖ w(j, k) × e(i, k): "
          "y = i, j ⇒ p(data(i), j), p = r, j ⇒ ∑ₖ w(j, k) × t(r, k)", "passes/lookups.py",
          condition="there are at least twice as many i as r"),
    _rule("sums.split", "a split sum", "∑_{i, j} s(j) × t(i, j) = ∑ⱼ s(j) × t′(j), t′ = J ⇒ ∑ᵢ t(i, j)",
          "passes/sums.py; off under exact()", exact=False, condition="it leaves at most half of the work"),
    _rule("recompute.rows", "recomputed stacked rows", "T rows that a backward loop reads become B states and "
          "C rows at a time, T = B C + R", "passes/recompute.py", condition="each step is computed once more"),
    _rule("rows.again", "rows that follow from others", "r(t) = f(u(t)), u(t) stored as rows: r(t) is not stored, its "
          "readers compute f(u(t))", "passes/rows.py",
          condition="f is a few elementwise operations, or transcendental to save memory, and the rows are large"),
    _rule("again.elementwise", "late readers of a result", "y = I ⇒ f(x); … y … x …; u = … y …; v = … x … = "
          "y = I ⇒ f(x); … y … x …; y′ = I ⇒ f(x); u = … y′ …; v = … x …", "passes/again.py; in memory mode least",
          condition="f has no sum; arrays of several times the size of y are made between its readers"),
    _rule("starts.own", "constant initial states", "z = I ⇒ c; fold (s = z) …; fold (r = z) … = "
          "z = I ⇒ c; fold (s = z) …; z′ = I ⇒ c; fold (r = z′) …", "passes/starts.py"),
    _rule("order.values", "values in order", "p = order x: x[p[r]] = sort x", "passes/order.py"),
    _rule("extremes.read", "extremes at their positions", "y = maxᵢ s(i), p = argmaxᵢ s(i): y = s(p)",
          "passes/extremes.py"),
    _rule("strips.axis", "a long axis in strips", "y = I ⇒ s; z = ∑ᵢ t(y(i)): z = ∑_b ∑_{i in strip b} t(y(i)), y for "
          "one strip at a time", "passes/strips.py; off under exact()", exact=False,
          condition="memory mode least, or arrays larger than the cache; sums change their order"),
    _rule("steps.before", "products of all steps before a loop", "fold t { p = ∑ₘ x(t, m) × u(m); … p … } = "
          "p(t) = ∑ₘ x(t, m) × u(m); fold t { … p(t) … }", "passes/steps.py; not in memory mode least",
          condition="x and u are not states; a step has few terms per element of u"),
    _rule("steps.after", "sums over all steps after a loop", "fold t (w = w₀) { w + ∑ₙ y(n) × x(n, t) } = "
          "w₀ + ∑_{t, n} y(t, n) × x(n, t)", "passes/steps.py; off under exact() and in memory mode least", exact=False,
          condition="nothing else reads w; a step has few terms per element of w; sums change their order"),
    _rule("hoist.small", "small statements leave their loop", "fold t { y = s; … } = y = s; fold t { … }, t not in s",
          "passes/hoist.py", condition="the loop has at least one step, and y is small"),
    _rule("hoist.conversion", "a number is converted once", "y = I ⇒ … f32(a) … = c = f32(a); y = I ⇒ … c …",
          "passes/hoist.py", condition="a contains no index of I, nor of a sum in it"),
    _rule("narrow.position", "positions in few bytes", "p = I ⇒ argmaxₖ s(k), k < K: p as 8, 16 or 32 bits, by K",
          "passes/narrow.py"),
    _rule("gather.small", "small statements move up", "y₁; y₂ = y₂; y₁, y₂ smaller and without y₁", "passes/gather.py"),
    _rule("gather.result", "results next to their operands", "m; y; p = I ⇒ f(m) = m; p = I ⇒ f(m); y",
          "passes/gather.py", condition="p is a result, and y reads none of its operands"),
    _rule("columns.turned", "operands in rows", "y(i, j) = ∑ₖ f(x(i, k), c(j, k)) = ∑ₖ f(x(i, k), t(k, j)), "
          "t(k, j) = c(j, k)", "passes/columns.py; off under exact() and in memory mode least",
          condition="f is no product, and each element of c is used at least 32 times"),
    _rule("thin.apart", "terms of few results", "yₖ = ∑ⱼ (s(k, j) + δ(k, t) × u(j)) = ∑ⱼ s(k, j) + δ(k, t) × ∑ⱼ u(j)",
          "passes/thin.py; off under exact()", exact=False, condition="terms are added in another order"),
    _rule("roots.reciprocal", "shared reciprocals of roots", "x ÷ √s + y ÷ √s = x × r + y × r, r = 1 ÷ √s",
          "passes/roots.py; off under exact()", exact=False, condition="a root divides at least twice"),
    _rule("shifts.product", "products before shifts", "xⱼ = ∑_{q, o} [0 ≤ j - q < n] w(o, q) × g(o, j - q) = "
          "∑_q [0 ≤ j - q < n] t(q, j - q), t(q, v) = ∑ₒ w(o, q) × g(o, v)",
          "passes/shifts.py; off under exact() and in memory mode least", exact=False,
          condition="n is smaller than the size of j, and the saving is larger than t; reorders terms"),
    _rule("pad.border", "conditions become zero borders", "∑ [0 ≤ e < n] x(e) × w = ∑ x̂(e + b) × w, x̂ = x with zeros "
          "around", "passes/pad.py; off under exact()", exact=False,
          condition="w must be finite: outside the range the sum now contains 0 × w"),
    _rule("halves.read", "reading 16-bit elements", "x(i) = f32(x(i)), x being stored in 16 bits",
          "passes/halves.py"),
    _rule("halves.store", "writing 16-bit elements", "y(i) = e is stored as f16(e)", "passes/halves.py"),
    _rule("stretches.part", "part of an axis", "∑_k [a ≤ i < b] x(i, k) = [a ≤ i < b] t(i - a), "
          "t(j) = ∑_k x(j + a, k)", "passes/stretches.py", condition="the part has at most two thirds of the elements"),
    _rule("speculate.outside", "a guard around a sum", "∑_v [c] s = [c] ∑_v s, v not in c", "passes/speculate.py"),
    _rule("speculate.guard", "contractions without guards", "∑ [c] z × w = ∑ z × w, z being 0 where c fails",
          "passes/speculate.py", exact=False, condition="w must be finite"),
    _rule("operand.array", "a guarded operand is an array", "∑ [c] x × w = ∑ g × w, g = [c] x", "passes/operands.py",
          exact=False, condition="w is finite, which is tested at run time; off under exact()"),
    _rule("radix.delta", "places in blocks", "∑_i [i % c = d(i // c)] x(i // c) = ∑_b x(b)", "passes/radix.py",
          exact=False, condition="c divides the size of i, and d is below c; reorders terms; off under exact()"),
    _rule("window.floor", "windows", "∑_v [L ≤ s v ≤ U] x(v) = ∑_t [s v ≤ U] x(v), v = ⌈L / s⌉ + t",
          "passes/windows.py", condition="U - L is a number, and t has fewer steps than v; for s = 1 also "
          "v = U - t, except under exact()"),
)
