"""Every rule of the verifier, broken once."""

from dataclasses import replace

import pytest

from pullback.errors import VerifyError
from pullback.ir import types
from pullback.ir.expr import Add, Ref, const, from_index, get, reduce
from pullback.ir.index import Var, as_index, symbol
from pullback.ir.intern import intern
from pullback.ir.parser import parse_program
from pullback.ir.program import Block, Build, Choose, Fold, Program, Scatter, While
from pullback.ir.verify import verify

N, M = symbol("N"), symbol("M")


def make(value=None, *, shape=None, dtype=types.f64, variables=None, inputs=None):
    """A program of one build over x: f64[N]."""
    x, i = Ref("x", types.f64, (N,)), Var("i", N)
    variables = (i,) if variables is None else variables
    value = get(x, i) if value is None else value(x, i)
    y = Ref("y", dtype, (N,) if shape is None else shape)
    return Program("f", (x,) if inputs is None else (x, *inputs), Block((Build((y,), variables, (value,)),), (y,)))


def broken(program, code, words=""):
    with pytest.raises(VerifyError) as caught:
        verify(program)
    assert caught.value.code == code, str(caught.value)
    assert words in str(caught.value)


def test_a_good_program_passes():
    verify(make())


def test_scope():
    other = Ref("other", types.f64, (N,))
    broken(make(lambda x, i: get(other, i)), "E310", "other is read and is not defined")
    p = make()
    broken(replace(p, body=Block((*p.body.statements, *p.body.statements), p.outputs)), "E310", "y is defined twice")
    broken(p.with_body(Block(p.body.statements, (other,))), "E310", "other")
    free = Var("j", N)
    broken(make(lambda x, i: get(x, free)), "E310", "no binder for j")


def test_arrays_of_a_block_end_with_it():
    p = parse_program("""f(x: f64[N]) {
      y = fold t < 3 (s = x) { r = build n < N { s[n] } yield r }
      return y }""")
    verify(p)
    (fold,) = p.body.statements
    broken(p.with_body(Block((fold,), (fold.body.results[0],))), "E310", "r is read and is defined later or in another")
    broken(p.with_body(Block((fold,), (fold.states[0],))), "E310", "s is read")


def test_dtypes():
    broken(make(dtype=types.f32), "E311", "the value is f64, the array f32")
    broken(make(lambda x, i: intern(Add, (get(x, i), const(1, types.f32)), types.f64)), "E311", "f64, f32")
    broken(make(lambda x, i: reduce("sum", (Var("k", M),), const(True, types.bool_)), dtype=types.bool_,
                inputs=(Ref("m", types.f64, (M,)),)), "E311")
    broken(make(inputs=(Ref("z", types.f64, (N,), (as_index(0), N)),)), "E311", "bounds")


def test_shapes():
    broken(make(shape=(N + 1,)), "E312", "shape [N + 1], not [N]")
    broken(make(variables=()), "E310")


def test_ranges():
    broken(make(lambda x, i: get(x, as_index(i) + 1)), "E313", "i + 1 < N is not provable")
    broken(make(lambda x, i: get(x, as_index(i) - 1)), "E313", "i - 1 >= 0")
    broken(make(lambda x, i: get(x, M - 1), inputs=(Ref("m", types.f64, (M,)),)), "E313")


def test_guards_requirements_and_branches_prove_ranges():
    verify(parse_program("f(x: f64[N]) { y = build i < N { [i >= 1] x[i - 1] } return y }"))
    verify(parse_program("f(x: f64[N], w: f64[K]) where N >= K { y = build k < K { x[k] } return y }"))
    verify(parse_program("f(x: f64[N]) { y = build i < N { ([i >= 1] true) ? x[i - 1] : x[i] } return y }"))
    broken(parse_program("f(x: f64[N]) { y = build i < N { x[i] + ([i >= 1] x[i - 1]) + x[i - 1] } return y }"), "E313")
    verify(parse_program("f(x: f64[N], j: i64[M]) { y = build i < M { x[check(j[i], N)] } return y }"))
    broken(parse_program("f(x: f64[N], j: i64[M]) { y = build i < M { x[data(j[i])] } return y }"), "E313")


def test_the_other_branch_knows_the_condition_fails():
    verify(parse_program("""f(x: f64[N], b: bool) {
      y = build i < N { logical_not([i >= N - 1] b || true) ? x[i] : x[i] }
      z = build i < N { ([i == 0] true) && b ? x[i] : x[0] }
      return y, z }"""))


def test_binders():
    i = Var("i", N)
    broken(make(lambda x, _: get(x, i), variables=(i, i), shape=(N, N)), "E314", "bound twice")
    broken(make(lambda x, j: reduce("sum", (j,), get(x, j))), "E314", "bound again inside its own scope")


def test_dims():
    broken(make(lambda x, i: reduce("sum", (Var("k", M),), get(x, i))), "E315", "no input or size determines the dim M")
    i = Var("i", N)
    inner = Var("k", as_index(i) + 1)
    broken(make(lambda x, _: reduce("sum", (inner,), get(x, i)), variables=(i,)), "E315", "not a dim")
    broken(replace(make(), inputs=(Ref("x", types.f64, (N + M,)),)), "E315")


def test_scatter():
    x, i, y = Ref("x", types.f64, (N,)), Var("i", N), Ref("y", types.f64, (N,))

    def scatter(*indices, value=None):
        return Program("f", (x,), Block((Scatter(y, (i,), indices, value or get(x, i)),), (y,)))

    verify(scatter(as_index(i)))
    broken(scatter(), "E312", "rank 1, got 0 indices")
    broken(scatter(as_index(i) + 1), "E313")
    broken(scatter(as_index(i), value=const(1, types.f32)), "E311")


def test_folds():
    x, s, y = Ref("x", types.f64, (N,)), Ref("s", types.f64, (N,)), Ref("y", types.f64, (N,))
    t = Var("t", 3)
    good = Fold((y,), t, (s,), (x,), Block((), (s,)))
    verify(Program("f", (x,), Block((good,), (y,))))
    z = Ref("z", types.f32, (N,))
    for bad, code in ((replace(good, inits=()), "E312"), (replace(good, body=Block((), ())), "E312"),
                      (replace(good, states=(z,)), "E311"), (replace(good, outs=(y, z)), "E312"),
                      (replace(good, outs=(Ref("y", types.f64, (as_index(3),)),)), "E312")):
        broken(Program("f", (x,), Block((bad,), (y,))), code)


def test_while_and_choose():
    b, s, y = Ref("b", types.bool_, ()), Ref("s", types.bool_, ()), Ref("y", types.bool_, ())
    loop = While((y,), (s,), (b,), Block((), (s,)), Block((), (s,)))
    verify(Program("f", (b,), Block((loop,), (y,))))
    broken(Program("f", (b,), Block((replace(loop, test=Block((), ())),), (y,))), "E311", "one bool")
    broken(Program("f", (b,), Block((replace(loop, body=Block((), ())),), (y,))), "E312")
    choice = Choose((y,), b, Block((), (b,)), Block((), (b,)))
    verify(Program("f", (b,), Block((choice,), (y,))))
    broken(Program("f", (b,), Block((replace(choice, otherwise=Block((), ())),), (y,))), "E312")
    x = Ref("x", types.f64, ())
    broken(Program("f", (b, x), Block((replace(choice, test=x),), (y,))), "E311", "not one bool")


def test_the_error_names_the_statement():
    broken(parse_program("f(x: f64[N]) { y = build i < N { x[i + 1] } return y }"), "E313",
           "y = build i < N { x[i + 1] }")


def test_an_index_as_bool_is_no_number():
    broken(make(lambda x, i: intern(type(from_index(as_index(i), types.i64)), as_index(i), types.bool_),
                dtype=types.bool_), "E311")
