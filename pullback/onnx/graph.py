"""ONNX files as plain values: nodes, arrays, and input types."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback import reading
from pullback.errors import DataError
from pullback.onnx.operators import find
from pullback.onnx.operators.common import DTYPES, NARROW

__all__ = ["Graph", "Input", "Node", "library", "names_for", "read", "refused"]

SET: Final = ("", "ai.onnx")  # the domain of the operators of the standard has two names


def library() -> ModuleType:
    """Import the package `onnx`.

    Raises:
        DataError: [E506] it is not installed.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        raise DataError("E506", "ONNX files need the package onnx", remedy="pip install 'pullback[onnx]'") from None
    found: ModuleType = onnx
    return found


@dataclass(frozen=True)
class Node:
    """A node of a graph: an operator with its inputs, outputs and attributes."""

    name: str
    op: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"node {self.name} ({self.op})" if self.name else f"node {self.op} -> {', '.join(self.outputs)}"


@dataclass(frozen=True)
class Input:
    """An input or output of a graph: name, element type and sizes, some of them symbolic."""

    name: str
    dtype: str  # "" if the element type is not supported
    extents: tuple[int | str, ...] | None


@dataclass(frozen=True)
class Graph:
    """A graph: nodes in topological order."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Input, ...]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    doc: str = ""
    narrow: Mapping[str, int] = field(default_factory=dict)  # codes of element types that arrays hold in wider ones

    def all_nodes(self) -> Iterator[Node]:
        """The nodes of the graph and of graphs in attributes."""
        for node in self.nodes:
            yield node
            for value in node.attributes.values():
                if isinstance(value, Graph):
                    yield from value.all_nodes()


def refused(node: Node | str, what: str, facts: Sequence[str] = (), remedy: str = "") -> DataError:
    """The error for an invalid node."""
    remedy = remedy or "`onnx.checker.check_model` on the file"
    return DataError("E522", f"{node}: {what}", facts=facts, remedy=remedy)


def read(source: Any) -> Graph:
    """Read the graph from a file, from its bytes, or from an `onnx.ModelProto`.

    Raises:
        DataError: [E501] there is no such file. [E520] it is no ONNX file. [E521] it has unsupported operators. [E522]
            a node or array is damaged. [E527] the file, or an array in it, is above the size limit.
    """
    onnx = library()
    model, folder, title = _model(onnx, source)
    versions = {("" if text(o.domain) in SET else text(o.domain)): int(o.version) for o in model.opset_import}
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        graph = _Reader(onnx, versions, folder).graph(model.graph)
        missing = _missing(graph)
        if missing:
            model = _expanded(onnx, model, missing)
            graph = _Reader(onnx, versions, folder).graph(model.graph)
            missing = _missing(graph)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            "E520", f"{title} is damaged: {type(error).__name__}: {error}", remedy="copy it again"
        ) from error
    if missing:
        lines = [f"{name} ({', '.join(where[:3])}{', …' if len(where) > 3 else ''})" for name, where in missing.items()]
        count = (
            "1 operator that there is none of"
            if len(missing) == 1
            else f"{len(missing)} operators that there are none of"
        )
        what = f"{title} has {count}: {', '.join(missing)}"
        raise DataError("E521", what, facts=lines, remedy="an export of the model without them")
    return graph


def _model(onnx: Any, source: Any) -> tuple[Any, Path, str]:
    """The model, the folder of its external data, and its name in errors."""
    if isinstance(source, onnx.ModelProto):
        return source, Path(), "the model"
    folder = Path()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        folder, title = path.parent, str(path)
        content = reading.content(path)
    else:
        content, title = bytes(source), "the model"
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:
        raise DataError(
            "E520", f"{title} is no ONNX file, or damaged", facts=(str(error),), remedy="copy it again"
        ) from None
    if not model.HasField("graph") or not model.graph.output or not model.opset_import:
        raise DataError(
            "E520", f"{title} is no ONNX file: it has no graph with a result, or no set of operators",
            remedy="copy it again",
        )  # fmt: skip
    return model, folder, title


def _missing(graph: Graph) -> dict[str, list[str]]:
    """The unsupported operators, with the names of their nodes."""
    out: dict[str, list[str]] = {}
    for node in graph.all_nodes():
        if node.op not in CONTROL and find(node.domain, node.op, node.version) is None:
            name = f"{node.domain}.{node.op}" if node.domain else node.op
            out.setdefault(name, []).append(node.name or node.outputs[0] if node.outputs else node.name)
    return out


CONTROL: Final = ("If", "Loop", "Scan")  # operators with graphs in attributes


def _expanded(onnx: Any, model: Any, missing: Mapping[str, Any]) -> Any:
    """Expand the missing operators that the standard defines in terms of others."""
    names = [tuple(["", name] if "." not in name else name.rsplit(".", 1)) for name in missing]
    try:
        return onnx.inliner.inline_selected_functions(model, names, inline_schema_functions=True)
    except Exception:
        return model  # they are reported as missing


class _Reader:
    """Converts objects of the package onnx to plain values."""

    def __init__(self, onnx: Any, versions: Mapping[str, int], folder: Path) -> None:
        self.onnx = onnx
        self.versions = versions
        self.folder = folder

    def graph(self, g: Any, inner: bool = False) -> Graph:
        """Convert a graph, top-level or in an attribute."""
        if len(g.sparse_initializer):
            raise DataError("E520", f"the graph {g.name} has sparse arrays, which are not read", remedy="dense ones")
        arrays = {text(t.name): self.array(t, f"the array {text(t.name)}") for t in g.initializer}
        given = [v for v in g.input if text(v.name) not in arrays]
        inputs = tuple(Input(text(v.name), "", None) if inner else self.input(v) for v in given)
        codes = {text(t.name): t.data_type for t in g.initializer}
        codes |= {text(v.name): v.type.tensor_type.elem_type for v in given}
        names = {n for v in (*arrays, *(i.name for i in inputs)) for n in (v,)}
        nodes = tuple(self.node(n) for n in g.node)
        for node in nodes:
            for out in node.outputs:
                if out and out in names:
                    raise refused(node, f"its result {out} is there already")
                names.add(out)
        outputs = tuple(Input(text(v.name), DTYPES.get(v.type.tensor_type.elem_type, ""), None) for v in g.output)
        narrow = {name: code for name, code in codes.items() if code in NARROW}
        return Graph(text(g.name), nodes, inputs, outputs, arrays, text(g.doc_string), narrow)

    def node(self, n: Any) -> Node:
        """Convert a node with its attributes."""
        name, op, domain = text(n.name), text(n.op_type), text(n.domain)
        domain = "" if domain in SET else domain
        inputs, outputs = tuple(map(text, n.input)), tuple(map(text, n.output))
        plain = Node(name, op, domain, self.versions.get(domain, 0), inputs, outputs, {})
        if domain not in self.versions:
            raise refused(plain, f"its domain {domain or 'ai.onnx'} has no version in the file")
        attributes = {text(a.name): self.attribute(plain, a) for a in n.attribute}
        return Node(name, op, domain, plain.version, inputs, outputs, attributes)

    def attribute(self, node: Node, a: Any) -> Any:
        """Convert the value of an attribute."""
        kinds = self.onnx.AttributeProto
        try:
            match a.type:
                case kinds.FLOAT:
                    return float(a.f)
                case kinds.INT:
                    return int(a.i)
                case kinds.STRING:
                    return a.s.decode()
                case kinds.FLOATS:
                    return tuple(map(float, a.floats))
                case kinds.INTS:
                    return tuple(map(int, a.ints))
                case kinds.STRINGS:
                    return tuple(s.decode() for s in a.strings)
                case kinds.TENSOR:
                    return self.array(a.t, f"{node}, attribute {text(a.name)}")
                case kinds.GRAPH:
                    return self.graph(a.g, inner=True)
        except UnicodeDecodeError:
            raise refused(node, f"its attribute {text(a.name)} is no text") from None
        raise refused(node, f"its attribute {text(a.name)} is of kind {a.type}, which is not read")

    def array(self, t: Any, title: str) -> NDArray[Any]:
        """Convert an array of the file."""
        if t.data_type not in DTYPES:
            raise refused(title, f"elements of type {t.data_type}, which arrays here do not have")
        extents = tuple(map(int, t.dims))
        if any(e < 0 for e in extents):
            raise refused(title, f"it has the sizes {list(extents)}")
        reading.check_size(title, extents, np.dtype(DTYPES[t.data_type].replace("bfloat", "float")).itemsize)
        self.check_place(t, title)
        try:
            found = self.onnx.numpy_helper.to_array(t, str(self.folder) if self.folder.parts else "")
        except Exception as error:
            raise refused(title, f"{type(error).__name__}: {error}") from None
        if found.shape != extents:
            raise refused(title, f"it says {list(extents)} and holds {list(found.shape)}")
        held = found.astype(DTYPES[t.data_type]) if t.data_type in NARROW else found
        return np.ascontiguousarray(held).reshape(extents)

    def check_place(self, t: Any, title: str) -> None:
        """Check the size of the external file that holds an array against the limit."""
        places = [entry.value for entry in t.external_data if entry.key == "location"]
        for place in places:
            file = self.folder / text(place)
            if file.is_file():
                reading.check_bytes(title, file.stat().st_size, f"its file {text(place)} has")

    def input(self, v: Any) -> Input:
        """Convert the description of an input; its type must be an array of numbers."""
        name = text(v.name)
        tensor = v.type.tensor_type
        if not v.type.HasField("tensor_type") or tensor.elem_type not in DTYPES:
            raise refused(f"the input {name}", "it is no array of numbers")
        if not tensor.HasField("shape"):
            return Input(name, DTYPES[tensor.elem_type], None)
        extents: list[int | str] = []
        for k, d in enumerate(tensor.shape.dim):
            if d.HasField("dim_value"):
                if d.dim_value < 0:
                    raise refused(f"the input {name}", f"it has a size of {d.dim_value}")
                extents.append(int(d.dim_value))
            else:
                extents.append(identifier(text(d.dim_param) or f"{name}_{k}"))
        return Input(name, DTYPES[tensor.elem_type], tuple(extents))


def text(value: Any) -> str:
    """Decode a name of the file; the parser returns damaged names as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def identifier(name: str) -> str:
    """Turn a name into an identifier that Python and C accept."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    return plain if plain[0].isalpha() and plain not in ("out", "lambda") else f"x_{plain}"


def names_for(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Turn names into unique Python identifiers."""
    out: list[str] = []
    for name in names:
        own, k = identifier(name), 1
        while own in out or own in taken:
            k += 1
            own = f"{identifier(name)}_{k}"
        out.append(own)
    return out
