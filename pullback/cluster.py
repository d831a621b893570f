"""Ray, if installed: processes on this machine or others that hold objects.

Everything that knows of Ray is here. A process is an actor of it with one thread: what one asks of it is done in the
order in which it was asked. Without `ray.init` Ray starts itself on this machine when the first process is asked for.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pullback.errors import PullbackError, UsageError
from pullback.source import user_position

__all__ = ["LostError", "Process", "answer", "host", "is_running", "library", "memory_of_process", "sent"]

PATIENCE: Final = 10.0  # seconds to wait for a process that was told to end


class LostError(PullbackError):
    """The error for a lost process and its objects."""


def library() -> Any:
    """Ray itself.

    Raises:
        UsageError: [E713] it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("E713", "Ray is not installed", remedy="pip install 'pullback[ray]'") from None
    return ray


def is_running() -> bool:
    """Whether Ray runs in this process; asking does not import it, so that finalizers may ask."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def host() -> str:
    """The address of this machine, as other machines of the cluster reach it."""
    return str(library().util.get_node_ip_address()) if is_running() else "127.0.0.1"


def memory_of_process() -> int:
    """The private memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        _, resident, shared = map(int, file.read().split()[:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Process:
    """A process that holds an object, and runs its methods one after another.

    Args:
        what: what messages call it.
        make: makes the object, there.
        arguments: for `make`; an array is sent once, however large.
        options: those of an actor, such as `num_cpus`, `resources`, `scheduling_strategy`.

    Raises:
        UsageError: [E712] it cannot be sent. [E713] Ray is not installed.
    """

    def __init__(self, what: str, make: Callable[..., Any], *arguments: Any, options: Mapping[str, Any]) -> None:
        self.what = what
        ray = library()
        kind = ray.remote(_Held)
        with _Sending(what):
            self.actor = (kind.options(**options) if options else kind).remote(make, *arguments)

    def ask(self, method: str, *arguments: Any, what: str = "") -> Any:
        """Call a method of the object; `answer` waits for the result.

        Raises:
            UsageError: [E712] an argument cannot be sent.
        """
        with _Sending(what or self.what):
            return self.actor.ask.remote(method, *arguments)

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        ray = library()
        ray.kill(self.actor)
        latest = time.monotonic() + PATIENCE
        with suppress(ray.exceptions.RayActorError):
            while time.monotonic() < latest:
                ray.get(self.actor.__ray_ready__.remote())


def answer(
    promised: Any, what: str, remedy: str = "`restart=True` starts it again", patience: float | None = None
) -> Any:
    """Wait for the result of a process.

    Args:
        promised: what `ask` gave.   what: what messages call the process.
        remedy: what to do where it is lost.
        patience: the seconds after which it counts as lost.
    Raises:
        LostError: [E711] the process ended. Otherwise what was raised there.
    """
    ray = library()
    try:
        if patience is not None and not ray.wait([promised], timeout=patience)[0]:
            raise LostError("E711", f"{what}: no process for it within {patience:.0f} s", remedy=remedy)
        return ray.get(promised)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise LostError("E711", f"{what}: its process is lost", facts=lines[:1], remedy=remedy) from None


def sent(value: Any) -> Any:
    """Send a value for several processes once to each machine; `ask` takes the handle."""
    return library().put(value)


class _Held:
    """The object, there."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self.object = make(*arguments)

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self.object, method)(*arguments)


class _Sending:
    """A context whose errors name the object that cannot be sent."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, TypeError | AttributeError | ValueError) or type(error).__name__ == "PicklingError":
            reason = str(getattr(error, "__cause__", None) or error)  # Ray's own has all arguments
            raise UsageError(
                "E712",
                f"{self.what} cannot be sent to another process",
                position=user_position(),
                facts=[reason.strip().splitlines()[0]],
                remedy="arrays, layers, and functions that hold nothing of this process alone",
            ) from error
