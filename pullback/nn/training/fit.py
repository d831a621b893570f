"""`fit` and `evaluate`, and the preparation of their arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.data import Batches, Dataset, Shards, Splits, batches_of
from pullback.data.loader import first_batch
from pullback.data.sequences import with_padded_rows
from pullback.errors import UsageError, counted
from pullback.ir.settings import MemoryMode
from pullback.nn.layer import Layer
from pullback.nn.optimizers import Optimizer, check_descends, ema
from pullback.nn.optimizers.scaled import Scaled
from pullback.nn.settings import check_seed
from pullback.nn.training.callbacks import check_callbacks
from pullback.nn.training.checkpoint import Best, Checkpoints, Folder, Resume
from pullback.nn.training.devices import Devices, DeviceUpdates
from pullback.nn.training.feeds import OfShards, ShardBatches
from pullback.nn.training.history import VALIDATION_LOSS
from pullback.nn.training.loop import Run, Training
from pullback.nn.training.monitors import EarlyStopping, ReduceLROnPlateau
from pullback.nn.training.report import Progress
from pullback.nn.training.sameness import PARTS, WHOLE, shared
from pullback.nn.training.shared import SharedUpdates, Workers, feed_of
from pullback.nn.training.step import Carry, Updates
from pullback.nn.training.task import check_source, task_of
from pullback.nn.training.validation import sized_batches, validation_of
from pullback.tracing import tree

__all__ = ["evaluate", "fit", "predict"]

HOW: Final = ("newest intact", "anyway")


def fit(
    model: Any,
    loss: Any,
    data: Any = None,
    *,
    optimizer: Any,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    parameters: Any = None,
    state: Any = None,
    validation_data: Any = None,
    validation_batch_size: int | None = None,
    metrics: Sequence[Callable[..., Any]] | Mapping[str, Any] = (),
    save: str | Checkpoints | None = None,
    resume: Resume = None,
    progress: bool | Callable[[Progress], None] = True,
    early_stopping: EarlyStopping | int | None = None,
    callbacks: Sequence[Any] = (),
    average: Any = None,
    shuffle: bool = True,
    drop_last: bool = True,
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    swap: bool | str | os.PathLike[str] = False,
    threads: int | None = None,
    debug: bool = False,
    device: str | None = None,
    devices: Sequence[str] | Devices | None = None,
    workers: int | Workers | None = None,
) -> Run:
    """Train a network, or minimize a traced loss function.

    Args:
        model: a Layer; or, with `loss` left out, a traced function (parameters, state, batch) that gives the loss, or
            the loss and the next state.
        loss: a function of a Layer's result and the target that returns one number, the mean over the batch. Of several
            results, a dict (or tuple) of such functions, whose values are added: each is a column `NAME_loss` of the
            history. None leaves a result out.
        data: a Dataset, a pair of them from `data.load` (the second is for validation), a tuple or dict of arrays with
            a common first size, an iterable of batches, or `data.Shards` that workers load. Jagged arrays in it are
            sequences of different lengths, for `nn.masked`.
        optimizer: an optimizer such as `nn.adam(1e-3)`, with `init` and `update`.
        epochs: the number of passes over the data.
        steps: the number of updates, instead of epochs.
        batch_size: the number of samples per batch; by default 32, or all samples if there are fewer.
        seed: the seed for the order of samples, random transformations, and a Layer's initial parameters.
        parameters: the initial parameters, which are not changed; a Layer makes its own.
        state: the initial state of the loss, which is not changed.
        validation_data: data that is evaluated in inference mode after every epoch.
        validation_batch_size: the number of samples per batch of this data; by default as many as make arrays of 4 MiB.
        metrics: traced functions that are measured on the validation data. Their arguments are a Layer's result and the
            target, or (parameters, state, batch) for a loss function. Each returns one number, a mean over the batch.
            Metrics of all samples at once, such as `nn.metrics.f1_score`, and functions in `nn.metrics.on_outputs` are
            measured on all outputs. Of several results, a dict of metrics or lists of them.
        save: a folder for checkpoints and the history, or `Checkpoints` with the frequency. If it holds checkpoints of
            this run, training continues from the last one. One run at a time may use it.
        resume: True requires a checkpoint, and False refuses one. "newest intact" skips damaged checkpoints and renames
            them to `.damaged`. "anyway" continues even if loss, optimizer, data, seed or batch size differ. If batches
            differ, the epoch starts again.
        progress: whether to show progress on standard error, or a callback that receives it between calls.
        early_stopping: the number of epochs without improvement before training stops, or an `EarlyStopping`.
        callbacks: functions of a `TrainingState`, called after every epoch, or objects with methods `on_epoch_end` or
            `on_batch_end`. With `on_batch_end`, each update is a call of its own. If a callback returns True, training
            ends. If it raises, the training so far is saved first. `ReduceLROnPlateau` stands here, too.
        average: the decay of moving averages of the parameters, such as 0.999, or a schedule (`nn.ema`). Validation and
            the best epoch are then of the averages, which are `run.averaged_parameters`; states stay those of training.
        shuffle: whether to shuffle the samples in every epoch; the seed determines the order.
        drop_last: whether to drop the last, smaller batch of an epoch. Keeping it requires a second compiled program.
        memory, memory_limit, swap, threads, debug: as in `pb.function`. With `swap` a call makes one update.
        device: as in `pb.function`. Parameters and states stay on it between updates.
        devices: several devices, such as `["cuda:0", "cuda:1"]`, each of which computes the gradients of its part of
            every batch; or `Devices` with more settings. The loss must be a mean over the batch. Layers with batch
            statistics or random numbers see only their part. Validation runs on the first device. With `workers`: a
            device for each worker.
        workers: the number of processes that train together, each on its parts of every batch, on this machine or on
            the cluster of `ray.init`; or `Workers` with more settings. The loss must be a mean over the batch. Layers
            with batch statistics or random numbers see only their part. A lost worker is replaced, which changes no
            bit of the result.
    Returns:
        The parameters and the record of the run. Ctrl-C ends training between two updates with the current result; a
        second Ctrl-C raises KeyboardInterrupt.
    Raises:
        DataError: [E508] the network does not accept the data, [E512] there is no data, [E513] a label is out of range,
            [E514] the loss is not finite; [E509], [E510], [E511], [E515], [E516] of checkpoints.
        UsageError: [E518] arguments contradict each other. [E526] A metric returns an array. With `workers`:
            [E713] Ray is not installed, [E712] the loss cannot be sent. LostError: [E711] all workers are lost.
        DeviceError: as in `pb.function`. With `devices`: [E418] one is missing, [E420] one has failed, [E423] they
            cannot work together. OutOfMemoryError: [E421] the arrays do not fit on a device.

    >>> from pullback import nn
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)
    >>> def loss(parameters, state, batch):
    ...     x, y = batch
    ...     return pb.mean((parameters["a"] * x + parameters["b"] - y) ** 2)
    >>> start = {"a": np.zeros((), np.float32), "b": np.zeros((), np.float32)}
    >>> how = {"optimizer": nn.sgd(0.3), "epochs": 20, "batch_size": 16, "progress": False}
    >>> run = nn.fit(loss, (x, 3 * x + 1), parameters=start, **how)
    >>> [round(float(run.parameters[n]), 3) for n in "ab"]
    [3.0, 1.0]
    """
    if data is None:
        loss, data = None, loss
    if isinstance(data, Splits):
        validation_data = data.test if validation_data is None else validation_data
        data = data.train
    data, validation_data = with_padded_rows(data), with_padded_rows(validation_data)
    check_seed("fit", seed)
    _check(epochs, steps, save, resume, early_stopping, drop_last, validation_batch_size)
    check_callbacks(callbacks)
    crew = workers if workers is None or isinstance(workers, Workers) else Workers(workers)
    several = devices if devices is None or isinstance(devices, Devices) else Devices(devices)
    if several is not None:
        _check_devices(several, device, crew, swap)
        device = f"{several.names[0]}!"
    order: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "drop_last": drop_last}
    if isinstance(data, Shards) and crew is None:
        data = data.load(0, 1)
    source: Batches = (
        ShardBatches(data, 0, crew.parts or crew.count, batch_size, **order)
        if isinstance(data, Shards) and crew is not None
        else batches_of(data, batch_size, **order)
    )
    first = first_batch(source)
    task = task_of(model, loss, first, metrics, parameters, state, seed)
    task.check_source(source, data, "data")
    check_descends("fit", optimizer)
    if average is not None:
        optimizer = _averaging(optimizer, average)
    plateaus = [c for c in callbacks if isinstance(c, ReduceLROnPlateau)]
    optimizer = Scaled(optimizer) if plateaus else optimizer
    options: dict[str, Any] = {"memory": memory, "memory_limit": memory_limit, "swap": swap, "threads": threads,
                               "device": device}  # fmt: skip
    options["debug"] = debug or None  # by default, the environment variable decides
    start = Carry(task.parameters, task.state, optimizer.init(task.parameters))
    if crew is not None:
        check = partial(check_source, task.labels, task.is_network)
        shards = OfShards(data, batch_size, order, check) if isinstance(data, Shards) else None
        updates: Updates = SharedUpdates(task.loss, optimizer, start, crew, source, first, feed_of(source, shards),
                                         devices=several, **options)  # fmt: skip
    elif several is not None:
        updates = DeviceUpdates(task.loss, optimizer, start, several, first, **options)
    else:
        updates = Updates(task.loss, optimizer, start, **options)
    updates.averages = average is not None
    training = Training(source, updates, epochs, steps, debug)
    if validation_data is not None:
        training.validation = validation_of(
            task, validation_data, "validation data", (VALIDATION_LOSS, *task.metrics), start, validation_batch_size,
            source.items or None, **options,
        )  # fmt: skip
    try:
        if early_stopping is not None and not isinstance(early_stopping, EarlyStopping):
            early_stopping = EarlyStopping(early_stopping)
        training.early_stopping, training.callbacks = early_stopping, callbacks
        training.plateau = plateaus[0] if plateaus else None
        training.check_columns()
        if save is not None or early_stopping is not None:
            training.best = Best(early_stopping or EarlyStopping(1))
        if save is not None:
            settings = order | ({"average": str(average)} if average is not None else {})
            settings[PARTS] = updates.parts or WHOLE
            alike = shared(task, training.source, optimizer, start, first, **settings)
            training.folder = Folder(save if isinstance(save, Checkpoints) else Checkpoints(str(save)), alike)
            split = crew or several
            training.folder.adopts = [PARTS] if split is not None and split.parts is None else []
            training.resume(resume)
            if updates.parts:
                updates.parts = int(alike[PARTS])
        return training.run(first, progress)
    finally:
        if training.folder is not None:
            training.folder.release()
        updates.end()


def evaluate(
    model: Any, loss: Any, data: Any = None, *, parameters: Any, state: Any = None,
    metrics: Sequence[Callable[..., Any]] | Mapping[str, Any] = (), batch_size: int | None = None, **options: Any,
) -> dict[str, float]:  # fmt: skip
    """Evaluate a network on data in inference mode: return the means of the loss and all metrics.

    Args:
        model, loss, data, metrics: as in `fit`.
        batch_size: the number of samples per batch; by default as many as make arrays of 4 MiB.
        parameters: the parameters of the network.
        state: the state of the network.
        options: the options of `pb.function`, such as `device="cuda"`.
    Returns:
        A dict of `loss` and every metric by name.
    Raises:
        DataError: [E508], [E513] as in `fit`.   UsageError: [E518] arguments contradict each other.
        DeviceError: as in `pb.function`.
    Cost:
        One inference for each batch. With `device`, parameters are copied to the device for each call.

    >>> from pullback import nn
    >>> f = lambda parameters, state, batch: pb.mean((parameters["a"] * batch[0] - batch[1]) ** 2)
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> nn.evaluate(f, (x, 3 * x), parameters={"a": np.array(2.0)}, batch_size=2)
    {'loss': 4.666666666666667}
    """
    if data is None:
        loss, data = None, loss
    data = with_padded_rows(data)
    first = first_batch(batches_of(data, batch_size, shuffle=False, drop_last=False))
    task = task_of(model, loss, first, metrics, parameters, {} if state is None else state, 0)
    carry = Carry(task.parameters, task.state, None)
    validation = validation_of(task, data, "data", ("loss", *task.metrics), carry, batch_size, **options)
    return validation.measured(carry, 0)


def predict(
    net: Any, data: Any, *, parameters: Any, state: Any = None, batch_size: int | None = None, **options: Any
) -> Any:
    """Return the results of a network for all samples, computed in batches in inference mode.

    Args:
        net: a Layer.
        data: the inputs, an array or a tree of arrays (N, ...); or a Dataset, whose transforms apply and whose targets
            are not used; or an iterable of batches of inputs.
        parameters: the parameters of the network.
        state: the state of the network.
        batch_size: the number of samples per batch; by default as many as make arrays of 4 MiB.
        options: the options of `pb.function`, such as `device="cuda"`.
    Returns:
        An array (N, ...), or a tree of arrays if the network has several results.
    Raises:
        DataError: [E512] there is no data.   ShapeError: the network does not accept the inputs.
        UsageError: [E518] the first argument is not a Layer.
    Cost:
        One inference for each batch. A last, smaller batch has a program of its own.

    >>> from pullback import nn
    >>> net = nn.dense(2).on("N 3")
    >>> parameters, _ = net.init(seed=0)
    >>> nn.predict(net, np.ones((1000, 3), np.float32), parameters=parameters).shape
    (1000, 2)
    """
    if not isinstance(net, Layer):
        raise UsageError(
            "E518", f"predict: {type(net).__name__} is no network", remedy="a Layer, such as `nn.dense(10)`"
        )
    state = {} if state is None else state
    data = with_padded_rows(data)

    def inputs_of(batch: Any) -> Any:
        return batch[0] if isinstance(data, Dataset) else batch

    def result(parameters: Any, state: Any, x: Any) -> Any:
        return net.apply(parameters, state, x, training=False)[0]

    function = pb.function(**options)(result)
    source = sized_batches(
        data, batch_size, lambda batch: function.program(parameters, state, inputs_of(batch)),
        memory_limit=options.get("memory_limit"),
    )  # fmt: skip
    found = [tree.map_leaves(np.asarray, function(parameters, state, inputs_of(batch))) for batch in _in_order(source)]
    return tree.map_leaves(lambda *parts: np.concatenate(parts), *found)


def _in_order(source: Any) -> Iterator[Any]:
    """All batches of a source once."""
    number = 0
    while source.steps is None or number < source.steps:
        stacked = source.stacked(0, number, 1)
        if stacked is None:  # the end of an iterable
            return
        yield tree.map_leaves(lambda x: x[0], stacked)
        number += 1


def _averaging(optimizer: Any, decay: Any) -> Optimizer:
    """The optimizer, with moving averages of the parameters.

    Raises:
        UsageError: [E518] the optimizer is not one of `pullback.nn`.
    """
    if not isinstance(optimizer, Optimizer):
        raise UsageError("E518", f"fit: average={decay!r} with an optimizer of type {type(optimizer).__name__}",
                         remedy="one of `pullback.nn`, or a subclass of `nn.Optimizer`")  # fmt: skip
    return optimizer >> ema(decay)


def _check(
    epochs: Any, steps: Any, save: Any, resume: Any, early_stopping: Any, drop_last: Any, validation_batch_size: Any
) -> None:
    """Refuse settings that would fail or be ignored during training.

    Raises:
        UsageError: [E518] arguments contradict each other or are invalid.
    """
    if (epochs is None) == (steps is None):
        raise UsageError("E518", "fit: exactly one of `epochs` and `steps` is needed", remedy="epochs=10")
    given = (
        ("epochs", epochs, epochs is None or _is_count(epochs), "a number of at least 0"),
        ("steps", steps, steps is None or _is_count(steps), "a number of at least 0"),
        ("drop_last", drop_last, isinstance(drop_last, bool), "True or False"),
        ("validation_batch_size", validation_batch_size,
         validation_batch_size is None or (_is_count(validation_batch_size) and validation_batch_size >= 1),
         "the number of samples in a batch, at least 1"),
        ("resume", resume, resume is None or isinstance(resume, bool) or resume in HOW,
         'True, False, "newest intact" or "anyway"'),
        ("resume", resume, not resume or save is not None, "`save=`, the folder of the run that is to go on"),
        ("early_stopping", early_stopping,
         early_stopping is None or isinstance(early_stopping, int | np.integer | EarlyStopping),
         "a number of epochs, or an `EarlyStopping`"),
    )  # fmt: skip
    for name, value, fits, remedy in given:
        if not fits:
            raise UsageError("E518", f"fit: {name}={value!r}", remedy=remedy)


def _check_devices(several: Devices, device: Any, crew: Workers | None, swap: Any) -> None:
    """Refuse settings that several devices contradict.

    Raises:
        UsageError: [E518] see `_check`.
    """
    names = [*several.names]
    if device is not None:
        raise UsageError("E518", f"fit: device={device!r} and devices={names}", remedy="one of the two")
    if swap:
        raise UsageError("E518", f"fit: swap={swap!r} with devices={names}", remedy="`swap` on the processor")
    if crew is not None and crew.count != len(names):
        raise UsageError("E518", f"fit: {counted(len(names), 'device')} for {counted(crew.count, 'worker')}",
                         remedy="a device for each worker")  # fmt: skip
    if crew is not None and several.parts is not None:
        raise UsageError("E518", f"fit: Devices(…, parts={several.parts}) with workers",
                         remedy=f"`workers=nn.Workers({crew.count}, parts={several.parts})`")  # fmt: skip


def _is_count(x: Any) -> bool:
    return isinstance(x, Real) and float(x) >= 0
