"""Whether a stage may send images to a host, and with which keys."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from detector_bench.errors import ConfigError
from detector_bench.trust.origins import Origin
from detector_bench.trust.permissions import Permissions
from detector_bench.trust.this_process import HOST_OPTION, KEY_OPTION, granted

_FACEPP = (Origin("https", "api-us.faceplusplus.com", 443), Origin("https", "api-cn.faceplusplus.com", 443))

BUILT_IN_KEYS: Mapping[str, tuple[Origin, ...]] = {
    "OPENAI_API_KEY": (Origin("https", "api.openai.com", 443),),
    "FACEPP_API_KEY": _FACEPP,
    "FACEPP_API_SECRET": _FACEPP,
}
"""The hosts that well-known keys are made for."""


class Sending(NamedTuple):
    """Where a stage sends images.

    Attributes:
        address: of the service.
        variables: environment variables whose values are sent along, where they are set.
        form: what is sent of an image, in words.
        what: is sent, in one word.
    """

    address: str
    variables: tuple[str, ...]
    form: str
    what: str = "images"


def refusals(sending: Sending) -> tuple[str, ...]:
    """What the user has not allowed of it, a line each that says the command that does; empty: it may be sent.

    A key needs a permission for its host, also on this machine, where any user may listen. Images alone need one
    for every other machine.

    Raises:
        ConfigError: the user's file cannot be read, or the address has no host.
    """
    origin = _origin(sending.address)
    allowed = _everything_allowed()
    lines = [
        _key_line(variable, origin)
        for variable in sending.variables
        if not unset(variable) and not allowed.allows_key(variable, origin)
    ]
    if not lines and not origin.is_on_this_machine and not allowed.allows_images(origin):
        name = _plain(origin)
        lines.append(
            f"{sending.what} may not be sent to {origin}: nobody allowed that on this machine, and nothing was "
            f"sent. If you want it: detector-bench trust host {name} (for one call: {HOST_OPTION} {name})"
        )
    return tuple(lines)


def key_from_environment(variable: str, address: str) -> str | None:
    """The value of a variable, for a host that it may be sent to; None: it is not set.

    Raises:
        ConfigError: it may not be sent there; the value is not shown.
    """
    if unset(variable):
        return None
    origin = _origin(address)
    if not _everything_allowed().allows_key(variable, origin):
        raise ConfigError(_key_line(variable, origin))
    return os.environ[variable].strip()


def _everything_allowed() -> Permissions:
    return granted().joined(Permissions(keys=dict(BUILT_IN_KEYS)))


def _origin(address: str) -> Origin:
    try:
        return Origin.of(address)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def unset(variable: str) -> bool:
    """Whether a variable has no value here, or an empty one."""
    return not os.environ.get(variable, "").strip()


def _key_line(variable: str, origin: Origin) -> str:
    name = _plain(origin)
    return (
        f"the environment variable {variable} is not bound to {origin} on this machine, and nothing was sent. If "
        f"its value may go there: detector-bench trust key {variable} {name} (for one call: {KEY_OPTION} "
        f"{shlex.quote(f'{variable}={name}')})"
    )


def _plain(origin: Origin) -> str:
    """As short as it can be typed."""
    short = str(origin).partition("://")[2]
    return short if Origin.of_host(short) == origin else str(origin)
