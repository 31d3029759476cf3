"""What is allowed in this process: by the user's file, and by the words of the one call that it serves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pydantic import ValidationError

from detector_bench.errors import ConfigError
from detector_bench.trust.origins import Origin
from detector_bench.trust.permissions import Permissions, read_permissions, require_variable

KEY_OPTION, HOST_OPTION = "--allow-key", "--allow-host"


_OF_THIS_CALL: list[Permissions] = []


def allow_for_this_process(*, keys: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
    """Allow keys and hosts as long as this process lives.

    Args:
        keys: `VARIABLE=HOST`, such as `MY_KEY=llm.example:8443`.
        hosts: hosts that images may be sent to without a key.

    Raises:
        ConfigError: another form.
    """
    given = [Permissions(keys=dict([_binding(text)])) for text in keys]
    for text in hosts:
        try:
            given.append(Permissions(hosts=(Origin.of_host(text),)))
        except ValueError as error:
            raise ConfigError(f"{HOST_OPTION}: {error}") from error
    _OF_THIS_CALL.extend(given)


def _binding(text: str) -> tuple[str, tuple[Origin, ...]]:
    variable, equals, host = text.partition("=")
    try:
        require_variable(variable)
        if not equals:
            raise ValueError(f"{variable} goes where? (accepted: VARIABLE=HOST)")
        return variable, (Origin.of_host(host),)
    except ValueError as error:
        raise ConfigError(f"{KEY_OPTION}: {error}") from error


def granted() -> Permissions:
    """What is allowed now; the file is read anew each time.

    Raises:
        ConfigError: the user's file cannot be read.
    """
    return reduce(Permissions.joined, _OF_THIS_CALL, read_permissions())


def granted_as_text() -> str:
    """What is allowed now, for `take_over` in a process that does this one's work, here or on another machine.

    Raises:
        ConfigError: the user's file cannot be read.
    """
    return granted().model_dump_json()


def take_over(text: str) -> None:
    """Allow in this process what another one of the same user allowed, as `granted_as_text` has it.

    Raises:
        ConfigError: the text is no such thing.
    """
    try:
        given = Permissions.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError("what another process allows cannot be read: is it of another version?") from error
    _OF_THIS_CALL.append(given)
