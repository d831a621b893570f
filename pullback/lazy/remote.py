"""Experts: networks whose weights live in other processes, of this machine or of others.

    experts = [lazy.remote(net, optimizer=nn.adam(1e-3), worker=w) for w in lazy.workers(4) for net in nets]
    y = experts[int(gate)](x)               # a node like any other; nothing runs
    lazy.backward(loss(y, target))          # forward and backward happen where the weights are
    for e in experts: e.update()

Only values of operands and cotangents of results are sent, each once. Parameters, data saved for the backward pass,
gradients and optimizer state never leave their process. Each call has a number. It identifies the call's saved data and
fixes the order in which gradients are added. So concurrent calls in any order give the same result to the last bit.
A single process that holds the experts itself (`Expert`) also gives this result.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.cluster import LostError, Process, answer, is_running, memory_of_process
from pullback.errors import DerivativeError, PullbackError, UsageError
from pullback.files import name_problem
from pullback.lazy.foreign import Foreign
from pullback.lazy.node import Array
from pullback.lazy.operation import as_operand
from pullback.nn.layer import Layer
from pullback.nn.optimizers import Optimizer
from pullback.nn.parameters import alike, named, put, read
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["Expert", "Remote", "Worker", "remote", "workers"]

Types = Sequence[tuple[tuple[int, ...], str]]
_NUMBERS: Final = itertools.count()


class Expert:
    """A network with its weights and its optimizer, in the process that holds them.

    Args:
        name: the name in messages and files.
        network: a Layer, or a traced function (parameters, *inputs).
        parameters, state: the initial values; a Layer makes its own.
        seed: seed of the initial values.
        optimizer: the optimizer of the parameters; None if they are not trained.
        checkpoint: a folder.   every: the number of updates between checkpoints.
        load: whether to start from the expert's checkpoint, if there is one.
    Raises:
        UsageError: [E532] the name is invalid for a file in the folder.
        DataError: [E509] the checkpoint is damaged. [E510] It belongs to another network.
    """

    def __init__(
        self, name: str, network: Any, parameters: Any = None, state: Any = None, seed: int = 0, optimizer: Any = None,
        checkpoint: str | None = None, every: int = 1, load: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.network, self.optimizer, self.every = name, network, optimizer, every
        if parameters is None:
            self.parameters, self.state = network.init(seed)
        else:
            self.parameters, self.state = tree.map_leaves(np.array, parameters), {} if state is None else state
        self.memory = optimizer.init(self.parameters) if optimizer is not None else {}
        self.steps = 0
        self.path = checkpoint_path(checkpoint, name)
        self._kept: dict[int, tuple[Any, Any, int]] = {}
        self._gradients: dict[int, Any] = {}
        self._results: dict[tuple[Types, tuple[bool, ...]], tuple[Types, bool]] = {}
        self._made: dict[tuple[bool, ...], tuple[Any, Any]] = {}
        self._update = pb.function(self._updated)
        if load and self.path is not None and self.path.exists():
            self._load()

    # A call -----------------------------------------------------------------------------------------------------------

    def result(self, types: Types, wanted: tuple[bool, ...]) -> tuple[Types, bool]:
        """The types of the results for operands of these types, and whether there are several."""
        key = tuple(types), wanted
        if key not in self._results:
            like = [np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in types]
            program = self._function(wanted)[0].program(self.parameters, self.state, *self._parts(wanted, like))
            count, several = self._shape
            found = [(tuple(int(str(d)) for d in r.shape), r.storage.numpy.name) for r in program.outputs[:count]]
            self._results[key] = found, several
        return self._results[key]

    def forward(self, call: int, wanted: tuple[bool, ...], *values: Any) -> Any:
        """Return the result of a call; keep data for its backward pass under the call's number."""
        forward, backward = self._function(wanted)
        (out, state), residuals = forward(self.parameters, self.state, *self._parts(wanted, values))
        self._kept[call] = backward, residuals, self.steps
        self.state = state
        return list(out) if self._shape[1] else out

    def backward(self, call: int, gradient: Any) -> list[Any]:
        """Return the cotangents of a call's operands; the cotangents of the weights stay in this process."""
        if call not in self._kept:
            raise LostError(
                "E711",
                f"{self.name}: its process was started again since the forward pass, and what it kept is lost",
                remedy="run the step again; the weights are those of the last checkpoint",
            )
        backward, residuals, steps = self._kept.pop(call)
        if steps != self.steps:
            raise DerivativeError(
                "E703",
                f"{self.name} was changed between the forward and the backward pass",
                remedy="run the network again, or change weights after its backward pass",
            )
        several = self._shape[1]
        given = tuple(gradient) if several else gradient
        gradient, moving = backward(residuals, (given, None))
        self._gradients[call] = gradient
        return list(moving)

    def release(self, call: int) -> None:
        """Drop the data of a call."""
        self._kept.pop(call, None)

    def update(self) -> int:
        """Update the weights by the gradients since the last update; return the number of updates so far."""
        if self.optimizer is None:
            raise UsageError(
                "E518", f"{self.name} has no optimizer", remedy="`lazy.remote(…, optimizer=nn.adam(1e-3))`"
            )
        if self._gradients:
            gradient = self.gradient()
            self.parameters, self.memory = self._update(gradient, self.memory, self.parameters, np.int64(self.steps))
        self._gradients.clear()
        self.steps += 1
        if self.path is not None and self.steps % self.every == 0:
            self.save()
        return self.steps

    def gradient(self) -> Any:
        """The sum of gradients since the last update, in call order; None if there are none."""
        found = [self._gradients[k] for k in sorted(self._gradients)]
        if not found:
            return None
        structure = tree.flatten(found[0])[1]
        return tree.unflatten(structure, [_sum(leaves) for leaves in zip(*(tree.flatten(g)[0] for g in found))])

    # Kernels -----------------------------------------------------------------------------------------------

    def _function(self, wanted: tuple[bool, ...]) -> tuple[Any, Any]:
        """The forward and backward functions for calls that need cotangents of these operands."""
        if wanted not in self._made:

            def run(parameters: Any, state: Any, moving: Any, fixed: Any) -> Any:
                rest = iter(moving), iter(fixed)
                inputs = [next(rest[not w]) for w in wanted]
                if isinstance(self.network, Layer):
                    out, after = self.network.apply(parameters, state, *inputs, training=True)
                else:
                    out, after = self.network(parameters, *inputs), state
                self._shape = (len(out), True) if isinstance(out, tuple | list) else (1, False)
                return (tuple(out) if isinstance(out, list) else out), after

            self._made[wanted] = pb.forward_backward(run, wrt=("parameters", "moving"))
        return self._made[wanted]

    @staticmethod
    def _parts(wanted: tuple[bool, ...], values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        moving = tuple(v for v, w in zip(values, wanted, strict=True) if w)
        return moving, tuple(v for v, w in zip(values, wanted, strict=True) if not w)

    def _updated(self, gradient: Any, memory: Any, parameters: Any, step: Any) -> Any:
        change, memory = self.optimizer.update(gradient, memory, parameters, step)
        return Optimizer.apply(parameters, change), memory

    # State ----------------------------------------------------------------------------------------------------

    def held(self) -> dict[str, Any]:
        """The parameters, state, optimizer state and number of updates."""
        return {"parameters": self.parameters, "state": self.state, "optimizer": self.memory, "steps": self.steps}

    def put(self, parameters: Any) -> None:
        """Replace the parameters."""
        given, structure = tree.flatten(parameters)
        own, wanted = tree.flatten(self.parameters)
        if structure != wanted or any(np.shape(a) != b.shape for a, b in zip(given, own)):
            raise UsageError("E518", f"{self.name}: the parameters given are not like its own")
        self.parameters = tree.unflatten(wanted, [np.array(a, b.dtype) for a, b in zip(given, own)])
        self.steps += 1

    def save(self) -> None:
        """Write the expert's checkpoint."""
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        put(self.path, named({**self.held(), "steps": np.int64(self.steps)}), {})

    def _load(self) -> None:
        assert self.path is not None
        own = {**self.held(), "steps": np.int64(self.steps)}
        held = tree.unflatten(tree.flatten(own)[1], alike(self.path, named(own), read(self.path)[0]))
        self.parameters, self.state, self.memory = held["parameters"], held["state"], held["optimizer"]
        self.steps = int(held["steps"])


def checkpoint_path(folder: str | None, name: str) -> Path | None:
    """The file of an expert in a folder of checkpoints, if there is one.

    Raises:
        UsageError: [E532] the name is invalid for a file.
    """
    if folder is None:
        return None
    if problem := name_problem(name):
        raise UsageError("E532", f"the expert {name!r} cannot have a checkpoint of this name: {problem}",
                         position=user_position(), remedy="a `name=` of letters and digits")  # fmt: skip
    return Path(folder) / f"{name}.safetensors"


def _sum(arrays: Sequence[Any]) -> Any:
    total = arrays[0]
    for a in arrays[1:]:
        total = total + a
    return total


class _Shelf:
    """The experts of one process."""

    def __init__(self) -> None:
        self.experts: dict[str, Expert] = {}

    def add(self, name: str, settings: dict[str, Any]) -> None:
        self.experts[name] = Expert(name, **settings)

    def of(self, name: str, method: str, *arguments: Any) -> Any:
        expert = self.experts.get(name)
        if expert is None:
            raise LostError("E711", f"{name}: its process was started again without it", remedy="`restart=True`")
        return getattr(expert, method)(*arguments)

    def memory(self) -> int:
        return memory_of_process()


class Worker:
    """A process that holds experts. Requests are processed in order.

    Args:
        name: the name in messages.
        restart: whether to restart the process when it is lost, with each expert at its last checkpoint.
        options: options of a Ray actor, such as `num_cpus`, `resources`, `scheduling_strategy`.

    Raises:
        UsageError: [E713] Ray is not installed.
    Cost:
        Starting a process takes a second or two. Each request then costs its computation and a message.
    """

    def __init__(self, name: str = "worker", *, restart: bool = False, **options: Any) -> None:
        self.name, self.restart, self.options = name, restart, options
        self._experts: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._process = Process(name, _Shelf, options=options)

    def add(self, name: str, settings: dict[str, Any]) -> None:
        """Create an expert in the process."""
        if name in self._experts:
            raise UsageError("E518", f"{self.name} holds an expert {name} already", remedy="`name=`, one for each")
        with self._lock:
            answer(self._process.ask("add", name, settings, what=name), name)
            self._experts[name] = settings

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        """Start a method call of an expert; `wait` returns its result."""
        process = self._process
        return process, process.ask("of", name, method, *arguments, what=name)

    def wait(self, name: str, promised: Any) -> Any:
        """Wait for the result of a call to an expert.

        Raises:
            LostError: [E711] the process is lost; with `restart` it has been restarted.
        """
        process, reference = promised
        try:
            return answer(reference, name)
        except LostError:
            if self.restart:
                self._start_again(process)
            raise

    def memory(self) -> int:
        """The private memory of the process in bytes."""
        found: int = answer(self._process.ask("memory"), self.name)
        return found

    def end(self) -> None:
        """End the process; its experts are lost."""
        self._process.end()

    def _start_again(self, lost: Process) -> None:
        with self._lock:
            if self._process is not lost:  # another thread has restarted it
                return
            self._process = Process(self.name, _Shelf, options=self.options)
            for name, settings in self._experts.items():
                answer(self._process.ask("add", name, {**settings, "load": True}), name)


def workers(count: int, *, restart: bool = False, **options: Any) -> list[Worker]:
    """Start processes for experts, on this machine or on the cluster of `ray.init`.

    Args:
        count: the number of processes.
        restart: whether to restart a lost process, with its experts at their last checkpoints.
        options: options of a Ray actor.
    Raises:
        UsageError: [E713] Ray is not installed.
    Cost:
        Starting the processes, in parallel.
    """
    return [Worker(f"worker {k}", restart=restart, **options) for k in range(count)]


class Remote:
    """A network in another process, called like a function of lazy arrays. `remote` makes one.

    Attributes:
        name: the name in messages and checkpoints.   worker: the process that holds the network.
    Cost:
        A call takes a message each way, forward and backward, and copies of the data; see `remote`.
    """

    def __init__(self, name: str, worker: Worker) -> None:
        self.name, self.worker = name, worker
        self._numbers = itertools.count()
        self._types: dict[Any, tuple[Types, bool]] = {}
        self._pending: list[Any] = []

    def __call__(self, *inputs: Any) -> Any:
        """Return the node of a call, or a tuple of nodes for several results."""
        return _Call(self, next(self._numbers))(*inputs)

    def update(self) -> None:
        """Update the weights by the gradients since the last update, without waiting.

        Later requests to the expert use the new weights. An error is raised by `wait`, or by the next update.
        """
        self.wait()
        self._pending.append(self.worker.ask(self.name, "update"))

    def wait(self) -> None:
        """Wait for the last update."""
        while self._pending:
            self.worker.wait(self.name, self._pending.pop())

    def parameters(self) -> Any:
        """Return a copy of the parameters."""
        return self.held()["parameters"]

    def gradient(self) -> Any:
        """The sum of the gradients since the last update, or None."""
        return self._asked("gradient")

    def held(self) -> dict[str, Any]:
        """Copies of parameters, state and optimizer state, and the number of updates."""
        found: dict[str, Any] = self._asked("held")
        return found

    def put(self, parameters: Any) -> None:
        """Replace the parameters."""
        self._asked("put", parameters)

    def save(self) -> None:
        """Write the expert's checkpoint now."""
        self._asked("save")

    def _asked(self, method: str, *arguments: Any) -> Any:
        self.wait()
        return self.worker.wait(self.name, self.worker.ask(self.name, method, *arguments))

    def repeated(self, method: str, *arguments: Any) -> Any:
        """Call a read-only method; repeat the call if the process was restarted meanwhile."""
        try:
            return self.worker.wait(self.name, self.worker.ask(self.name, method, *arguments))
        except LostError:
            if not self.worker.restart:
                raise
            return self.worker.wait(self.name, self.worker.ask(self.name, method, *arguments))

    def result(self, types: Types, wanted: tuple[bool, ...]) -> tuple[Types, bool]:
        """The types of the results for operands of these types, requested once."""
        key = tuple(types), wanted
        if key not in self._types:
            self._types[key] = self.repeated("result", types, wanted)
        return self._types[key]

    def __repr__(self) -> str:
        return f"<Remote {self.name} in {self.worker.name}>"


class _Call(Foreign):
    """One call of an expert. `number` distinguishes it from concurrent calls."""

    trained = True

    def __init__(self, expert: Remote, number: int) -> None:
        self.expert, self.number, self.name = expert, number, expert.name
        self.wanted: tuple[bool, ...] = ()

    def result(self, *operands: Array) -> Any:
        self.wanted = tuple(x.tracked and x.type.floating for x in map(as_operand, operands))
        types, several = self.expert.result(
            [(tuple(x.shape), np.dtype(x.type.numpy).name) for x in operands], self.wanted
        )
        found = [(shape, np.dtype(dtype)) for shape, dtype in types]
        return found if several else found[0]

    def forward(self, *values: Any) -> tuple[Any, Any]:
        return self.expert.repeated("forward", self.number, self.wanted, *values), self.number

    def backward(self, saved: Any, gradient: Any) -> Sequence[Any]:
        worker = self.expert.worker
        cotangents = iter(worker.wait(self.name, worker.ask(self.name, "backward", saved, gradient)))
        return [next(cotangents) if w else None for w in self.wanted]

    def release(self, saved: Any) -> None:
        if is_running():
            self.expert.worker.ask(self.name, "release", saved)


def _is_network(expert: object) -> bool:
    return callable(expert)  # a Layer is, too


def remote(
    expert: Layer | Callable[..., Any],
    *,
    parameters: Any = None,
    state: Any = None,
    seed: int = 0,
    optimizer: Any = None,
    worker: Worker | None = None,
    name: str | None = None,
    checkpoint: str | None = None,
    every: int = 1,
    restart: bool = False,
    **options: Any,
) -> Remote:
    """Place a network with its weights in another process; calls of it are ordinary nodes.

    Forward, backward and update happen where the weights are. Only values of operands and results, and their
    cotangents, are sent. Gradients are exact: the same to the last bit as those of one process that runs the same
    experts.

    Args:
        expert: a Layer of known input size (`net.on("N 784")`), or a function (parameters, *inputs) of traced arrays
            that returns an array or a tuple of them.
        parameters: the initial parameters. A Layer makes its own, in the new process.
        state: the initial state. A Layer makes its own.
        seed: seed of the initial values.
        optimizer: the optimizer of `update`, such as `nn.adam(1e-3)`.
        worker: the process, which may hold other experts, too; by default a new one.
        name: the name in messages and checkpoints.
        checkpoint: a folder that the process can write, where it saves the expert.
        every: the number of updates between checkpoints.
        restart: whether to restart a lost process, with the expert at its last checkpoint. A forward pass is then
            repeated. A backward pass or an update raises, because its data is lost: repeat the step.
        options: the Ray actor options of a new process, such as `resources={"gpu_node": 1}`.
    Returns:
        The expert, which can be called with lazy arrays.
    Raises:
        UsageError: [E712] the expert cannot be sent. [E713] Ray is not installed. [E518] Arguments conflict.
            [E532] The name is invalid for a checkpoint.
        LostError: [E711] when a value is needed: the process is lost.
        DerivativeError: [E703] in a backward pass: the weights were changed since the forward pass.
    Cost:
        A call takes one message each way, forward and backward, and two copies of the data. The first call for operands
        of new shapes requests the types of the results. Processes of one machine share compiled code through the cache.
    """
    if not _is_network(expert):
        raise UsageError("E518", f"remote: {type(expert).__name__} is no network", remedy="a Layer, or a function")
    if parameters is None and not isinstance(expert, Layer):
        raise UsageError(
            "E518", "remote: a function comes without parameters", remedy="`parameters=`, a tree of arrays"
        )
    if worker is not None and (options or restart):
        raise UsageError("E518", "remote: the worker that is given has its own options", remedy="`lazy.workers(n, …)`")
    number = next(_NUMBERS)
    own = name or f"{getattr(expert, '__name__', None) or 'expert'} {number}"
    checkpoint_path(checkpoint, own)  # before a process starts
    held = worker or Worker(own, restart=restart, **options)
    settings = {"network": expert, "parameters": parameters, "state": state, "seed": seed, "optimizer": optimizer,
                "checkpoint": checkpoint, "every": every}  # fmt: skip
    try:
        held.add(own, settings)
    except PullbackError:
        if worker is None:
            held.end()
        raise
    return Remote(own, held)
