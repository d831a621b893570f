"""The training task: a network with a loss, or a traced function of parameters, state and batch."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pullback as pb
from pullback.data import Batches
from pullback.errors import UsageError
from pullback.nn.layer import Layer
from pullback.nn.metrics import is_of_all, metrics_of_parts, on_outputs
from pullback.nn.objective import LossOfParts, loss_of, objective
from pullback.nn.training.batch import check_batches, sized
from pullback.nn.training.history import VALIDATION_LOSS
from pullback.nn.training.labels import Labels, labels_of
from pullback.nn.training.step import pair
from pullback.tracing.array import type_text
from pullback.tracing.making import as_array

__all__ = ["Task", "check_source", "task_of"]

OF_TASK = ("parameters", "state", "batch")
OF_RUN = ("epoch", "step", "loss", VALIDATION_LOSS, "learning_rate", "samples_per_second", "seconds")


@dataclass(frozen=True)
class Task:
    """A task to train.

    Attributes:
        name, loss_name: the names in messages and checkpoints.
        loss: a traced function (parameters, state, batch) -> the loss, or the loss and the next state.
        measured: a traced function (parameters, state, batch) -> the loss and every traced metric, in inference mode;
            then the outputs, if there are metrics in Python.
        metrics: the names of the metrics.
        in_python: the metrics in Python, by their position among loss and metrics.
        parameters: the initial parameters.
        state: the initial state.
        labels: the classes of the network, or None.
        is_network: whether batches are pairs of inputs and targets.
    """

    name: str
    loss_name: str
    loss: Callable[..., Any]
    measured: Callable[..., Any]
    metrics: tuple[str, ...]
    parameters: Any
    state: Any
    labels: Labels | None = None
    in_python: Mapping[int, on_outputs] = field(default_factory=dict)
    is_network: bool = False

    def check_source(self, source: Batches, data: Any, name: str) -> None:
        """Check the labels of data now, and all that an iterable gives when it gives it.

        Args:
            source, data: the batches, and what they are made of.
            name: the name of the data in messages.
        Raises:
            DataError: [E513] a label is out of range.
        """
        check_source(self.labels, self.is_network, source, data, name)


def check_source(
    labels: Labels | None, is_network: bool, source: Batches, data: Any = None, name: str = "data"
) -> None:
    """Check the labels and the structure of batches, as `Task.check_source`.

    Raises:
        DataError: [E513] a label is out of range.
    """
    if labels is not None:
        labels.check_source(source, data, name)
    if is_network:
        check_batches(source)


def task_of(
    model: Any, loss: Any, batch: Any, metrics: Any,
    parameters: Any, state: Any, seed: int,
) -> Task:  # fmt: skip
    """Make a task of a network and a loss, or of a loss of parameters.

    Args:
        model: a Layer, or a loss function of (parameters, state, batch).
        loss: the loss function of a Layer's result and the target, or a dict or tuple of them.
        batch: the first batch.
        metrics: functions of a Layer's result and the target, or a dict of them; with a loss function, of (parameters,
            state, batch).
        parameters, state: the initial parameters and state; a Layer makes its own.
        seed: the seed for the initial parameters.
    Raises:
        UsageError: [E518] a Layer lacks a loss, a loss lacks parameters, or two metrics have one name.
        DataError: [E508] a Layer does not accept the data.
    """
    if isinstance(metrics, Mapping) and isinstance(model, Layer):
        metrics = metrics_of_parts(metrics, _name)
    if not isinstance(metrics, list | tuple):
        raise UsageError(
            "E518",
            f"fit: metrics is of type {type(metrics).__name__}, and a list of functions is needed",
            remedy="`metrics=[nn.metrics.accuracy]`: columns have the functions' names",
        )
    of_all = [m for m in metrics if is_of_all(m)]
    loss = loss_of(loss)
    parts = loss.columns if isinstance(loss, LossOfParts) else []
    names = (*parts, *map(_name, metrics))
    metrics = [on_outputs(_traced(m), _name(m)) if is_of_all(m) else m for m in metrics]
    if twice := [c for c, n in Counter((*names, *OF_RUN)).items() if n > 1]:
        raise UsageError(
            "E518", f"fit: two columns of the history would be {twice[0]}", remedy="a metric of another name"
        )
    in_python = {k: m for k, m in enumerate(metrics, 1 + len(parts)) if isinstance(m, on_outputs)}
    for m in metrics:
        if isinstance(model, Layer):
            _check_takes("the metric", m, ("result", "target"))
        elif not isinstance(m, on_outputs):
            _check_takes("the metric", m, OF_TASK)
    if not isinstance(model, Layer):
        if loss is not None or parameters is None:
            raise UsageError(
                "E518",
                f"fit: {_name(model)} is no network" + (" and no parameters are given" if loss is None else ""),
                remedy="`fit(net, loss, data, …)`, or `fit(loss, data, parameters=…, …)` with a loss of (parameters, "
                "state, batch)",
            )
        _check_takes("the loss", model, OF_TASK)
        if in_python:
            metric = _name(next(iter(in_python.values())))
            raise UsageError(
                "E518",
                f"fit: {metric} needs the outputs of a network, and {_name(model)} is a loss of parameters",
                remedy="`fit(net, loss, data, …)`",
            )

        def measured(parameters: Any, state: Any, batch: Any) -> list[Any]:
            loss = _number(model, pair(model(parameters, state, batch))[0])
            return [loss, *(_number(m, m(parameters, state, batch)) for m in metrics)]

        return Task(_name(model), _name(model), model, measured, names, parameters, {} if state is None else state)
    if loss is None:
        raise UsageError("E518", f"fit: no loss for {model}", remedy="`fit(net, nn.cross_entropy, data, …)`")
    _check_takes("the loss", loss, ("result", "target"))
    of_result: Callable[[Any, Any], Any] = loss

    def measured_network(parameters: Any, state: Any, batch: Any) -> list[Any]:
        y = model.apply(parameters, state, batch[0], training=False)[0]
        for of in of_all:
            _number(of, of(y, batch[1]))  # refuses arrays before training
        losses = [_number(of_result, of_result(y, batch[1]))]
        if isinstance(of_result, LossOfParts):
            losses += of_result.values(y, batch[1]).values()
        traced = (of for of in metrics if not isinstance(of, on_outputs))
        return [*losses, *(_number(of, of(y, batch[1])) for of in traced), *([y] if in_python else [])]

    net = sized(model, batch)
    started = net.init(seed) if parameters is None or state is None else ({}, {})
    return Task(
        str(model),
        _name(loss),
        objective(model, loss),
        measured_network,
        names,
        started[0] if parameters is None else parameters,
        started[1] if state is None else state,
        labels_of(net, loss, batch),
        in_python,
        True,
    )


def _check_takes(what: str, f: Any, arguments: tuple[str, ...]) -> None:
    """Refuse an object that is not a function of these arguments.

    Raises:
        UsageError: [E518] the object is not such a function.
    """
    try:
        inspect.signature(f).bind(*arguments)
    except (TypeError, ValueError) as error:
        if callable(f) and isinstance(error, ValueError):
            return  # the signature cannot be inspected
        listed = ", ".join(arguments)
        facts, remedy = (f"{_name(f)}: {error}",), f"`lambda {listed}: …`"
        if not callable(f):
            facts = (f"{type(f).__name__}{f' of shape {f.shape}' if hasattr(f, 'shape') else ''} is not a function",)
            remedy = "`nn.fit(net, loss, data, optimizer=…)`" if hasattr(f, "shape") else remedy
        raise UsageError("E518", f"fit: {what} is a function of ({listed})", facts=facts, remedy=remedy) from None


def _number(of: Any, value: Any) -> Any:
    """Return the result of a loss or a metric as a number that can be averaged over samples.

    Raises:
        UsageError: [E526] the result is not a single number.
    """
    found = as_array(value, _name(of))
    if found.rank:
        raise UsageError(
            "E526",
            f"{_name(of)} gives {type_text(found)}, and what is measured is one number, a mean over the batch",
            remedy="reduce it in a function of your own, e.g. with `pb.mean`",
        )
    return found


def _traced(metric: Callable[..., Any]) -> pb.Function:
    """The metric as a function of NumPy arrays."""
    return pb.function(lambda result, target: metric(result, target))


def _name(x: Any) -> str:
    if isinstance(x, functools.partial) and x.keywords:
        return f"{_name(x.func)}({', '.join(f'{k}={v}' for k, v in x.keywords.items())})"
    return str(getattr(x, "__name__", None) or x)
