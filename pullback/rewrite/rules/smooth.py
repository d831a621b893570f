"""The rules of Shaikhha et al., "Efficient Differentiable Programming in a Functional … Language".

Fig. 6 gives the derivatives (D-App to D-Exp) and their types (DT-Fun to DT-Pair), Fig. 7 the optimizations (a) to (g).
V⟦e⟧ and T⟦e⟧ are value and tangent of e. Pullback keeps both as statements of their own, so no pair is ever made.
"""

from __future__ import annotations

from typing import Final

from pullback.rewrite.rules.rule import Rule

EDGES = "ad/edges.py"
FORWARD = "ad/forward.py"
ROW = "ir/primitives/transcendental.py: the row of "
BUILDERS = "ir/expr.py"
REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")
LIFTED = ("normal_form.*", *(f"normal_form.{op}" for op in REDUCTIONS))


def _derivative(number: str, name: str, text: str, latex: str, where: str, *fires: str, condition: str = "") -> Rule:
    return Rule(f"smooth.{number}", "003", number, name, text, latex, where, fires, condition)


def _rewrite(group: str, number: int, name: str, text: str, latex: str, where: str, *fires: str, condition: str = "",
             exact: bool = True, applied: bool = True) -> Rule:
    key = f"({group}) {number}"
    return Rule(f"smooth.{group}{number}", "003", key, name, text, latex, where, fires, condition, exact, applied)


DERIVATIVES: Final = (
    _derivative("D-App", "application", "D⟦e₀ e₁⟧ = D⟦e₀⟧ D⟦e₁⟧",
                r"\mathcal D[\![ e_0\, e_1 ]\!] = \mathcal D[\![ e_0 ]\!]\, \mathcal D[\![ e_1 ]\!]",
                "calls/inline.py: a function called in another one is inlined, so its statements are derived there"),
    _derivative("D-Abs", "function", "D⟦fun x → e⟧ = fun x⃗ → D⟦e⟧",
                r"\mathcal D[\![ \mathrm{fun}\ x \to e ]\!] = \mathrm{fun}\ \vec x \to \mathcal D[\![ e ]\!]",
                f"{FORWARD}, ad/reverse.py: jvp and vjp take a program to a program"),
    _derivative("D-Var", "variable", "D⟦y⟧ = y⃗", r"\mathcal D[\![ y ]\!] = \vec y",
                f"{FORWARD}: the array that holds the tangent of an array; ad/reverse.py: that of its cotangent",
                "derivative.element"),
    _derivative("D-Let", "let", "D⟦let x = e₁ in e₂⟧ = let x⃗ = D⟦e₁⟧ in D⟦e₂⟧",
                r"\mathcal D[\![ \mathrm{let}\ x = e_1\ \mathrm{in}\ e_2 ]\!] = "
                r"\mathrm{let}\ \vec x = \mathcal D[\![ e_1 ]\!]\ \mathrm{in}\ \mathcal D[\![ e_2 ]\!]",
                f"{FORWARD}, ad/reverse.py: a program is a list of statements, walked in order or backward",
                "forward.chain", "reverse.chain"),
    _derivative("D-If", "conditional", "D⟦if e₁ then e₂ else e₃⟧ = if V⟦e₁⟧ then D⟦e₂⟧ else D⟦e₃⟧",
                r"\mathcal D[\![ \mathrm{if}\ e_1\ \mathrm{then}\ e_2\ \mathrm{else}\ e_3 ]\!] = \mathrm{if}\ "
                r"\mathcal V[\![ e_1 ]\!]\ \mathrm{then}\ \mathcal D[\![ e_2 ]\!]\ "
                r"\mathrm{else}\ \mathcal D[\![ e_3 ]\!]",
                f"{EDGES}: the guard goes into the weight with a structural zero; ad/branches.py for `cond`",
                "derivative.select", "derivative.bracket", "derivative.cond"),
    _derivative("D-Build", "array", "D⟦build e₀ e₁⟧ = build V⟦e₀⟧ (fun i → D⟦e₁⟧ (i, 0))",
                r"\mathcal D[\![ \mathrm{build}\ e_0\ e_1 ]\!] = \mathrm{build}\ \mathcal V[\![ e_0 ]\!]\ "
                r"(\mathrm{fun}\ i \to \mathcal D[\![ e_1 ]\!]\ (i, 0))",
                f"{EDGES}: an edge carries the variables of its statement", "derivative.build"),
    _derivative("D-IFold", "iteration", "D⟦ifold e₀ e₁ e₂⟧ = ifold (fun x i → D⟦e₀⟧ x (i, 0)) D⟦e₁⟧ V⟦e₂⟧",
                r"\mathcal D[\![ \mathrm{ifold}\ e_0\ e_1\ e_2 ]\!] = \mathrm{ifold}\ (\mathrm{fun}\ x\ i \to "
                r"\mathcal D[\![ e_0 ]\!]\ x\ (i, 0))\ \mathcal D[\![ e_1 ]\!]\ \mathcal V[\![ e_2 ]\!]",
                f"{EDGES} for sums; ad/loops.py for `fold`, forward and backward",
                "derivative.sum", "derivative.fold"),
    _derivative("D-Get", "element", "D⟦e₀[e₁]⟧ = D⟦e₀⟧[V⟦e₁⟧]",
                r"\mathcal D[\![ e_0[e_1] ]\!] = \mathcal D[\![ e_0 ]\!][\mathcal V[\![ e_1 ]\!]]",
                f"{EDGES}: an edge's source", "derivative.element"),
    _derivative("D-Length", "size", "D⟦length e₀⟧ = (length D⟦e₀⟧, 0)",
                r"\mathcal D[\![ \mathrm{length}\ e_0 ]\!] = (\mathrm{length}\ \mathcal D[\![ e_0 ]\!], 0)",
                "ir/index/: sizes are indices, and an index as a number has no edge"),
    _derivative("D-Pair", "pair", "D⟦(e₀, e₁)⟧ = (D⟦e₀⟧, D⟦e₁⟧)",
                r"\mathcal D[\![ (e_0, e_1) ]\!] = (\mathcal D[\![ e_0 ]\!], \mathcal D[\![ e_1 ]\!])",
                "derivatives/direction.py: trees are taken apart before a program is derived"),
    _derivative("D-Fst", "first of a pair", "D⟦fst e₀⟧ = fst D⟦e₀⟧",
                r"\mathcal D[\![ \mathrm{fst}\ e_0 ]\!] = \mathrm{fst}\ \mathcal D[\![ e_0 ]\!]",
                "derivatives/direction.py: as for pairs"),
    _derivative("D-Snd", "second of a pair", "D⟦snd e₀⟧ = snd D⟦e₀⟧",
                r"\mathcal D[\![ \mathrm{snd}\ e_0 ]\!] = \mathrm{snd}\ \mathcal D[\![ e_0 ]\!]",
                "derivatives/direction.py: as for pairs"),
    _derivative("D-NumV", "value", "e : Num ⊢ V⟦e⟧ = fst D⟦e⟧",
                r"e : \mathrm{Num} \vdash \mathcal V[\![ e ]\!] = \mathrm{fst}\ \mathcal D[\![ e ]\!]",
                f"{FORWARD}: values are the statements of the function, as they are"),
    _derivative("D-NumT", "tangent", "e : Num ⊢ T⟦e⟧ = snd D⟦e⟧",
                r"e : \mathrm{Num} \vdash \mathcal T[\![ e ]\!] = \mathrm{snd}\ \mathcal D[\![ e ]\!]",
                f"{FORWARD}: tangents are statements beside them"),
    _derivative("D-Neg", "negation", "T⟦−e₁⟧ = −T⟦e₁⟧", r"\mathcal T[\![ -e_1 ]\!] = -\mathcal T[\![ e_1 ]\!]",
                f"{EDGES}: a product with −1", "derivative.negative"),
    _derivative("D-Add", "sum", "T⟦e₁ + e₂⟧ = T⟦e₁⟧ + T⟦e₂⟧",
                r"\mathcal T[\![ e_1 + e_2 ]\!] = \mathcal T[\![ e_1 ]\!] + \mathcal T[\![ e_2 ]\!]",
                EDGES, "derivative.add"),
    _derivative("D-Mult", "product", "T⟦e₁ * e₂⟧ = T⟦e₁⟧ * V⟦e₂⟧ + V⟦e₁⟧ * T⟦e₂⟧",
                r"\mathcal T[\![ e_1 * e_2 ]\!] = \mathcal T[\![ e_1 ]\!] \mathcal V[\![ e_2 ]\!] + "
                r"\mathcal V[\![ e_1 ]\!] \mathcal T[\![ e_2 ]\!]", EDGES, "derivative.multiply"),
    _derivative("D-Div", "quotient", "T⟦e₁ / e₂⟧ = (T⟦e₁⟧ * V⟦e₂⟧ − V⟦e₁⟧ * T⟦e₂⟧) / V⟦e₂⟧²",
                r"\mathcal T[\![ e_1 / e_2 ]\!] = \frac{\mathcal T[\![ e_1 ]\!] \mathcal V[\![ e_2 ]\!] - "
                r"\mathcal V[\![ e_1 ]\!] \mathcal T[\![ e_2 ]\!]}{\mathcal V[\![ e_2 ]\!]^2}",
                "ir/primitives/elementwise.py: as T⟦e₁⟧ / V⟦e₂⟧ − (V⟦e₁⟧ / V⟦e₂⟧) / V⟦e₂⟧ * T⟦e₂⟧, which does not "
                "square",
                "derivative.divide", condition="the square overflows where the derivative does not"),
    _derivative("D-Pow", "power",
                "T⟦e₁ ** e₂⟧ = (V⟦e₂⟧ * T⟦e₁⟧ / V⟦e₁⟧ + log(V⟦e₁⟧) * T⟦e₂⟧) * V⟦e₁⟧ ** V⟦e₂⟧",
                r"\mathcal T[\![ e_1^{e_2} ]\!] = \left(\frac{\mathcal V[\![ e_2 ]\!] \mathcal T[\![ e_1 ]\!]}"
                r"{\mathcal V[\![ e_1 ]\!]} + \log(\mathcal V[\![ e_1 ]\!]) \mathcal T[\![ e_2 ]\!]\right) "
                r"\mathcal V[\![ e_1 ]\!]^{\mathcal V[\![ e_2 ]\!]}",
                "ir/primitives/elementwise.py: y x^(y−1) for the base, x^y log x for the exponent",
                "derivative.power",
                condition="the printed rule gives NaN if V⟦e₁⟧ ≤ 0, even for a constant exponent; here a constant "
                "exponent needs no logarithm, and nothing is divided by the base"),
    _derivative("D-Sin", "sine", "T⟦sin(e₁)⟧ = T⟦e₁⟧ * cos(V⟦e₁⟧)",
                r"\mathcal T[\![ \sin(e_1) ]\!] = \mathcal T[\![ e_1 ]\!] \cos(\mathcal V[\![ e_1 ]\!])",
                ROW + "sin", "derivative.sin"),
    _derivative("D-Cos", "cosine", "T⟦cos(e₁)⟧ = −T⟦e₁⟧ * sin(V⟦e₁⟧)",
                r"\mathcal T[\![ \cos(e_1) ]\!] = -\mathcal T[\![ e_1 ]\!] \sin(\mathcal V[\![ e_1 ]\!])",
                ROW + "cos", "derivative.cos"),
    _derivative("D-Tan", "tangent of an angle", "T⟦tan(e₁)⟧ = T⟦e₁⟧ / cos(V⟦e₁⟧)²",
                r"\mathcal T[\![ \tan(e_1) ]\!] = \frac{\mathcal T[\![ e_1 ]\!]}{\cos(\mathcal V[\![ e_1 ]\!])^2}",
                ROW + "tan, as 1 + tan², which reuses the result", "derivative.tan"),
    _derivative("D-Log", "logarithm", "T⟦log(e₁)⟧ = T⟦e₁⟧ / V⟦e₁⟧",
                r"\mathcal T[\![ \log(e_1) ]\!] = \mathcal T[\![ e_1 ]\!] / \mathcal V[\![ e_1 ]\!]",
                ROW + "log", "derivative.log"),
    _derivative("D-Exp", "exponential", "T⟦exp(e₁)⟧ = T⟦e₁⟧ * exp(V⟦e₁⟧)",
                r"\mathcal T[\![ \exp(e_1) ]\!] = \mathcal T[\![ e_1 ]\!] \exp(\mathcal V[\![ e_1 ]\!])",
                ROW + "exp; the factor is the result itself", "derivative.exp"),
    _derivative("DT-Fun", "type of a function", "D⟦T₁ ⇒ T₂⟧ = D⟦T₁⟧ ⇒ D⟦T₂⟧",
                r"\mathcal D_T[\![ T_1 \Rightarrow T_2 ]\!] = "
                r"\mathcal D_T[\![ T_1 ]\!] \Rightarrow \mathcal D_T[\![ T_2 ]\!]",
                "derivatives/modes.py: the derivative of a traced function is a traced function"),
    _derivative("DT-Exp", "type of a number", "D⟦Num⟧ = Num × Num",
                r"\mathcal D_T[\![ \mathrm{Num} ]\!] = \mathrm{Num} \times \mathrm{Num}",
                "derivatives/direction.py: value and tangent; None for the tangent of what is not floating-point"),
    _derivative("DT-Arr", "type of an array", "D⟦Array<M>⟧ = Array<D⟦M⟧>",
                r"\mathcal D_T[\![ \mathrm{Array}\langle M \rangle ]\!] = "
                r"\mathrm{Array}\langle \mathcal D_T[\![ M ]\!] \rangle",
                f"{FORWARD}: two arrays of numbers instead of one of pairs"),
    _derivative("DT-Pair", "type of a pair", "D⟦M₁ × M₂⟧ = D⟦M₁⟧ × D⟦M₂⟧",
                r"\mathcal D_T[\![ M_1 \times M_2 ]\!] = \mathcal D_T[\![ M_1 ]\!] \times \mathcal D_T[\![ M_2 ]\!]",
                "derivatives/direction.py: a tree of tangents has the structure of the tree"),
)

REWRITES: Final = (
    _rewrite("a", 1, "adding zero", "e + 0 = e", r"e + 0 \leadsto e", f"{BUILDERS}: add", "trivial.zero",
             condition="the zero is structural: with a number, −0.0 + 0.0 is 0.0"),
    _rewrite("a", 2, "multiplying by one", "e * 1 = e", r"e * 1 \leadsto e", f"{BUILDERS}: mul", "trivial.one"),
    _rewrite("a", 3, "multiplying by zero", "e * 0 = 0", r"e * 0 \leadsto 0", f"{BUILDERS}: mul", "trivial.zero",
             condition="the zero is structural, or e finite: infinity times 0.0 is NaN"),
    _rewrite("a", 4, "a difference with itself", "e − e = 0", r"e + -e \leadsto 0",
             "rewrite/algebra.py: where e is an integer", "algebra.cancel",
             condition="e must be an integer: for infinity and NaN the difference is NaN"),
    _rewrite("a", 5, "a common factor", "e₀ * e₁ + e₀ * e₂ = e₀ * (e₁ + e₂)",
             r"e_0 * e_1 + e_0 * e_2 \leadsto e_0 * (e_1 + e_2)",
             "rewrite/algebra.py: for integers", "algebra.factor",
             condition="e₀ must be an integer: in floating point rounding differs, and the sum may overflow"),
    _rewrite("b", 1, "beta reduction", "(fun x → e₀) e₁ = let x = e₁ in e₀",
             r"(\mathrm{fun}\ x \to e_0)\, e_1 \leadsto \mathrm{let}\ x = e_1\ \mathrm{in}\ e_0",
             "calls/inline.py: a call inside a traced function"),
    _rewrite("b", 2, "inlining a let", "let x = e₀ in e₁ = e₁[x ↦ e₀]",
             r"\mathrm{let}\ x = e_0\ \mathrm{in}\ e_1 \leadsto e_1[x \mapsto e_0]",
             "passes/fuse.py: statements into their readers; rewrite/copies.py: copies", "fuse.*", "copies.inline",
             condition="work must not be repeated: the statement is used once, or cheap"),
    _rewrite("b", 3, "a let in a let", "let x = (let y = e₀ in e₁) in e₂ = let y = e₀ in let x = e₁ in e₂",
             r"\mathrm{let}\ x = (\mathrm{let}\ y = e_0\ \mathrm{in}\ e_1)\ \mathrm{in}\ e_2 \leadsto "
             r"\mathrm{let}\ y = e_0\ \mathrm{in}\ \mathrm{let}\ x = e_1\ \mathrm{in}\ e_2",
             "rewrite/normal_form.py: statements never nest", *LIFTED),
    _rewrite("b", 4, "a let in an argument", "f(let x = e₀ in e₁) = let x = e₀ in f(e₁)",
             r"f(\mathrm{let}\ x = e_0\ \mathrm{in}\ e_1) \leadsto \mathrm{let}\ x = e_0\ \mathrm{in}\ f(e_1)",
             "tracing/tracer.py: an argument is computed by statements before the one that uses it"),
    _rewrite("c", 1, "an element of a build", "(build e₀ e₁)[e₂] = e₁ e₂",
             r"(\mathrm{build}\ e_0\ e_1)[e_2] \leadsto e_1\, e_2",
             "passes/fuse.py, rewrite/copies.py, rewrite/kronecker.py", "fuse.*", "copies.inline", "kronecker.inline",
             condition="0 ≤ e₂ < e₀ must hold, which checking has proven; and the element must be read once, or be "
             "cheap: otherwise the work is done once for each read"),
    _rewrite("c", 2, "the length of a build", "length (build e₀ e₁) = e₀",
             r"\mathrm{length}\ (\mathrm{build}\ e_0\ e_1) \leadsto e_0",
             "tracing/array.py: a size is a dim, known without the array"),
    _rewrite("d", 1, "the first of a pair", "fst (e₀, e₁) = e₀", r"\mathrm{fst}\ (e_0, e_1) \leadsto e_0",
             "tracing/tree.py: trees are gone when the program is made; rewrite/cse.py drops what no result needs"),
    _rewrite("d", 2, "the second of a pair", "snd (e₀, e₁) = e₁", r"\mathrm{snd}\ (e_0, e_1) \leadsto e_1",
             "tracing/tree.py: as for the first"),
    _rewrite("e", 1, "no iteration", "ifold f z 0 = z", r"\mathrm{ifold}\ f\ z\ 0 \leadsto z",
             "rewrite/loops.py", "loops.no_trips"),
    _rewrite("e", 2, "nothing changes", "ifold (fun a i → a) z n = z",
             r"\mathrm{ifold}\ (\mathrm{fun}\ a\ i \to a)\ z\ n \leadsto z",
             "rewrite/loops.py: a state that the body gives back is read from outside", "loops.constant_state"),
    _rewrite("e", 3, "the first step", "ifold f z n = ifold (fun a i → f a (i + 1)) (f z 0) (n − 1)",
             r"\mathrm{ifold}\ f\ z\ n \leadsto \mathrm{ifold}\ (\mathrm{fun}\ a\ i \to f\ a\ (i+1))\ (f\ z\ 0)\ (n-1)",
             "rewrite/loops.py: for a loop of one step, where nothing is left of it", "loops.one_trip",
             condition="n ≥ 1, which is proven"),
    _rewrite("e", 4, "one step that matters", "ifold (fun a i → if i = j then f a i else a) z n = f z j",
             r"\mathrm{ifold}\ (\mathrm{fun}\ a\ i \to \mathrm{if}\ i = j\ \mathrm{then}\ f\ a\ i\ \mathrm{else}\ a)\ "
             r"z\ n \leadsto f\ z\ j",
             "rewrite/brackets.py for sums; rewrite/loops.py for loops", "solve.unit", "solve.mixed_radix",
             "solve.divided", "kronecker.sum", "loops.single_index",
             condition="0 ≤ j < n, otherwise it is z: the range stays as a bracket where it is not proven"),
    _rewrite("f", 1, "if true", "if true then e₁ else e₂ = e₁",
             r"\mathrm{if}\ \mathrm{true}\ \mathrm{then}\ e_1\ \mathrm{else}\ e_2 \leadsto e_1", f"{BUILDERS}: select"),
    _rewrite("f", 2, "if false", "if false then e₁ else e₂ = e₂",
             r"\mathrm{if}\ \mathrm{false}\ \mathrm{then}\ e_1\ \mathrm{else}\ e_2 \leadsto e_2",
             f"{BUILDERS}: select"),
    _rewrite("f", 3, "equal branches", "if e₀ then e₁ else e₁ = e₁",
             r"\mathrm{if}\ e_0\ \mathrm{then}\ e_1\ \mathrm{else}\ e_1 \leadsto e_1", f"{BUILDERS}: select"),
    _rewrite("f", 4, "a function of a choice", "f(if e₀ then e₁ else e₂) = if e₀ then f(e₁) else f(e₂)",
             r"f(\mathrm{if}\ e_0\ \mathrm{then}\ e_1\ \mathrm{else}\ e_2) \leadsto "
             r"\mathrm{if}\ e_0\ \mathrm{then}\ f(e_1)\ \mathrm{else}\ f(e_2)",
             f"{BUILDERS}: brackets and guards leave products, quotients and casts", "kronecker.distribute",
             condition="f must not be evaluated twice: done where one branch is a structural zero that f keeps"),
    _rewrite("f", 5, "what the test says", "if e₀ then e₁ else e₂ = if e₀ then e₁[e₀ ↦ true] else e₂[e₀ ↦ false]",
             r"\mathrm{if}\ e_0\ \mathrm{then}\ e_1\ \mathrm{else}\ e_2 \leadsto \mathrm{if}\ e_0\ \mathrm{then}\ "
             r"e_1[e_0 \mapsto \mathrm{true}]\ \mathrm{else}\ e_2[e_0 \mapsto \mathrm{false}]",
             "rewrite/algebra.py", "algebra.known_test"),
    _rewrite("g", 1, "loop fission",
             "ifold (fun a i → (f (fst a) i, g (snd a) i)) (z₁, z₂) n = (ifold f z₁ n, ifold g z₂ n)",
             r"\mathrm{ifold}\ (\mathrm{fun}\ a\ i \to (f\ (\mathrm{fst}\ a)\ i, g\ (\mathrm{snd}\ a)\ i))\ "
             r"(z_1, z_2)\ n \leadsto (\mathrm{ifold}\ f\ z_1\ n, \mathrm{ifold}\ g\ z_2\ n)",
             "rewrite/cse.py: states that no result needs leave the loop with what only they read; where both are "
             "needed, one loop does both", "dead.state"),
)

SMOOTH: Final = (*DERIVATIVES, *REWRITES)
