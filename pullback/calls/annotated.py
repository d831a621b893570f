"""The check of a result against its annotation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.calls.annotations import function_annotations, python_function, spec_of
from pullback.calls.arguments import Leaf
from pullback.calls.extents import parse_dim
from pullback.calls.specs import AnySpec, ArraySpec, NumberSpec, OptionalSpec, Spec, TreeSpec
from pullback.errors import DTypeError, ShapeError, TraceError
from pullback.ir.index import DimSymbol, Index, cond, prove
from pullback.ir.traverse import Substitution
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.array import type_text
from pullback.tracing.making import as_array
from pullback.tracing.tracer import current


def result_spec(f: Callable[..., Any]) -> Spec:
    """The result specification from the annotation of f; unspecified for a missing or foreign annotation."""
    if "return" not in getattr(python_function(f), "__annotations__", {}):
        return AnySpec()
    annotation = function_annotations(f, ("return",)).get("return", Any)
    try:
        return spec_of(annotation, "the result")
    except (TraceError, DTypeError):
        return AnySpec()


def check_result(name: str, spec: Spec, result: Any, leaves: Sequence[Leaf]) -> None:
    """Refuse a result that contradicts its annotation. Dims without an argument are bound to its sizes.

    Raises:
        ShapeError: [E150] the sizes or the number of axes differ. DTypeError: [E150] the element type.
        TraceError: [E150] the structure.
    """
    if isinstance(spec, AnySpec) and spec.item is None:
        return
    own = {s for leaf in leaves for d in leaf.own_dims for s in d.symbols}
    _Check(name, own).walk(spec, result, "the result")


class _Check:
    def __init__(self, name: str, own: set[DimSymbol]) -> None:
        self.name = name
        self.own = own
        self.bound: dict[DimSymbol, Index] = {}

    def walk(self, spec: Spec, value: Any, path: str) -> None:
        """Compare one value of the result with its part of the annotation."""
        match spec:
            case OptionalSpec():
                if value is not None:
                    self.walk(spec.spec, value, path)
            case TreeSpec():
                self._tree(spec, value, path)
            case AnySpec() if spec.item is not None:
                node = tree.open_node(value)
                if node is None or node[0].kind not in ("list", "tuple", "dict"):
                    raise self._structure(value, path, "a container")
                for key, child in zip(node[0].keys, node[1]):
                    self.walk(spec.item, child, f"{path}[{key!r}]")
            case ArraySpec() | NumberSpec():
                self._array(spec, value, path)
            case _:
                pass

    def _tree(self, spec: TreeSpec, value: Any, path: str) -> None:
        node = tree.open_node(value)
        keys = tuple(k for k, _ in spec.fields)
        if node is None or node[0].kind != spec.kind or set(node[0].keys) != set(keys):
            wanted = f"{spec.text} of {len(keys)} items" if spec.kind == "tuple" else spec.text
            raise self._structure(value, path, wanted)
        children = dict(zip(node[0].keys, node[1]))
        for key, inner in spec.fields:
            self.walk(inner, children[key], path + tree.step(spec.kind, key))

    def _structure(self, value: Any, path: str, wanted: str) -> TraceError:
        found = tree.flatten(value)[1]
        return TraceError(
            "E150",
            f"{self.name}: {path} is {found}, its annotation says {wanted}; * is an array",
            position=user_position(),
            remedy="return what the annotation says, or change it",
        )

    def _array(self, spec: ArraySpec | NumberSpec, value: Any, path: str) -> None:
        if tree.open_node(value) is not None:
            raise self._structure(value, path, spec.text if isinstance(spec, ArraySpec) else spec.kind)
        h = as_array(value, path)
        if isinstance(spec, NumberSpec):
            kinds = {"int": h.settled.is_integer, "float": h.settled.is_floating, "bool": h.settled.is_bool}
            fits, right, wanted = h.rank == 0, kinds[spec.kind], str(spec.kind)
        else:
            fits, right, wanted = self._fits(spec, h.extents), h.storage in spec.dtypes, spec.text
        if fits and right:
            return
        raise (DTypeError if fits else ShapeError)(
            "E150",
            f"{self.name}: {path} is {type_text(h)}, its annotation says {wanted}",
            position=user_position(),
            remedy=f"return what the annotation says, or change it: `{_suggested(h.settled.numpy.name, h.extents)}`",
        )

    def _fits(self, spec: ArraySpec, extents: Sequence[Index]) -> bool:
        """Whether the dims of the annotation match these sizes."""
        at = spec.variadic
        if len(extents) != len(spec.dims) if at is None else len(extents) < len(spec.dims) - 1:
            return False
        return all(self._equal(t, e) for t, e in zip(spec.tokens(len(extents), "result"), extents, strict=True))

    def _equal(self, token: Any, extent: Index) -> bool:
        wanted = Substitution(dims=self.bound).index(parse_dim(token, "the result"))
        unknown = [s for s in wanted.symbols if s not in self.own and s not in self.bound]
        if unknown:
            if wanted.single is unknown[0]:
                self.bound[unknown[0]] = extent
            return True  # dims that only the annotation names
        return wanted is extent or prove(cond("==", wanted - extent), current().known)


def _suggested(dtype: str, extents: Sequence[Index]) -> str:
    dims = " ".join(str(e).replace(" ", "") for e in extents)
    return f'{dtype[0].upper()}{dtype[1:]}[Array, "{dims}"]'.replace("Uint", "UInt")
