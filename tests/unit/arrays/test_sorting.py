"""What is put in order, against NumPy; derivatives against the gathers that they are."""

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program

DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
SHAPES = ((1,), (2,), (9,), (96,), (97,), (1000,), (3, 50), (2, 3, 130), (5, 1), (1, 4, 1, 2))


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements with ties, and for floating types the awkward ones."""
    random = np.random.default_rng(len(shape))
    x = random.integers(-50 if dtype[0] in "fi" else 0, 120, size=shape).astype(dtype)
    if dtype[0] == "f" and x.size > 4:
        x.flat[:5] = np.nan, 0.0, -0.0, np.inf, -np.inf
    return x


def both(f: Any, *arguments: Any) -> Any:
    """What a function gives in C, seen to be what the interpreter gives."""
    f = pb.function(f)
    found = f(*arguments)
    np.testing.assert_allclose(found, f.interpret(*arguments), rtol=1e-14)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_along_every_axis(dtype: str) -> None:
    arrays = [values(dtype, shape) for shape in SHAPES]
    cases = [(k, axis) for k, shape in enumerate(SHAPES) for axis in range(-1, len(shape) - 1)]
    f = pb.function(lambda xs: [(pb.argsort(xs[k], axis=a), pb.sort(xs[k], axis=a)) for k, a in cases])
    for found in (f(arrays), f.interpret(arrays)):
        for (k, axis), (places, ordered) in zip(cases, found, strict=True):
            np.testing.assert_array_equal(places, np.argsort(arrays[k], axis=axis, kind="stable"))
            np.testing.assert_array_equal(ordered, np.sort(arrays[k], axis=axis))


def hard_rows(kind: str, n: int) -> np.ndarray[Any, Any]:
    """Rows on which keys or packed positions could go wrong."""
    random = np.random.default_rng(n)
    match kind:
        case "low bits":  # two elements often differ only where a position is packed
            return 1 + random.integers(0, 50, n) * 2.0**-52
        case "low bits and NaN":
            return np.where(random.random(n) < 0.2, np.nan, 1 + random.integers(0, 50, n) * 2.0**-52)
        case "special":
            return random.choice(np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 5e-324]), n)
        case "subnormal":
            return random.normal(size=n) * 1e-322
        case "large integers":
            return np.iinfo("i8").max - random.integers(0, 100, n)
        case "all integers":
            return random.integers(np.iinfo("i8").min, np.iinfo("i8").max, n, endpoint=True)
    return np.full(n, 3, "u4")  # equal


@pytest.mark.parametrize(
    "kind", ["low bits", "low bits and NaN", "special", "subnormal", "large integers", "all integers", "equal"]
)
def test_rows_of_every_length(kind: str) -> None:
    """The network of comparisons takes 17 to 4096 elements, in padded powers of two."""
    sizes = (16, 17, 31, 32, 33, 64, 65, 100, 128, 129, 255, 256, 257, 500, 512, 513, 1025, 4096, 4097)
    rows = [hard_rows(kind, n) for n in sizes]
    ordered, places, singles = pb.function(
        lambda xs: ([pb.sort(x) for x in xs], [pb.argsort(x) for x in xs], [pb.sort(x.astype("f4")) for x in xs])
    )(rows)
    for x, found, place, single in zip(rows, ordered, places, singles, strict=True):
        np.testing.assert_array_equal(found, np.sort(x))
        np.testing.assert_array_equal(place, np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(single, np.sort(x.astype("f4")))
        if x.dtype.kind == "f":  # -0.0 comes before 0.0
            assert not np.any(np.diff(np.signbit(found[found == 0]).astype(int)) > 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_descending_keeps_the_order_of_equals(dtype: str) -> None:
    x = np.array([3, 1, 3, 0, 1, 3], dtype)
    wanted = sorted(range(6), key=lambda k: -int(x[k]))
    assert both(lambda x: pb.argsort(x, descending=True), x).tolist() == wanted
    assert both(lambda x: pb.sort(x, descending=True), x).tolist() == x[wanted].tolist()


def test_nan_is_last_in_either_order() -> None:
    x = np.array([np.nan, 0.0, np.nan, 2.0])
    assert both(lambda x: pb.argsort(x), x).tolist() == [1, 3, 0, 2]
    assert both(lambda x: pb.argsort(x, descending=True), x).tolist() == [3, 1, 0, 2]
    assert both(lambda x: pb.top_k(x, 2)[0], x).tolist() == [2.0, 0.0]


def test_extremes_of_integers() -> None:
    for dtype in (np.int64, np.uint64, np.int8):
        info = np.iinfo(dtype)
        x = np.array([info.max, 0, info.min, 1], dtype)
        np.testing.assert_array_equal(both(lambda x: pb.sort(x), x), np.sort(x))
        np.testing.assert_array_equal(both(lambda x: pb.sort(x, descending=True), x), np.sort(x)[::-1])


def test_nothing_in_order() -> None:
    assert pb.function(lambda x: pb.sort(x))(np.zeros(0)).shape == (0,)
    assert pb.function(lambda x: pb.argsort(x, axis=0))(np.zeros((0, 3))).shape == (0, 3)


def test_positions_and_values_of_one_sort() -> None:
    """The positions are needed as well: the values are read there."""
    x = values("f8", (30,))[5:]
    found, places = pb.function(lambda x: (pb.sort(x), pb.argsort(x)))(x)
    np.testing.assert_array_equal(found, x[places])


def test_top_k() -> None:
    x = np.random.default_rng(0).normal(size=(4, 30))
    found, places = pb.function(lambda x: pb.top_k(x, 3))(x)
    np.testing.assert_array_equal(places, np.argsort(-x, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(found, -np.sort(-x, axis=1)[:, :3])
    least = pb.function(lambda x: pb.top_k(x, 2, axis=0, largest=False)[0])(x)
    np.testing.assert_array_equal(least, np.sort(x, axis=0)[:2])


def test_some_of_the_elements_in_order() -> None:
    x = np.random.default_rng(0).normal(size=(4, 30))
    ordered = np.sort(x)
    np.testing.assert_array_equal(both(lambda x: pb.top_k(x, 3, largest=False)[0], x), ordered[:, :3])
    np.testing.assert_array_equal(both(lambda x: pb.top_k(x, 3)[0], x), ordered[:, :-4:-1])
    np.testing.assert_array_equal(both(lambda x: pb.sort(x)[:, :5], x), ordered[:, :5])
    np.testing.assert_array_equal(both(lambda x: pb.sort(x)[1:3, 4:], x), ordered[1:3, 4:])
    np.testing.assert_array_equal(both(lambda x: pb.sort(x)[:, ::-2], x), ordered[:, ::-2])
    np.testing.assert_array_equal(both(lambda x: pb.sort(x, axis=0)[:2], x), np.sort(x, axis=0)[:2])


def test_derivatives_are_gathers() -> None:
    x = np.random.default_rng(0).normal(size=20)
    weight = np.arange(20.0)
    f = pb.function(lambda x: pb.sum(pb.sort(x) * weight))
    rank = np.argsort(np.argsort(x)).astype(float)
    np.testing.assert_array_equal(pb.grad(f)(x), rank)
    np.testing.assert_array_equal(pb.jvp(f)((x,), (np.eye(20)[3],))[1], rank[3])
    np.testing.assert_array_equal(pb.jacobian(pb.function(lambda x: pb.sort(x)))(x), np.eye(20)[np.argsort(x)])
    np.testing.assert_array_equal(pb.hessian(pb.function(lambda x: pb.sum(pb.sort(x) ** 2)))(x), 2 * np.eye(20))
    np.testing.assert_array_equal(pb.grad(f)(np.zeros(20)), weight)  # of equal ones the first stays first


def test_batches_and_rows_in_a_build() -> None:
    x = np.random.default_rng(0).normal(size=(4, 20))
    np.testing.assert_array_equal(pb.vmap(pb.function(lambda x: pb.sort(x)))(x), np.sort(x))
    found = both(lambda x: pb.build(4, lambda i: pb.sum(pb.sort(x[0] * x[i, 0])[:2])), x)
    np.testing.assert_allclose(found, np.sort(x[0] * x[:, :1])[:, :2].sum(1))
    folded = both(lambda x: pb.fold(3, x[0], lambda s, i: pb.sort(s * x[i])), x)
    state = x[0]
    for i in range(3):
        state = np.sort(state * x[i])
    np.testing.assert_allclose(folded, state)


def test_open_sizes_and_text() -> None:
    @pb.function(specialize="never")
    def ordered(x: Float64[Array, "N M"]):
        return pb.sort(x), pb.argsort(-x, axis=0)

    for shape in ((3, 5), (1, 1), (2, 300)):
        x = np.random.default_rng(0).normal(size=shape)
        found, places = ordered(x)
        np.testing.assert_array_equal(found, np.sort(x))
        np.testing.assert_array_equal(places, np.argsort(-x, axis=0))
    assert print_program(parse_program(ordered.ir)) == ordered.ir
    assert "pb_sort_f64" in ordered.c_source() and "pb_order_f64" in ordered.c_source()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [1, 5, 100])
def test_searchsorted(side: str, n: int) -> None:
    random = np.random.default_rng(n)
    x = np.sort(np.round(random.normal(size=n), 1))
    v = np.array([np.nan, 9, -9, *np.round(random.normal(size=74), 1)])
    expected = np.searchsorted(x, v, side=side)  # type: ignore[call-overload]
    np.testing.assert_array_equal(both(lambda x, v: pb.searchsorted(x, v, side=side), x, v), expected)
    mixed = random.permutation(x)
    found = both(lambda x, v: pb.searchsorted(x, v, side=side, sorter=pb.argsort(x)), mixed, v)
    np.testing.assert_array_equal(found, expected)
    unordered = np.append(x, np.nan)
    found = both(lambda x, v: pb.searchsorted(x, v, side=side), unordered, v)
    np.testing.assert_array_equal(found, np.searchsorted(unordered, v, side=side))  # type: ignore[call-overload]


def test_a_search_in_a_formula() -> None:
    """The first index at which a test fails; it may read rows chosen by indices around it, and be batched."""
    x = np.sort(np.random.default_rng(0).normal(size=(3, 40)))
    f = lambda x: pb.build(3, lambda r: x[r, pb.minimum(pb.search_over(40, lambda i: x[r, i] < 0.3), 39)] ** 2)
    expected = [row[min(np.searchsorted(row, 0.3), 39)] ** 2 for row in x]
    np.testing.assert_allclose(both(f, x), expected)
    np.testing.assert_allclose(pb.vmap(pb.function(f))(np.stack([x, x])), [expected] * 2)
    g = pb.grad(pb.function(lambda x: pb.sum(f(x))))(x)
    assert np.count_nonzero(g) == 3


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 33])
def test_median_and_quantile(n: int) -> None:
    y = np.random.default_rng(n).normal(size=(3, n, 2))
    cases = [(axis, keepdims) for axis in (0, 1, 2, None) for keepdims in (False, True)]
    shares = (0.0, 0.3, 1.0, np.array([0.1, 0.9]))
    f = pb.function(
        lambda y: [
            (pb.median(y, axis=a, keepdims=k), [pb.quantile(y, q, axis=a, keepdims=k) for q in shares])
            for a, k in cases
        ]
    )
    for result in (f(y), f.interpret(y)):
        for (axis, keepdims), (middle, rest) in zip(cases, result, strict=True):
            np.testing.assert_allclose(middle, np.median(y, axis=axis, keepdims=keepdims))
            for q, found in zip(shares, rest, strict=True):
                np.testing.assert_allclose(found, np.quantile(y, q, axis=axis, keepdims=keepdims), rtol=1e-12)
    y[0, 0, 0] = np.nan
    np.testing.assert_array_equal(both(lambda y: pb.median(y, axis=1), y), np.median(y, axis=1))


def test_the_derivative_of_a_quantile() -> None:
    x = np.random.default_rng(0).normal(size=9)
    f = pb.function(lambda x: pb.sum(pb.quantile(x, 0.3) ** 2))
    numerical = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(9)]
    np.testing.assert_allclose(pb.grad(f)(x), numerical, atol=1e-8)


@pytest.mark.slow
def test_histogram_and_bincount() -> None:
    y = np.random.default_rng(0).normal(size=(3, 40))
    for bins in (1, 4, 10):
        counts, ends = pb.function(lambda y: pb.histogram(y, bins))(y)
        wanted, at = np.histogram(y, bins)
        np.testing.assert_array_equal(counts, wanted)
        np.testing.assert_allclose(ends, at, rtol=1e-13)
        density = pb.function(lambda y: pb.histogram(y, bins, (-1, 1), density=True)[0])(y)
        np.testing.assert_allclose(density, np.histogram(y, bins, (-1, 1), density=True)[0])
    ends = np.array([-1.0, 0.0, 2.0])
    weighted = pb.function(lambda y, w: pb.histogram(y, ends, weights=w)[0])
    np.testing.assert_allclose(weighted(y, y * y), np.histogram(y, ends, weights=y * y)[0])
    by_weight = pb.grad(pb.function(lambda w, y: pb.sum(weighted(y, w) * np.array([2.0, 3.0]))))(y, y)
    np.testing.assert_array_equal(by_weight, np.where((y >= -1) & (y < 0), 2, np.where((y >= 0) & (y <= 2), 3, 0)))
    places = np.random.default_rng(0).integers(-2, 9, size=50)
    found = both(lambda i: pb.bincount(i, 6), places)
    np.testing.assert_array_equal(found, [np.count_nonzero(places == k) for k in range(6)])


def test_the_largest_along_the_first_of_three_axes() -> None:
    x = np.random.default_rng(3).permutation(24.0 * np.arange(24)).reshape(4, 2, 3)
    values, places = pb.function(lambda x: pb.top_k(x, 2, axis=0)).interpret(x)
    np.testing.assert_array_equal(values, -np.sort(-x, axis=0)[:2])
    np.testing.assert_array_equal(places, np.argsort(-x, axis=0)[:2])


@pytest.mark.parametrize("count", [True, 4, -1, 1.0])
def test_top_k_takes_a_number_of_elements(count: Any) -> None:
    with pytest.raises(pb.errors.ShapeError, match="E104"):
        pb.function(lambda x: pb.top_k(x, count))(np.ones(3))


def test_a_bool_is_no_number_of_intervals() -> None:
    with pytest.raises(pb.errors.ShapeError, match="E104"):
        pb.function(lambda x: pb.histogram(x, True))(np.ones(3))
