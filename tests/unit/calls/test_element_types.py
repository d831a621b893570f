"""Element types at every border: the type of each result, and the message for an unsupported type."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lazy

ml_dtypes = pytest.importorskip("ml_dtypes", reason="the bfloat16 of other libraries")


def ways():
    """The borders that an array crosses, as new functions without compiled code."""
    identity, twice = pb.function(lambda x: x), pb.function(lambda x: x * 2)

    def captured(x):
        return pb.function(lambda y: x * y)(np.ones(3, np.float32))

    return {
        "returned": identity,
        "computed": twice,
        "captured": captured,
        "mapped": pb.vmap(twice),
        "gradient": pb.grad(lambda x: pb.sum(x * x)),
        "jacobian": pb.jacobian(twice),
        "lazy": lambda x: (lazy.asarray(x) * 2).numpy(),
        "lazy gradient": lambda x: lazy.grad(lambda v: lazy.sum(v * v))(x).numpy(),
    }


SINGLE = dict.fromkeys(("computed", "captured", "mapped", "gradient", "jacobian", "lazy", "lazy gradient"), "float32")
RESULTS = {
    "float16": {"returned": "float16", **SINGLE},
    "bfloat16": {"returned": "bfloat16", **SINGLE, "lazy": "E122", "lazy gradient": "E122"},
    "float32": {"returned": "float32", **SINGLE},
    "float64": dict.fromkeys(ways(), "float64"),
    "longdouble": dict.fromkeys(ways(), "E122"),
    ">f4": dict.fromkeys(ways(), "E123") | {"captured": "E122", "lazy": "E122", "lazy gradient": "E122"},
    "object": dict.fromkeys(ways(), "E122"),
    "timedelta64[s]": dict.fromkeys(ways(), "E122"),
    "U3": dict.fromkeys(ways(), "E122"),
    "uint16": {"returned": "uint16", "computed": "uint16", "captured": "E120", "mapped": "uint16", "gradient": "E202",
               "jacobian": "E202", "lazy": "uint16", "lazy gradient": "E201"},
    "int8": {"returned": "int8", "computed": "int8", "captured": "E120", "mapped": "int8", "gradient": "E202",
             "jacobian": "E202", "lazy": "int8", "lazy gradient": "E201"},
    "complex64": {"returned": "complex64", "computed": "complex64", "captured": "complex64", "mapped": "complex64",
                  "gradient": "E201", "jacobian": "E225", "lazy": "complex64", "lazy gradient": "E201"},
}


@pytest.mark.parametrize("name", RESULTS)
def test_each_border_keeps_the_type_or_says_what_it_makes_of_it(name):
    x = np.array([1, 2, 3]).astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    found = {}
    for way, f in ways().items():
        try:
            found[way] = str(f(x).dtype)
        except pb.errors.PullbackError as error:
            found[way] = error.code
    assert found == RESULTS[name]


def test_uint16_numbers_are_never_taken_for_the_bits_of_bfloat16():
    numbers = np.array([1, 2, 3], np.uint16)
    for f in (pb.function(lambda x: x * 2), pb.vmap(lambda x: x * 2)):
        assert f(numbers.astype(ml_dtypes.bfloat16)).tolist() == [2.0, 4.0, 6.0]
        assert f(numbers).tolist() == [2, 4, 6]
        assert f(numbers.astype(ml_dtypes.bfloat16)).tolist() == [2.0, 4.0, 6.0]


TOTALS = {
    "sum": lambda x, d: pb.sum(x, dtype=d),
    "sum of rows": lambda x, d: pb.sum(x[:, None] * x, axis=1, dtype=d),
    "prod": lambda x, d: pb.prod(x, dtype=d),
    "trace": lambda x, d: pb.trace(x[:, None] * x, dtype=d),
    "cumulative_sum": lambda x, d: pb.cumulative_sum(x, dtype=d),
    "cumulative_prod": lambda x, d: pb.cumulative_prod(x, dtype=d, include_initial=True),
    "full": lambda x, d: pb.full(3, 0.1, dtype=d),
    "linspace": lambda x, d: pb.linspace(0.0, 1.0, 4, dtype=d),
    "arange": lambda x, d: pb.arange(0.0, 1.0, 0.3, dtype=d),
    "eye": lambda x, d: pb.eye(2, dtype=d),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", TOTALS)
def test_what_is_asked_for_in_16_bits_is_computed_in_32_and_rounded_once(name, dtype):
    x = np.array([1.1, 2.2, 3.3], np.float32)
    f = pb.function(lambda x: TOTALS[name](x, dtype))
    wide = pb.function(lambda x: TOTALS[name](x, "float32"))(x)
    wanted = wide.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for found in (f(x), f.interpret(x)):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


LONG = np.dtype(np.longdouble)
MESSAGES = {
    "longdouble": (np.ones(3, np.longdouble), f"x has NumPy dtype {LONG}, which has no counterpart in the language",
                   "`x.astype(np.float64)` converts it"),
    "long complex": (np.ones(3, np.clongdouble), f"x.real has NumPy dtype {LONG}, which has no counterpart in the "
                     "language", "`x.real.astype(np.float64)` converts it"),
    "byte order": (np.ones(3, ">f4"), "x has foreign byte order (>f4)", "`x.astype(np.float32)` converts it"),
    "strings": (np.array(["a"]), "x has NumPy dtype <U1, which has no counterpart in the language",
                "convert it in NumPy first"),
    "a structure": (np.zeros(2, [("a", "f8")]), "x has NumPy dtype [('a', '<f8')], which has no counterpart in the "
                    "language", "convert it in NumPy first"),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_a_type_that_is_not_taken_is_named_with_what_converts_it(name):
    value, what, remedy = MESSAGES[name]
    with pytest.raises(pb.errors.DTypeError) as raised:
        pb.function(lambda x: x * 2)(value)
    assert (raised.value.what, raised.value.remedy) == (what, remedy)


@pytest.mark.parametrize("value", [np.longdouble(1), np.ones(3, np.longdouble)], ids=["number", "array"])
def test_a_captured_value_of_such_a_type_is_named(value):
    with pytest.raises(pb.errors.DTypeError) as raised:
        pb.function(lambda y: value * y)(np.ones(3))
    assert raised.value.what == f"multiply: NumPy dtype {np.dtype(np.longdouble)} has no counterpart in the language"
    assert raised.value.remedy == "`.astype(np.float64)` converts it"


def test_lazy_arrays_refuse_bfloat16_by_name():
    for make in (lambda: lazy.asarray(np.ones(3, ml_dtypes.bfloat16)), lambda: lazy.zeros(3, dtype="bfloat16"),
                 lambda: lazy.asarray([1.0], dtype="bfloat16"), lambda: lazy.ones(1).astype("bfloat16")):  # fmt: skip
        with pytest.raises(pb.errors.DTypeError) as raised:
            make()
        assert raised.value.what == "lazy arrays hold no bfloat16"
        assert raised.value.remedy == "`astype(np.float32)` loses nothing, and a `pb.function` takes bfloat16"


def test_lazy_gradients_by_complex_arrays_keep_them_whole():
    z = np.array([1 + 2j, 3 - 1j])
    size = lambda v: lazy.sum(lazy.abs(v) ** 2)
    assert lazy.grad(size)(z).tolist() == [2 + 4j, 6 - 2j]
    assert complex(lazy.grad(size)(1 + 2j).numpy()) == 2 + 4j
    found = lazy.grad(lambda t: size(t["z"]) * t["scale"])({"z": z, "scale": 2.0})
    assert found["z"].tolist() == [4 + 8j, 12 - 4j]
    assert abs(float(found["scale"]) - 15.0) < 1e-12


def test_numbers_are_not_drawn_in_16_bits():
    with pytest.raises(pb.errors.DTypeError) as raised:
        pb.function(lambda: pb.random.normal(pb.random.key(0), 3, dtype="float16"))()
    assert raised.value.what == "normal gives floating-point numbers, not f16"
    assert raised.value.remedy == '`dtype="float32"`, and `.astype(pb.float16)` converts them'


def test_a_bool_sum_says_bool():
    with pytest.raises(pb.errors.DTypeError) as raised:
        pb.function(lambda x: pb.sum(x, dtype=bool))(np.ones(3))
    assert raised.value.what == "sum takes numbers, not bool"


class Refusing:
    """An object whose memory cannot be shared, like that of an array on an unknown device."""

    def __dlpack__(self, **keywords):
        raise BufferError("memory of device 1")

    def __dlpack_device__(self):
        return 1, 0


def test_a_failed_conversion_is_an_error_with_a_code():
    with pytest.raises(pb.errors.TraceError) as raised:
        pb.function(lambda x: x * 2)(Refusing())
    assert raised.value.code == "E138"
    assert raised.value.what == ("x: a Refusing was given where an array is needed, and its conversion failed: "
                                 "memory of device 1")




MASKED = np.ma.masked_array(np.arange(4.0), [0, 1, 0, 0])
MASKS = {
    "x": lambda: pb.function(lambda x: x * 2)(MASKED),
    "x['a']": lambda: pb.function(lambda x: x["a"] * 2)({"a": MASKED}),
    "multiply": lambda: pb.function(lambda x: x * MASKED)(2.0),
    "asarray": lambda: lazy.asarray(MASKED),
    "an operand": lambda: lazy.asarray(np.ones(4)) * MASKED,
    "data[0]": lambda: pb.nn.fit(pb.nn.dense(1), pb.nn.mse_loss, (MASKED[:, None], np.ones((4, 1))),
                                 optimizer=pb.nn.sgd(0.1), epochs=1),
    "targets": lambda: pb.data.Dataset(np.ones((4, 1)), MASKED),
}  # fmt: skip


@pytest.mark.parametrize("what", MASKS)
def test_masked_elements_never_become_numbers(what):
    with pytest.raises(pb.errors.TraceError) as raised:
        MASKS[what]()
    assert raised.value.code == "E138"
    assert raised.value.what == f"{what}: a masked array was given, and its mask would be lost"
    assert raised.value.remedy == "`.filled(value)`, or the mask as an array of bools for `pb.where`"


def test_a_masked_array_without_masked_elements_is_an_array():
    assert pb.function(lambda x: x * 2)(np.ma.masked_array(np.arange(3.0))).tolist() == [0.0, 2.0, 4.0]


def test_memory_maps_and_other_subclasses_are_arrays(tmp_path):
    np.arange(6.0).tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", np.float64, "r", shape=(2, 3))
    twice = pb.function(lambda x: x * 2)
    for x in (mapped, np.asarray(mapped).view(type("Own", (np.ndarray,), {})), mapped[::-1]):
        assert np.array_equal(twice(x), 2 * np.asarray(x))
        assert np.array_equal(pb.grad(lambda x: pb.sum(x * x))(x), 2 * np.asarray(x))
