"""Connections to the desk: how many there may be, how long each may take, and who goes when there is no room.

uvicorn keeps a connection that sends nothing for as long as the client likes, and never counts them: a thousand
of them use up the process's files, and nobody else gets in. What stands here counts them before anything is read,
also before TLS has begun.

Nobody honest is turned away while others only wait. When there is no room for a new connection, the one goes that
has waited longest for its own client: first among strangers, then among those whose requests were answered before.
A browser sends its request at once, and comes again where a resting connection was closed; a flood of half-open
connections only pushes itself out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detector_bench.errors import ConfigError

SECONDS_BETWEEN_LOOKS = 0.5
"""How often connections whose time is over are looked for."""

_SUBNET_OF_ONE = 64
"""Bits of an IPv6 address that belong to one network, in which a machine may take any address it likes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much the desk takes on.

    Attributes:
        in_all: connections at once.
        per_address: connections at once from one address; with IPv6, from one network of 64 bits.
        seconds_to_send: for a request's headers from its first byte (of a new connection: from its beginning, TLS
            included), and as long again for its body.
        seconds_idle: how long a connection may rest between two requests, or a client take nothing of its answer.

    Raises:
        ConfigError: one of them is not above zero.
    """

    in_all: int = 1024
    per_address: int = 512
    seconds_to_send: float = 15
    seconds_idle: float = 30

    def __post_init__(self) -> None:
        if min(self.in_all, self.per_address) < 1 or min(self.seconds_to_send, self.seconds_idle) <= 0:
            raise ConfigError(f"limits on connections: {self} (accepted: numbers above zero)")

    def within(self, most: int) -> ConnectionLimits:
        """The same with at most so many connections in all.

        Raises:
            ConfigError: that is none.
        """
        if most < 1:
            raise ConfigError(
                f"the system lets this process open too few files, by {1 - most}; `ulimit -n` says how many, and "
                "raises them"
            )
        return replace(self, in_all=min(most, self.in_all), per_address=min(most, self.per_address))


class Connection:
    """One connection, and whose turn it is: the desk's, or the client's, who has until `deadline`."""

    def __init__(self, keeper: DoorKeeper, address: str, transport: asyncio.Transport) -> None:
        self.address = address
        self.is_known = False
        """Whether one of its requests was let in."""
        self.deadline: float | None = None
        """By `time.monotonic`; None while the desk is at work."""
        self.is_resting = False
        """Whether the last request was answered, and nothing of the next has come."""
        self.secured: asyncio.Transport | None = None
        """With TLS, the transport that holds what is still to be encrypted."""
        self._transport = transport
        self._keeper = keeper
        self._left = 0

    def awaits_client(self, seconds: float, *, resting: bool = False) -> None:
        """From now on the client has so many seconds."""
        self._keeper.hold(self, time.monotonic() + seconds)
        self.is_resting = resting
        self._left = self._unsent()

    def is_served(self) -> None:
        """From now on the desk is at work."""
        self._keeper.hold(self, None)
        self.is_resting = False

    def takes_its_answer(self) -> bool:
        """Whether something of the answer has gone out since the last look."""
        left, self._left = self._left, self._unsent()
        return 0 < self._left < left

    def cut(self) -> None:
        """Close it at once, whatever was still to be sent."""
        self._transport.abort()

    def _unsent(self) -> int:
        parts = [each for each in (self._transport, self.secured) if each is not None]
        return sum(each.get_write_buffer_size() for each in parts)


class _Group:
    """Connections that share a limit; those that wait for their clients in the order in which they began to."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.members: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}

    @property
    def is_full(self) -> bool:
        return len(self.members) >= self.most

    def longest_waiting(self) -> Connection | None:
        """The one that can go; None: the desk is at work for all."""
        return next(iter(self._strangers or self._known), None)

    def hold(self, connection: Connection, *, waiting: bool) -> None:
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        if waiting:
            (self._known if connection.is_known else self._strangers)[connection] = None

    def leave(self, connection: Connection) -> None:
        self.members.discard(connection)
        self.hold(connection, waiting=False)


class DoorKeeper:
    """Counts the connections of one event loop, and ends those that take too long."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all = _Group(limits.in_all)
        self._by_address: dict[str, _Group] = {}
        self._looking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all.members)

    def admit(self, transport: asyncio.Transport) -> Connection | None:
        """Take a new connection in, if need be for one that has waited long; None: there is no room."""
        address = _address(transport)
        for crowd in (self._by_address.get(address), self._all):
            if crowd is None or not crowd.is_full:
                continue
            other = crowd.longest_waiting()
            if other is None:
                return None
            self.leave(other)
            other.cut()
        connection = Connection(self, address, transport)
        for crowd in (self._by_address.setdefault(address, _Group(self.limits.per_address)), self._all):
            crowd.members.add(connection)
        connection.awaits_client(self.limits.seconds_to_send)
        if self._looking is None:
            self._look_later()
        return connection

    def hold(self, connection: Connection, deadline: float | None) -> None:
        """Note until when a connection waits for its client; None: the desk is at work for it."""
        connection.deadline = deadline
        if connection in self._all.members:
            for crowd in (self._all, self._by_address[connection.address]):
                crowd.hold(connection, waiting=deadline is not None)

    def leave(self, connection: Connection) -> None:
        """Forget a connection; one that is not known is none."""
        self._all.leave(connection)
        group = self._by_address.get(connection.address)
        if group is not None:
            group.leave(connection)
            if not group.members:
                del self._by_address[connection.address]

    def cut_strangers(self) -> None:
        """End all that have not been let in: nobody is waited for when the desk closes."""
        for connection in list(self._all.members):
            if not connection.is_known:
                self.leave(connection)
                connection.cut()

    def look(self, now: float) -> None:
        """End the connections whose time is over; who still takes its answer gets more time."""
        for connection in list(self._all.members):
            if connection.deadline is None or connection.deadline > now:
                continue
            if connection.takes_its_answer():
                connection.deadline = now + self.limits.seconds_idle
            else:
                self.leave(connection)
                connection.cut()

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(SECONDS_BETWEEN_LOOKS, self._look_now)

    def _look_now(self) -> None:
        self._looking = None
        self.look(time.monotonic())
        if self._all.members:
            self._look_later()


def _address(transport: asyncio.Transport) -> str:
    """What counts as one client: an IPv4 address, or an IPv6 network."""
    peer = transport.get_extra_info("peername")
    if not peer:  # gone already
        return ""
    address = ip_address(str(peer[0]).partition("%")[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, _SUBNET_OF_ONE), strict=False))


CONNECTION = "connection"
"""Where in a request's state its connection stands."""


def connection_of(scope: Scope) -> Connection | None:
    """The connection of a request; None without a server of ours, as in tests of the app alone."""
    found: Connection | None = scope.get("state", {}).get(CONNECTION)
    return found


class TurnKeeper:
    """ASGI middleware around everything else: tells the connection whose turn it is."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; while its body comes, it is the client's turn, with one deadline for all of it."""
        connection = connection_of(scope)
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.is_served()
        try:
            await self._app(scope, _timed(receive, connection, self._limits.seconds_to_send), send)
        finally:
            connection.awaits_client(self._limits.seconds_idle, resting=True)


def _timed(receive: Receive, connection: Connection, seconds: float) -> Receive:
    ends: float | None = None
    is_whole = False

    async def receive_in_time() -> Message:
        nonlocal ends, is_whole
        if is_whole:  # only asks whether the client is still there
            return await receive()
        ends = time.monotonic() + seconds if ends is None else ends
        connection.awaits_client(ends - time.monotonic())
        message = await receive()
        connection.is_served()
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time


def raise_file_limit(wanted: int) -> int:
    """Let this process open more files, if it may; gives how many it may open then."""
    try:
        import resource
    except ImportError:  # Windows: sockets do not count as files there
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # macOS allows less than it says
        return soft
    return allowed
