"""Connections between workers: TCP sockets that carry the bytes of arrays.

Workers send each other neither objects nor code. A connection begins with the token of the run and the sender's rank;
one with another token is closed. If a process ends, its connections close, so its peers notice at once. They close
their own, and so all workers learn of it.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pullback.nn.training.reduction import Message, partners

__all__ = ["Address", "LinkLostError", "Links"]

Address = tuple[str, int]
HELLO: Final = struct.Struct("!16sI")  # the token and the rank
PATIENCE: Final = 30.0  # seconds until all peers have connected
# A machine that vanishes closes no connection. The kernel asks after 10 s without bytes, and gives up 15 s later.
KEEPALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
LARGE: Final = 1 << 22  # bytes of a socket's buffers


class LinkLostError(ConnectionError):
    """A peer is gone, or has closed its connections."""


class Links:
    """The connections of one worker (`reduction.Peers`).

    Args:
        host: the address of this machine, as peers reach it.
    """

    def __init__(self, host: str) -> None:
        self.rank, self.count = 0, 1
        self._server = socket.create_server(("", 0))
        self.address: Address = host, self._server.getsockname()[1]
        self._peers: dict[int, socket.socket] = {}

    def join(self, rank: int, addresses: Sequence[Address], token: bytes) -> None:
        """Connect to all partners: to those of lower rank here, from those of higher rank there.

        Args:
            rank: the number of this worker.
            addresses: those of all workers, by rank.
            token: 16 bytes that these workers share.
        Raises:
            LinkLostError: a peer cannot be reached, or does not connect in time.
        """
        self.rank, self.count = rank, len(addresses)
        wanted = partners(rank, self.count)
        try:
            for other in sorted(p for p in wanted if p < rank):
                self._add(other, socket.create_connection(addresses[other], PATIENCE))
                self._peers[other].sendall(HELLO.pack(token, rank))
            latest = time.monotonic() + PATIENCE
            while missing := {p for p in wanted if p > rank} - self._peers.keys():
                self._accept(missing, token, latest)
        except OSError as error:
            self.close()
            raise LinkLostError(str(error)) from error
        self._server.close()
        for s in self._peers.values():
            s.setblocking(False)

    def _accept(self, missing: set[int], token: bytes, latest: float) -> None:
        self._server.settimeout(max(0.01, latest - time.monotonic()))
        s, _ = self._server.accept()
        s.settimeout(PATIENCE)
        hello = s.recv(HELLO.size, socket.MSG_WAITALL)
        given, rank = HELLO.unpack(hello) if len(hello) == HELLO.size else (b"", -1)
        if hmac.compare_digest(given, token) and rank in missing:
            self._add(rank, s)
        else:
            s.close()

    def _add(self, rank: int, s: socket.socket) -> None:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            s.setsockopt(socket.SOL_SOCKET, option, LARGE)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):  # not everywhere
                s.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._peers[rank] = s

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        """Send and receive messages at the same time, those of one peer in order.

        Raises:
            LinkLostError: a peer is gone; all connections are closed.
        """
        out, into = _queues(sends), _queues(receives)
        try:
            while out or into:
                moved = sum([self._send(p, out) for p in [*out]]) + sum([self._receive(p, into) for p in [*into]])
                if not moved:
                    self._wait(out, into)
        except (OSError, ValueError, KeyError) as error:  # a closed socket is one or another of them
            self.close()
            raise LinkLostError(str(error)) from error

    def _send(self, peer: int, out: dict[int, list[memoryview]]) -> bool:
        try:
            moved = self._peers[peer].send(out[peer][0])
        except BlockingIOError:
            return False
        _take(out, peer, moved)
        return True

    def _receive(self, peer: int, into: dict[int, list[memoryview]]) -> bool:
        try:
            moved = self._peers[peer].recv_into(into[peer][0])
        except BlockingIOError:
            return False
        if not moved:
            raise ConnectionResetError(f"worker {peer} has closed its connection")
        _take(into, peer, moved)
        return True

    def _wait(self, out: Mapping[int, object], into: Mapping[int, object]) -> None:
        """Wait until a message can go on."""
        with selectors.DefaultSelector() as selector:
            for peer in {*out, *into}:
                events = (peer in out) * selectors.EVENT_WRITE | (peer in into) * selectors.EVENT_READ
                selector.register(self._peers[peer], events)
            selector.select()

    def close(self) -> None:
        """Close all connections, so that peers learn of it."""
        for s in (self._server, *self._peers.values()):
            with suppress(OSError):
                s.close()
        self._peers.clear()


def _queues(messages: Sequence[Message]) -> dict[int, list[memoryview]]:
    """The bytes to move, by peer."""
    found: dict[int, list[memoryview]] = {}
    for peer, data in messages:
        if data.size:
            found.setdefault(peer, []).append(data.data)
    return found


def _take(queues: dict[int, list[memoryview]], peer: int, moved: int) -> None:
    """Remove bytes that were moved."""
    queue = queues[peer]
    queue[0] = queue[0][moved:]
    if not queue[0]:
        queue.pop(0)
        if not queue:
            del queues[peer]
