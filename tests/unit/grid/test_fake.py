"""The driver and the compiler for tests: refusals, failures on request, and the order of kernels."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from pullback.codegen.device.drivers import CUDA
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.buffer import address
from pullback.runtime.device import cuda as cuda_driver
from pullback.runtime.device.export import compiled_text, lowered_for
from tests.support.devices import fake
from tests.support.devices.hosted import hosted
from tests.unit.grid.programs import program

TEXT = """
extern "C" __global__ __launch_bounds__(256)
void doubled(const double *x, double *y, int n) {
    const int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < n) y[k] = 2 * x[k];
}
extern "C" __global__ __launch_bounds__(64)
void turned(double *x) {
    __shared__ double panel[64];
    panel[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = panel[63 - threadIdx.x];
}
extern "C" __global__ void apart(double *x) {
    if (threadIdx.x < 3) __syncthreads();
    x[threadIdx.x] = 1;
}
extern "C" __global__ void numbered(int *x) {
    static int last;
    if (!threadIdx.x && !blockIdx.x && gridDim.y) last = 0;
    x[blockIdx.x * blockDim.x + threadIdx.x] = last++;
}
extern "C" __global__ void divided(int *x, int by) { x[0] = 7 / by; }
"""



class Calls:
    """The driver's entry points, called in the context of device 0."""

    def __init__(self, driver: fake.Driver) -> None:
        self.driver, self.cu = driver, ctypes.CDLL(fake.DRIVER)
        context, module = c_void_p(), c_void_p()
        assert self.cu.cuInit(0) == 0 == self.cu.cuDevicePrimaryCtxRetain(byref(context), 0)
        assert self.cu.cuCtxPushCurrent_v2(context) == 0
        assert self.cu.cuModuleLoadData(byref(module), fake.compiled(TEXT)) == 0
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cu, f"cu{name}")

    def array(self, values: np.ndarray[Any, Any]) -> int:
        at = c_uint64()
        assert self.MemAlloc_v2(byref(at), c_size_t(values.nbytes)) == 0
        assert self.MemcpyHtoDAsync_v2(at, c_void_p(address(values)), c_size_t(values.nbytes), None) == 0
        return at.value

    def values(self, at: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.zeros_like(like)
        status = self.MemcpyDtoHAsync_v2(c_void_p(address(out)), c_uint64(at), c_size_t(out.nbytes), None)
        assert status == 0, (status, self.driver.message)
        return out

    def launch(self, name: str, groups: int, threads: int, *arguments: int, stream: Any = None, shared: int = 0) -> int:
        function = c_void_p()
        assert self.ModuleGetFunction(byref(function), self.module, name.encode()) == 0
        values = [c_uint64(a) for a in arguments]
        pointers = (c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        return int(self.LaunchKernel(function, groups, 1, 1, threads, 1, 1, shared, stream, pointers, None))


@pytest.fixture
def cu(cuda: fake.Driver) -> Iterator[Calls]:
    calls = Calls(cuda)
    yield calls
    cuda.reset()
    calls.ModuleUnload(calls.module)
    calls.CtxPopCurrent_v2(None)
    calls.DevicePrimaryCtxReset_v2(0)
    cuda_driver.gpus.cache_clear()  # their context is destroyed


X = np.arange(64.0)


def test_kernels(cu: Calls) -> None:
    x, y = cu.array(X), cu.array(np.zeros(64))
    assert cu.launch("doubled", 2, 32, x, y, 64) == 0
    assert cu.launch("turned", 1, 64, y) == 0
    np.testing.assert_array_equal(cu.values(y, X), 2 * X[::-1])
    assert cu.driver.count("cuLaunchKernel") == 2
    assert (cu.driver.count("bytes to devices"), cu.driver.count("bytes from devices")) == (1024, 512)


ORDERS = {
    "order=forward": [0, 1, 2, 3, 4, 5], "order=reversed": [5, 4, 3, 2, 1, 0], "multiprocessors=2": [0, 1, 4, 5, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize("setting", ORDERS)
def test_orders(cu: Calls, setting: str) -> None:
    name, _, value = setting.partition("=")
    at = cu.array(np.zeros(6, np.int32))
    cu.driver.set(**{name: value})
    if name == "multiprocessors":
        at = cu.array(np.zeros(6, np.int32))
    assert cu.launch("numbered", 3, 2, at) == 0
    found = cu.values(at, np.zeros(6, np.int32))
    assert list(found) == (ORDERS[setting] if setting != "order=reversed" else [0, 4, 3, 2, 1, 0])


def test_launches_that_are_refused(cu: Calls) -> None:
    x = cu.array(X)
    assert cu.launch("turned", 0, 64, x) == 1
    assert cu.launch("turned", 1, 2000, x) == 1
    assert cu.launch("turned", 1, 65, x) == 701
    assert cu.launch("turned", 1, 64, x, shared=49152) == 1
    assert cu.driver.message == "turned: 49664 bytes of shared memory"
    assert cu.launch("turned", 1, 64, x, stream=c_void_p(99)) == 400
    np.testing.assert_array_equal(cu.values(x, X), X)


FAULTS = {
    "past": (700, "doubled touches byte 512 of an allocation of 512"),
    "host": (700, "doubled: argument 0 is not in device memory"),
    "apart": (719, "apart: threads do not meet at one barrier"),
    "divided": (719, "divided divides an integer by 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_kernels(cu: Calls, name: str) -> None:
    """A fault is an error of the context, and the process goes on."""
    x = cu.array(X)
    match name:
        case "past":
            found = cu.launch("doubled", 2, 64, x, x, 65)
        case "host":
            found = cu.launch("doubled", 2, 64, address(X), x, 64)
        case "apart":
            found = cu.launch("apart", 1, 4, x)
        case _:
            found = cu.launch("divided", 1, 1, x, 0)
    assert (found, cu.driver.message) == FAULTS[name]
    assert cu.CtxSynchronize() == found
    cu.driver.reset()
    assert cu.CtxSynchronize() == 0


def test_memory(cu: Calls) -> None:
    """Copies are checked, new memory is filled with 0xEE, and an allocation beyond the limit fails."""
    x = cu.array(X)
    out = np.zeros(65)
    assert cu.MemcpyDtoHAsync_v2(c_void_p(address(out)), c_uint64(x), c_size_t(520), None) == 1
    assert cu.MemsetD8Async(c_uint64(x + 500), 0, c_size_t(13), None) == 1
    y = c_uint64()
    cu.driver.set(memory=1000)
    assert cu.MemAlloc_v2(byref(y), c_size_t(489)) == 2
    assert cu.driver.message == "512 bytes are in use, and 489 more asked for"
    assert cu.MemAlloc_v2(byref(y), c_size_t(488)) == 0
    assert set(cu.values(y.value, np.zeros(488, np.uint8))) == {0xEE}
    assert cu.MemFree_v2(y) == 0 and cu.MemFree_v2(y) == 1


def test_failures_on_request(cu: Calls) -> None:
    x = cu.array(X)
    cu.driver.fail("cuLaunchKernel", 719, after=2)
    assert [cu.launch("turned", 1, 64, x) for _ in range(3)] == [0, 719, 0]
    cu.driver.set(lost=2)
    assert [cu.CtxSynchronize() for _ in range(3)] == [0, 999, 999]


def test_late_work(cu: Calls) -> None:
    """Work runs when it is waited for, in the order of streams and events."""
    cu.driver.set(late=1)
    x, y = cu.array(X), cu.array(np.zeros(64))
    first, second, event = c_void_p(), c_void_p(), c_void_p()
    for s in (first, second):
        assert cu.StreamCreate(byref(s), 1) == 0
    assert cu.EventCreate(byref(event), 2) == 0 == cu.CtxSynchronize()
    assert cu.launch("doubled", 1, 64, x, y, 64, stream=first) == 0 == cu.EventRecord(event, first)
    assert cu.StreamWaitEvent(second, event, 0) == 0 == cu.launch("turned", 1, 64, y, stream=second)
    np.testing.assert_array_equal(cu.values(y, X), np.zeros(64))
    assert cu.StreamSynchronize(second) == 0 == cu.EventQuery(event)
    np.testing.assert_array_equal(cu.values(y, X), 2 * X[::-1])


def test_graphs(cu: Calls) -> None:
    stream, graph, made = c_void_p(), c_void_p(), c_void_p()
    x = cu.array(X)
    assert cu.StreamCreate(byref(stream), 1) == 0 == cu.StreamBeginCapture_v2(stream, 0)
    for _ in range(2):
        assert cu.launch("doubled", 1, 64, x, x, 64, stream=stream) == 0
    assert cu.StreamEndCapture(stream, byref(graph)) == 0
    np.testing.assert_array_equal(cu.values(x, X), X)
    assert cu.GraphInstantiateWithFlags(byref(made), graph, c_uint64(0)) == 0
    assert cu.GraphLaunch(made, stream) == 0 == cu.GraphLaunch(made, stream) == cu.StreamSynchronize(stream)
    np.testing.assert_array_equal(cu.values(x, X), 16 * X)


REFUSED = {"wait": (900, 2), "wait for all": (900, 2), "allocation": (900, 1), "freed": (900, 2), "asked": (900, 2)}


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("what", REFUSED)
def test_calls_that_end_a_capture(what: str, mode: int, cu: Calls) -> None:
    """A refused call spoils the capture, and the stream works again when it has ended."""
    stream, graph, y = c_void_p(), c_void_p(), c_uint64()
    x, other = cu.array(X), cu.array(X)
    assert cu.StreamCreate(byref(stream), 1) == 0 == cu.StreamBeginCapture_v2(stream, mode)
    match what:
        case "wait":
            found = cu.StreamSynchronize(stream)
        case "wait for all":
            found = cu.CtxSynchronize()
        case "allocation":
            found = cu.MemAlloc_v2(byref(y), c_size_t(8))
        case "freed":
            found = cu.MemFree_v2(c_uint64(other))
        case _:
            found = cu.StreamQuery(stream)
    error, most_strict = REFUSED[what]
    wanted = error if mode <= most_strict else 0
    assert found == wanted
    assert cu.launch("doubled", 1, 64, x, x, 64, stream=stream) == (901 if wanted else 0)
    assert cu.StreamEndCapture(stream, byref(graph)) == (901 if wanted else 0)
    assert bool(graph.value) == (not wanted)
    assert cu.launch("doubled", 1, 64, x, x, 64, stream=stream) == 0 == cu.StreamSynchronize(stream)
    np.testing.assert_array_equal(cu.values(x, X), 2 * X)


def test_the_null_stream_beside_a_capture(cu: Calls) -> None:
    """The null stream waits for streams that are not alone, which a captured one cannot do."""
    x = cu.array(X)
    for alone, wanted in ((1, 0), (0, 906)):
        stream, graph = c_void_p(), c_void_p()
        assert cu.StreamCreate(byref(stream), alone) == 0 == cu.StreamBeginCapture_v2(stream, 2)
        assert cu.launch("doubled", 1, 64, x, x, 64) == wanted
        assert cu.StreamEndCapture(stream, byref(graph)) == (901 if wanted else 0)


def test_failing_graphs(cu: Calls) -> None:
    """The end of a capture that fails on request ends it; living graphs are counted."""
    stream, graph, made = c_void_p(), c_void_p(), c_void_p()
    before = cu.driver.count("graphs")
    assert cu.StreamCreate(byref(stream), 1) == 0 == cu.StreamBeginCapture_v2(stream, 2)
    cu.driver.fail("cuStreamEndCapture", 999)
    assert cu.StreamEndCapture(stream, byref(graph)) == 999 and not graph.value
    assert cu.StreamEndCapture(stream, byref(graph)) == 401
    assert cu.StreamBeginCapture_v2(stream, 2) == 0 == cu.StreamEndCapture(stream, byref(graph))
    cu.driver.fail("cuGraphInstantiateWithFlags", 2)
    assert cu.GraphInstantiateWithFlags(byref(made), graph, c_uint64(0)) == 2
    assert cu.GraphInstantiateWithFlags(byref(made), graph, c_uint64(0)) == 0 == cu.GraphDestroy(graph)
    assert cu.driver.count("graphs") == before + 1
    assert cu.StreamBeginCapture_v2(stream, 2) == 0
    assert cu.GraphLaunch(made, stream) == 900
    cu.StreamEndCapture(stream, byref(graph))
    assert cu.GraphExecDestroy(made) == 0 and cu.GraphExecDestroy(made) == 400
    assert cu.driver.count("graphs") == before


def test_devices(cu: Calls) -> None:
    cu.driver.set(devices=2, multiprocessors=4, capability=80)
    number, context, module = c_int(), c_void_p(), c_void_p()
    assert cu.DeviceGetCount(byref(number)) == 0 and number.value == 2
    assert cu.DeviceGetAttribute(byref(number), 16, 1) == 0 and number.value == 4
    assert cu.DeviceGet(byref(number), 2) == 101
    assert cu.ModuleLoadData(byref(module), fake.compiled(TEXT)) == 209
    assert cu.driver.message == "the image is for sm_90a, the device is sm_80"
    x = cu.array(X)
    assert cu.DevicePrimaryCtxRetain(byref(context), 1) == 0 == cu.CtxPushCurrent_v2(context)
    assert cu.launch("turned", 1, 64, x) == 400
    assert cu.CtxPopCurrent_v2(None) == 0
    assert cu.launch("turned", 1, 64, x) == 0


def test_errors_of_the_compiler() -> None:
    with pytest.raises(ValueError, match=r"kernels.cu:2:.*error: .*missing.* was not declared"):
        fake.compiled('\nextern "C" __global__ void k(int *x) { x[0] = missing; }')
    with pytest.raises(ValueError, match="unrecognized option --fast"):
        fake.compiled(TEXT, "sm_90a", "--fast")


ODD = {
    "the name of a function of the C library": "random(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }",
    "no kernel": "same(x: f64[N]) { return x }",
    "no argument": "ones() { y = build n < 5 { f64(1.0) } return y }",
}  # fmt: skip


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_host_programs(text: str, cuda: fake.Driver) -> None:
    """Unusual programs compile without a warning, and give the interpreter's values."""
    made = parse_program(text)
    inputs = [np.arange(5.0)] * len(made.inputs)
    dims = {"N": 5} if made.inputs else {}
    with hosted(compiled_text(made, dims), lowered_for(made, dims).function) as call:
        found = call(inputs)
    assert found.status == 0, cuda.message
    np.testing.assert_array_equal(found.arrays[0], interpret(made, inputs)[0])


CLOSING = ("cuMemFree_v2", "cuModuleUnload", "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2")


def entries(text: str) -> list[str]:
    """The driver's entry points in a text."""
    return re.findall(r'"(cu[A-Z]\w+)"', text)


@pytest.mark.parametrize("call", entries(CUDA.text))
def test_each_call_of_the_host_program_may_fail(call: str, cuda: fake.Driver) -> None:
    """The program returns the error, leaves nothing allocated, and runs when it is opened again."""
    made = compiled_text(*program("branch"))
    function, x = lowered_for(*program("branch")).function, np.linspace(-1, 2, 130)
    with hosted(made, function) as whole:
        wanted = whole([x])
    before = cuda.count("bytes")
    cuda.reset()
    cuda.fail(call, 999)
    with hosted(made, function) as failing:
        status = failing.status or failing([x]).status
    assert status == (0 if not cuda.count(call) or call in (*CLOSING, "cuCtxPopCurrent_v2") else -999)
    if call not in CLOSING:
        assert cuda.count("bytes") == before
    cuda.reset()
    with hosted(made, function) as again:
        found = again([x])
    assert found.status == 0 and found.arrays[0].tobytes() == wanted.arrays[0].tobytes()
