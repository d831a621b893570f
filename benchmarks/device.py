"""Times on a GPU beside PyTorch, JAX and CuPy.

The results of all systems are compared before anything is timed. A time is that of a call among many that are queued
together, with arrays that are on the device: the larger of what the host and what the device need. Systems that are not
installed, or give other results, have a dash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from benchmarks.harness import Note
from benchmarks.networks import NETWORKS, RATE, Network
from benchmarks.suite import microseconds, shown
from benchmarks.systems.networks_torch import loss_of
from pullback import nn
from pullback.ir.settings import Tune
from pullback.ir.types import bf16
from pullback.runtime.device.listing import gpu
from pullback.tracing import tree

SYSTEMS: Final = ("pullback", "torch", "torch compiled", "jax", "cupy")
HEAD: Final = ("case", *(f"{s}, µs" for s in SYSTEMS), "best other / pullback", "TB/s", "TFLOP/s")
SPAN: Final = 0.06  # seconds of queued calls
ROUNDS: Final = 5
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Something to compute.

    Attributes:
        name: as on the command line.   inputs: gives the arrays.
        of: what each system computes: a function of its namespace and its arrays.
        special: the same for systems that say it otherwise.
        bytes, flops: what is moved when each array is counted once, and the operations.
        tolerance: the largest difference, relative to the largest element.
        half: the type of 16 bits to which arrays are converted first; empty for none.
    """

    name: str
    inputs: Callable[[], Sequence[NDArray[Any]]]
    of: Callable[..., Any]
    bytes: float = 0.0
    flops: float = 0.0
    tolerance: float = 1e-4
    special: Mapping[str, Callable[..., Any]] | None = None
    half: str = ""

    def function(self, system: str) -> Callable[..., Any]:
        """The function of a system."""
        return (self.special or {}).get(system, self.of)


def _normal(*shapes: tuple[int, ...]) -> Callable[[], list[NDArray[Any]]]:
    def drawn() -> list[NDArray[Any]]:
        r = np.random.default_rng(0)
        return [r.standard_normal(s, np.float32) for s in shapes]

    return drawn


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def _normalized(xp: Any, x: Any) -> Any:
    centered = x - xp.mean(x, axis=1, keepdims=True)
    return centered / xp.sqrt(xp.mean(centered * centered, axis=1, keepdims=True) + 1e-5)


def _product(m: int, k: int, n: int, many: int = 0, half: str = "") -> Case:
    batch = (many,) if many else ()
    name = (f"product {many} x {m}" if many else f"product {m} x {k} x {n}") + f" {half}" * bool(half)
    moved = (2 if half else 4) * max(many, 1) * (m * k + k * n + m * n)
    return Case(name, _normal((*batch, m, k), (*batch, k, n)), lambda _, x, y: x @ y, moved,
                2 * max(many, 1) * m * k * n, 2e-2 if half else 1e-3, half=half)  # fmt: skip


def _convolution(batch: int, channels: int, size: int) -> Case:
    def pullback(_: Any, x: Any, w: Any) -> Any:
        layer = nn.conv(channels, 3, padding=1, bias=False).on(f"{batch} {channels} {size} {size}")
        return layer.apply({"w": w}, {}, x)[0]

    def torch(lib: Any, x: Any, w: Any) -> Any:
        return lib.nn.functional.conv2d(x, w, padding=1)

    def jax(_: Any, x: Any, w: Any) -> Any:
        return import_module("jax").lax.conv_general_dilated(x, w, (1, 1), "SAME", precision="highest")

    moved = 4 * (2 * batch * channels * size**2 + 9 * channels**2)
    return Case(f"convolution {batch} x {channels} x {size}", _normal((batch, channels, size, size),
                (channels, channels, 3, 3)), pullback, moved, 18 * batch * channels**2 * size**2, 1e-3,
                {"torch": torch, "jax": jax, "cupy": _missing})  # fmt: skip


def _missing(*_: Any) -> Any:
    raise NotImplementedError


N: Final = 1 << 26
KERNELS: Final = (
    Case("small", _normal((1000,)), lambda _, x: x * 2 + 1),
    Case("multiply-add", _normal((N,), (N,)), lambda _, x, y: x * 2 + y, 12 * N),
    Case("tanh", _normal((N,), (N,)), lambda xp, x, y: xp.tanh(x) * y, 12 * N),
    Case("row sums", _normal((16384, 4096)), lambda xp, x: xp.sum(x, axis=1), 4 * N),
    Case("long row sums", _normal((64, N // 64)), lambda xp, x: xp.sum(x, axis=1), 4 * N, tolerance=1e-3),
    Case("short row sums", _normal((N // 64, 64)), lambda xp, x: xp.sum(x, axis=1), 4 * N),
    Case("column sums", _normal((16384, 4096)), lambda xp, x: xp.sum(x, axis=0), 4 * N),
    Case("sum", _normal((N,)), lambda xp, x: xp.sum(x), 4 * N, tolerance=1e-1),
    Case("transpose", _normal((8192, 8192)), lambda _, x: x.T * 2, 8 * N),
    Case("softmax", _normal((16384, 4096)), _softmax, 8 * N,
         special={"torch": lambda lib, x: lib.softmax(x, 1)}),
    Case("normalized rows", _normal((16384, 4096)), _normalized, 8 * N,
         special={"torch": lambda lib, x: lib.nn.functional.layer_norm(x, (4096,))}),
    Case("argmax of rows", _normal((16384, 4096)), lambda xp, x: xp.argmax(x, axis=1), 4 * N, tolerance=0.0),
    Case("cumulative sums", _normal((16384, 4096)), lambda xp, x: xp.cumsum(x, axis=1), 8 * N, tolerance=1e-3,
         special={"pullback": lambda _, x: pb.cumulative_sum(x, axis=1)}),
    Case("sort", _normal((4096, 4096)), lambda xp, x: xp.sort(x, axis=1), 8 * 4096**2,
         special={"torch": lambda lib, x: lib.sort(x, 1)[0]}),
    _product(512, 512, 512), _product(1024, 1024, 1024), _product(2048, 2048, 2048), _product(4096, 4096, 4096),
    _product(64, 4096, 4096), _product(128, 128, 128, 64),
    *(_product(n, n, n, half="bfloat16") for n in (1024, 2048, 4096, 8192)), _product(64, 4096, 4096, half="bfloat16"),
    _product(512, 512, 512, 64, half="bfloat16"), _product(4096, 4096, 4096, half="float16"),
    _convolution(32, 64, 56),
)  # fmt: skip


# Systems --------------------------------------------------------------------------------------------------------


def _pullback(case: Case, arrays: Sequence[NDArray[Any]], tune: Tune = False) -> Call:
    f, on = case.function("pullback"), pb.function(device="cuda!", tune=tune)
    made = on(lambda x: f(pb, x)) if len(arrays) == 1 else on(lambda x, y: f(pb, x, y))
    given = [pb.device_put(a, "cuda:0") for a in arrays]
    if case.half:
        halved = on(lambda x: x.astype(getattr(pb, case.half)))
        given = [halved(a) for a in given]
    return lambda: made(*given)


def _torch(case: Case, arrays: Sequence[NDArray[Any]]) -> Call:
    lib = import_module("torch")
    lib.backends.cuda.matmul.allow_tf32 = lib.backends.cudnn.allow_tf32 = False
    given, f, space = _tensors(lib, case, arrays), case.function("torch"), _TorchWords(lib)
    return lambda: f(space, *given)


def _tensors(lib: Any, case: Case, arrays: Sequence[NDArray[Any]]) -> list[Any]:
    return [lib.asarray(a, device="cuda", dtype=getattr(lib, case.half or "float32")) for a in arrays]


class _TorchWords:
    """PyTorch, whose maxima by an axis are only values."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, {"max": "amax"}.get(name, name))


def _compiled(case: Case, arrays: Sequence[NDArray[Any]]) -> Call:
    lib = import_module("torch")
    given, f, space = _tensors(lib, case, arrays), case.function("torch"), _TorchWords(lib)
    lib._dynamo.reset()  # it stops compiling a function anew after eight times
    whole = lib.compile(lambda *a: f(space, *a))
    return lambda: whole(*given)


def _jax(case: Case, arrays: Sequence[NDArray[Any]]) -> Call:
    lib = import_module("jax")
    lib.config.update("jax_default_matmul_precision", "highest")
    given, f = [lib.numpy.asarray(a, dtype=case.half or None) for a in arrays], case.function("jax")
    whole = lib.jit(lambda *a: f(lib.numpy, *a))
    return lambda: whole(*given)


def _cupy(case: Case, arrays: Sequence[NDArray[Any]]) -> Call:
    lib = import_module("cupy")
    given, f = [lib.asarray(a, dtype=case.half or None) for a in arrays], case.function("cupy")
    return lambda: f(lib, *given)


MAKERS: Final[Mapping[str, Callable[[Case, Sequence[NDArray[Any]]], Call]]] = {
    "pullback": _pullback, "torch": _torch, "torch compiled": _compiled, "jax": _jax, "cupy": _cupy}  # fmt: skip


def _numbers(x: Any) -> NDArray[Any]:
    """A result as an array of the host."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().float() if x.dtype.itemsize == 2 else x.detach().cpu()
    if getattr(x, "storage", None) == bf16:
        return (x.numpy().astype(np.uint32) << 16).view(np.float32)  # type: ignore[no-any-return]
    return np.asarray(x.get() if hasattr(x, "get") and not hasattr(x, "numpy") else x)


def _wait(x: Any) -> None:
    """Wait for the work queued so far, of which x is the last."""
    gpu("cuda:0").wait()
    kind = type(x).__module__.partition(".")[0]
    if kind == "torch":
        import_module("torch").cuda.synchronize()
    elif kind == "cupy":
        import_module("cupy").cuda.Device().synchronize()
    elif kind in ("jax", "jaxlib"):
        x.block_until_ready()


def time_of(call: Call) -> float:
    """The seconds of a call among many: the median of several rounds."""
    _wait(call())
    times, count = [], 1
    for _ in range(2 + ROUNDS):
        start = time.perf_counter()
        for _ in range(count - 1):
            call()
        _wait(call())
        times.append((time.perf_counter() - start) / count)
        count = max(1, min(2000, int(SPAN / times[-1])))
    return float(np.median(times[2:]))


def apart(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest difference, relative to the largest element of b."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.max(np.abs(a - b)) / max(1e-30, float(np.max(np.abs(b)))))


# Networks -------------------------------------------------------------------------------------------------------


def _step(network: Network, system: str) -> Call:
    """A step of training; the parameters of the next call are those that it gives."""
    layer, (x, target) = network.on(), network.inputs(network.batch)
    parameters, state = layer.init(0)
    if system == "pullback":
        return _our_step(layer, parameters, state, x, target)
    lib = import_module("torch")
    lib.backends.cuda.matmul.allow_tf32 = lib.backends.cudnn.allow_tf32 = False
    loss, leaves = loss_of(layer, parameters, state, x, target, "cuda")
    whole = lib.compile(loss, mode="reduce-overhead") if system == "torch compiled" else loss

    def call() -> Any:
        value = whole()
        gradients = lib.autograd.grad(value, leaves)
        with lib.no_grad():
            lib._foreach_add_(leaves, gradients, alpha=-RATE)
        return value

    return call


def _our_step(layer: Any, parameters: Any, state: Any, x: Any, target: Any) -> Call:
    loss = nn.objective(layer, nn.models.with_auxiliary(nn.cross_entropy))

    def step(carry: Any, x: Any, target: Any) -> Any:
        derived = pb.value_and_grad(loss, wrt="parameters", has_aux=True)
        (found, after), gradient = derived(carry[0], carry[1], (x, target))
        return (pb.tree_map(lambda p, g: p - RATE * g, carry[0], gradient), after), found

    f = pb.function(device="cuda!")(step)
    held = [tree.map_leaves(lambda a: pb.device_put(np.array(a), "cuda:0"), (parameters, state))]
    x, target = pb.device_put(x, "cuda:0"), pb.device_put(target, "cuda:0")

    def call() -> Any:
        held[0], value = f(held[0], x, target)
        return value

    return call


# The table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceCase:
    """A line of the table: its name, and what measures it with some systems.

    With `tuned`, there are lines of schedules that were measured, too, and of libraries.
    """

    name: str
    measure: Callable[[Sequence[str]], dict[str, Any]]
    tuned: Callable[[], list[dict[str, Any]]] | None = None


def _measured(name: str, calls: Mapping[str, Callable[[], Call]], tolerance: float, bytes: float = 0.0,
              flops: float = 0.0, wanted: NDArray[Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """Make the calls of all systems, compare their first results, then time them.

    Args:
        wanted: the right results; by default those of the first system.
    """
    seconds: dict[str, float | None] = dict.fromkeys(SYSTEMS)
    faults: dict[str, str] = {}
    for system, make in calls.items():
        try:
            call = make()
            found = _numbers(call())
            wanted = found if wanted is None else wanted
            if not (distance := apart(found, wanted)) <= tolerance:
                faults[system] = f"apart by {distance:.1e}"
            else:
                seconds[system] = time_of(call)
        except Exception as error:
            faults[system] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {"case": name, "seconds": seconds, "faults": faults, "bytes": bytes, "flops": flops}


def _kernel(case: Case, systems: Sequence[str]) -> dict[str, Any]:
    arrays = case.inputs()
    calls = {s: partial(make, case, arrays) for s, make in MAKERS.items() if s in systems}
    return _measured(case.name, calls, case.tolerance, case.bytes, case.flops)


def _tuned(case: Case) -> list[dict[str, Any]]:
    """Rows of Pullback alone, as it is, tuned, and with libraries; results are compared with the first."""
    arrays, rows = case.inputs(), []
    wanted = _numbers(_pullback(case, arrays)())
    ways: tuple[tuple[str, Tune], ...] = ("as estimated", False), ("tuned", True), ("with libraries", "libraries")
    for name, tune in ways:
        row = _measured(f"{case.name}, {name}", {"pullback": partial(_pullback, case, arrays, tune)}, case.tolerance,
                        case.bytes, case.flops, wanted)  # fmt: skip
        rows.append(row)
    return rows


def _training(network: Network, systems: Sequence[str]) -> dict[str, Any]:
    calls = {s: partial(_step, network, s) for s in SYSTEMS[:3] if s in systems}
    return _measured(f"step {network.name} {network.batch}", calls, np.inf if network.random else 1e-3)


CASES: Final = (*(DeviceCase(c.name, partial(_kernel, c), partial(_tuned, c)) for c in KERNELS),
                *(DeviceCase(f"step {n.name} {n.batch}", partial(_training, n)) for n in NETWORKS))  # fmt: skip


def bench_device(cases: Sequence[str], systems: Sequence[str], note: Note, tune: bool = False) -> list[dict[str, Any]]:
    """Measure the chosen cases on the first device of CUDA.

    Args:
        tune: whether to measure kernels of Pullback alone, as estimated, tuned, and with libraries.

    Raises:
        DeviceError: [E418] there is none.
    """
    note(gpu("cuda:0").entry.title)
    asked = [s for s in SYSTEMS if s.split()[0] in systems or s in systems]
    installed = [s for s in asked if s == "pullback" or find_spec(s.split()[0])]
    rows = []
    for case in CASES:
        if case.name not in cases or (tune and case.tuned is None):
            continue
        made = case.tuned() if tune and case.tuned is not None else [case.measure(installed)]
        rows += made
        for row, line in zip(made, cells(made), strict=True):
            note(" | ".join(line))
            for system, fault in row["faults"].items():
                note(f"    {system}: {fault}")
    return rows


def cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The cells of the table."""
    out = []
    for row in rows:
        times = row["seconds"]
        own = times["pullback"]
        others = [t for s, t in times.items() if s != "pullback" and t is not None]
        ratio = min(others) / own if own and others else None
        rates = [row[what] / own / 1e12 if own and row[what] else None for what in ("bytes", "flops")]
        out.append([row["case"], *(microseconds(times[s]) for s in SYSTEMS), shown(ratio), *map(shown, rates)])
    return out
