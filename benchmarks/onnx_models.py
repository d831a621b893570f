"""The onnx package's light models: outputs, gradients and times, beside torch and onnxruntime.

python -m benchmarks.onnx_models [--models squeezenet ..] [--out benchmarks/results/onnx.md]

Outputs are compared with those that the package has for each model (within 1e-4), and with the same graph on torch's
functions. Gradients, of the sum of the outputs times random numbers, by the input and by all weights, are compared
with torch's. The weights of most models are one number each, so a second run puts random ones (seeded) in their
place, which a fault in the order of channels or weights would show. Rows are written as they come. PyTorch and
onnxruntime may be absent; their columns are empty then.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from benchmarks.harness import turns
from pullback.onnx import load
from pullback.onnx.graph import Graph, library, read

WITHIN = 1e-4
SMALL = 1e-3  # gradients by an array, beside those by others, below which they are not compared
HEAD = """# Light models of ONNX

`python -m benchmarks.onnx_models --out benchmarks/results/onnx.md` writes this page.

Each model runs with the weights of its file, and again with random weights and inputs. Outputs are compared with those
that come with the package onnx, and with those of the same graph on torch's functions. The table has the largest
differences. Outputs of the package are to be within 1e-4, without `pb.exact()`.

Gradients are those of a sum of the outputs times random numbers, by the input and all weights. They are compared with
PyTorch in double precision, for Pullback and for PyTorch in single precision. The unit is the largest element of an
array. Arrays whose gradients are below a thousandth of the largest are left out.

* Where each weight array of a file is filled with one number, gradients vanish by symmetry. What is left may be
  rounding, so the random weights are the real test. For these, the last softmax is left out, and the unit of outputs
  is the largest one.
* Rounding can put a number on the other side of a relu, or another element first in a maximum. Single elements of a
  gradient then differ more. In DenseNet's worst array this is one channel of 704; the others are within 3e-7.

Times are milliseconds of one image on one thread, the smallest of five calls, not on a quiet machine.

`python -m tests.unit.onnx.nodes` runs the tests of single operators that come with the package. Of 1,884 tests, 1,795
pass, and none gives other values. `python -m tests.support.damage --files 10000` damages the package's small files.
Every damaged file is read, or refused with an error that says where.

| model | output, of the package | of torch | gradients: ours | torch's | random weights: output | gradients: ours |\
 torch's | ours, ms | onnxruntime, ms |
|---|---|---|---|---|---|---|---|---|---|
"""


def models() -> dict[str, Path]:
    """The files by the names of the models."""
    folder = Path(str(library().__file__)).parent / "backend" / "test" / "data" / "light"
    return {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("*.onnx"))}


# The same graph on torch ------------------------------------------------------------------------------------------


class Torch:
    """A graph on torch's functions, for the operators of the light models."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.torch = importlib.import_module("torch")
        self.f = self.torch.nn.functional

    def run(self, values: Mapping[str, Any]) -> Any:
        """The result, for weights and inputs by their names."""
        known = {n: self.torch.from_numpy(np.array(a)) for n, a in self.graph.arrays.items()}
        known |= values
        for node in self.graph.nodes:
            if not all(n in known for n in node.outputs[:1]):
                given = [known[n] for n in node.inputs if n]
                known[node.outputs[0]] = getattr(self, f"_{node.op}")(node.attributes, *given)
        return known[self.graph.outputs[0].name]

    def gradients(self, arrays: Mapping[str, Any], dtype: Any) -> tuple[Any, dict[str, Any]]:
        """The result, and the gradients by all arrays."""
        leaves = {n: self.torch.from_numpy(np.array(a)).to(dtype).requires_grad_() for n, a in arrays.items()}
        found = self.run(leaves)
        (found * self.torch.from_numpy(outward(found.shape))).sum().backward()
        return found.detach().numpy(), {n: v.grad.numpy() for n, v in leaves.items() if v.grad is not None}

    def _padded(self, x: Any, a: Mapping[str, Any], value: float) -> Any:
        pads = a.get("pads", (0, 0, 0, 0))
        assert a.get("auto_pad", "NOTSET") == "NOTSET"
        top, left, bottom, right = pads
        return self.f.pad(x, (left, right, top, bottom), value=value)

    def _ConstantOfShape(self, a: Mapping[str, Any], shape: Any) -> Any:
        value = np.ravel(a.get("value", np.float32(0)))[0]
        return self.torch.from_numpy(np.full(shape.tolist(), value))

    def _Conv(self, a: Mapping[str, Any], x: Any, w: Any, b: Any = None) -> Any:
        strides, dilations = a.get("strides", (1, 1)), a.get("dilations", (1, 1))
        return self.f.conv2d(self._padded(x, a, 0.0), w, b, strides, 0, dilations, a.get("group", 1))

    def _BatchNormalization(self, a: Mapping[str, Any], x: Any, *s: Any) -> Any:
        scale, shift, mean, variance = s
        scale, shift, mean, variance = (v.reshape(-1, 1, 1) for v in (scale, shift, mean, variance))
        return (x - mean) / (variance + a.get("epsilon", 1e-5)).sqrt() * scale + shift

    def _MaxPool(self, a: Mapping[str, Any], x: Any) -> Any:
        return self.f.max_pool2d(self._padded(x, a, -np.inf), a["kernel_shape"], a.get("strides", (1, 1)))

    def _AveragePool(self, a: Mapping[str, Any], x: Any) -> Any:
        window, strides = a["kernel_shape"], a.get("strides", (1, 1))
        total = self.f.avg_pool2d(self._padded(x, a, 0.0), window, strides)
        if a.get("count_include_pad", 0):
            return total
        return total / self.f.avg_pool2d(self._padded(self.torch.ones_like(x), a, 0.0), window, strides)

    def _GlobalAveragePool(self, a: Mapping[str, Any], x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def _LRN(self, a: Mapping[str, Any], x: Any) -> Any:
        return self.f.local_response_norm(x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0))

    def _Gemm(self, a: Mapping[str, Any], x: Any, w: Any, b: Any) -> Any:
        x, w = (x.T if a.get("transA") else x), (w.T if a.get("transB") else w)
        return a.get("alpha", 1.0) * (x @ w) + a.get("beta", 1.0) * b

    def _Softmax(self, a: Mapping[str, Any], x: Any) -> Any:
        axis = a.get("axis", 1)  # before version 13: of all axes from this one on
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        return flat.softmax(1).reshape(x.shape)

    def _Reshape(self, a: Mapping[str, Any], x: Any, shape: Any) -> Any:
        return x.reshape([x.shape[k] if n == 0 else n for k, n in enumerate(shape.tolist())])

    def _Unsqueeze(self, a: Mapping[str, Any], x: Any) -> Any:
        for axis in sorted(a["axes"]):
            x = x.unsqueeze(axis)
        return x

    def _Transpose(self, a: Mapping[str, Any], x: Any) -> Any:
        return x.permute(a["perm"])

    def _Concat(self, a: Mapping[str, Any], *parts: Any) -> Any:
        return self.torch.cat(parts, a["axis"])

    def _Sum(self, a: Mapping[str, Any], *terms: Any) -> Any:
        return sum(terms[1:], terms[0])

    def _Relu(self, a: Mapping[str, Any], x: Any) -> Any:
        return self.f.relu(x)

    def _Dropout(self, a: Mapping[str, Any], x: Any) -> Any:
        return x

    def _Mul(self, a: Mapping[str, Any], x: Any, y: Any) -> Any:
        return x * y

    def _Add(self, a: Mapping[str, Any], x: Any, y: Any) -> Any:
        return x + y


# One model --------------------------------------------------------------------------------------------------------


def drawn(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Random weights: matrices that preserve magnitudes, and numbers about 1 for each channel."""
    random = np.random.default_rng(7)
    out = {}
    for name, array in sorted(parameters.items()):
        if array.ndim > 1:
            out[name] = random.normal(size=array.shape, scale=np.sqrt(2 / np.prod(array.shape[1:])))
        else:
            out[name] = random.uniform(0.5, 1.5, array.shape)
        out[name] = out[name].astype(array.dtype)
    return out


def without_softmax(path: Path) -> Any:
    """The model without its last softmax, which random weights saturate, with vanishing gradients."""
    model = library().load(path)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output[0].name = last.input[0]
        del model.graph.node[-1]
    return model


def apart(ours: Any, theirs: Any, relative: bool = False) -> float:
    """The largest difference; of the largest element where it is relative."""
    most = float(np.max(np.abs(theirs), initial=0.0)) if relative else 1.0
    worst = float(np.max(np.abs(np.asarray(ours, np.float64) - theirs), initial=0.0))
    return worst / most if most else worst


def compared(f: Any, graph: Graph, parameters: Mapping[str, Any], x: Any, name: str) -> tuple[float, float, float]:
    """The output's difference from torch, and that of gradients from torch in double, ours and torch's."""
    theirs = Torch(graph)
    arrays = {**parameters, name: x}
    wanted, single = theirs.gradients(arrays, theirs.torch.float32)
    _, exact = theirs.gradients(arrays, theirs.torch.float64)

    def loss(parameters: Any, x: Any, weights: Any) -> Any:
        return pb.sum(f(parameters, x) * weights)

    by_weights, by_input = pb.grad(pb.function(loss), wrt=("parameters", "x"))(parameters, x, outward(wanted.shape))
    ours = {**by_weights, name: by_input}
    sizes = {n: float(np.abs(g).max()) for n, g in exact.items()}
    seen = [n for n, size in sizes.items() if size >= SMALL * max(sizes.values())]  # others are rounding
    worst = [max(apart(g[n], exact[n], relative=True) for n in seen) for g in (ours, single)]
    size = max(1.0, float(np.abs(wanted).max()))
    return apart(f(parameters, x), wanted) / size, worst[0], worst[1]


def outward(shape: Sequence[int]) -> Any:
    """The factor that outputs are multiplied by."""
    return np.random.default_rng(5).normal(size=tuple(shape)).astype(np.float32)


def least(call: Callable[[], Any], calls: int = 5) -> float:
    """Seconds of the quickest of some calls."""
    call()
    return min(turns([call], calls)[0])


def runtime_seconds(path: Path, name: str, x: Any) -> float | None:
    """Seconds of one inference by onnxruntime with one thread; None where it is not installed."""
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError:
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return least(lambda: session.run(None, {name: x}))


def row(model: str, path: Path) -> str:
    """A model's row of the table."""
    onnx, graph = library(), read(path)
    f, parameters = load(path)
    (given,) = [i for i in graph.inputs if i.name not in parameters and i.extents is not None]
    shape = [int(e) for e in given.extents or ()]
    x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    stored = onnx.TensorProto()
    stored.ParseFromString((path.parent / f"{path.stem}_output_0.pb").read_bytes())
    found = apart(f(parameters, x), onnx.numpy_helper.to_array(stored))
    cells = [f"{found:.1e}" + ("" if found <= WITHIN else " **too far**")]
    try:
        importlib.import_module("torch").set_num_threads(1)
        cells += [f"{d:.1e}" for d in compared(f, graph, parameters, x, given.name)]
        open_end = without_softmax(path)
        random_x = np.random.default_rng(3).normal(size=x.shape).astype(x.dtype)  # in a ramp neighbors nearly tie
        end = load(open_end)[0], read(open_end), drawn(parameters)
        cells += [f"{d:.1e}" for d in compared(*end, random_x, given.name)]
    except ImportError:
        cells += [""] * 6
    with pb.threads(1):
        ours, theirs = least(lambda: f(parameters, x)), runtime_seconds(path, given.name, x)
    cells += [f"{1000 * ours:.1f}", "" if theirs is None else f"{1000 * theirs:.1f}"]
    return f"| {model} | {' | '.join(cells)} |\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it where it is wanted; 1 where an output is too far off."""
    parser = argparse.ArgumentParser(description=__doc__)
    there = models()
    parser.add_argument("--models", nargs="+", default=sorted(there, key=lambda n: there[n].stat().st_size))
    parser.add_argument("--out", type=Path, help="also write the page there")
    options = parser.parse_args(arguments)
    text = HEAD
    for model in options.models:
        made = row(model, there[model])
        print(made, end="", flush=True)
        text += made
        if options.out:
            options.out.write_text(text, encoding="utf-8")
    return int("too far" in text)


if __name__ == "__main__":
    raise SystemExit(main())
