"""`trust list`, `trust key`, `trust host`, `trust code` and `trust remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError
from detector_bench.trust import (
    BUILT_IN_KEYS,
    AllowedCode,
    Origin,
    add_code,
    add_host,
    add_key,
    code_sha256,
    program_files,
    read_permissions,
    trust_file,
)
from detector_bench.trust import remove as take_back
from detector_bench.trust.permissions import require_variable

_VARIABLE = typer.Argument(metavar="VARIABLE", help="Name of the environment variable; never its value.")
_HOST = typer.Argument(
    metavar="HOST", help="HOST or HOST:PORT, with https:// before it or meant; http:// is to be written out."
)


@command
def list_() -> None:
    """What this machine's user allows: keys and their hosts, hosts that get images, code of checkpoints.

    No study, image set or result folder can add to it. What a key is worth is not read and not shown.

    Example: `detector-bench trust list`
    """
    allowed, file = read_permissions(), str(trust_file())
    for found, origin in ((BUILT_IN_KEYS, "built in"), (allowed.keys, file)):
        for variable, hosts in found.items():
            for host in hosts:
                _tell("key", f"{variable} may be sent to {host}", variable, str(host), origin)
    for host in allowed.hosts:
        _tell("host", f"images may be sent to {host}", str(host), str(host), file)
    for code in allowed.code:
        _tell("code", f"{code.name} may run, sha256 {code.sha256}", code.name, code.sha256, file)
    output.say(f"All that is not built in stands in {file}.")


def _tell(what: str, text: str, name: str, allows: str, origin: str) -> None:
    built_in = " (built in)" if origin == "built in" else ""
    output.row(f"{what:<5} {text}{built_in}", table="trust", what=what, name=name, allows=allows, origin=origin)


@command
def key(variable: Annotated[str, _VARIABLE], host: Annotated[str, _HOST]) -> None:
    """Allow that the value of an environment variable is sent to a host; images may go there, too.

    A study may name any variable and any address. A variable's value is sent only to hosts that it is bound to by
    this command, by `--allow-key` of one call, or by its maker: OPENAI_API_KEY, FACEPP_API_KEY, FACEPP_API_SECRET.

    Examples: `detector-bench trust key MY_KEY llm.example`,
    `detector-bench trust key OPENAI_API_KEY localhost:8000`
    """
    origin = _origin(host)
    try:
        require_variable(variable)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    add_key(variable, origin)
    text = f"The value of {variable} may be sent to {origin}, and so may images ({trust_file()})."
    output.row(text, table="trust", what="key", name=variable, allows=str(origin))


@command
def host(host: Annotated[str, _HOST]) -> None:
    """Allow that images are sent to a host without a key. This machine's own addresses need no such permission.

    Example: `detector-bench trust host gpu-server.example:8000`
    """
    origin = _origin(host)
    add_host(origin)
    text = f"Images may be sent to {origin} ({trust_file()})."
    output.row(text, table="trust", what="host", name=str(origin), allows=str(origin))


@command
def code(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of the checkpoint, or a TorchScript file.")],
) -> None:
    """Allow that the program code of a checkpoint runs, as it is now. It runs with your rights: read it first.

    The permission is for the content of all its .py files, or of the one file; what has changed has to be allowed
    again.

    Example: `detector-bench trust code weights/mivolo_v2`
    """
    files = program_files(path)
    sha256 = code_sha256(files)
    add_code(AllowedCode(name=path.resolve().name, sha256=sha256))
    for file, content in files.items():
        output.row(f"{len(content):>9,} bytes  {file}", table="files", file=file, bytes=len(content))
    many = "1 file" if len(files) == 1 else f"{len(files)} files"
    text = f"This code may run: {many}, sha256 {sha256} ({trust_file()})."
    output.row(text, table="trust", what="code", name=path.resolve().name, allows=sha256)


@command
def remove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A variable, a host, or of code the name or the beginning of the sha256."
        ),
    ],
    host: Annotated[str | None, typer.Argument(metavar="HOST", help="Of a variable, this host alone.")] = None,
) -> None:
    """Take permissions back.

    Examples: `detector-bench trust remove MY_KEY`, `detector-bench trust remove MY_KEY llm.example`,
    `detector-bench trust remove mivolo_v2`
    """
    count = take_back(name, None if host is None else _origin(host))
    many = "1 permission is" if count == 1 else f"{count} permissions are"
    output.row(f"{many} taken back ({trust_file()}).", table="trust", name=name, taken_back=count)


def _origin(host: str) -> Origin:
    try:
        return Origin.of_host(host)
    except ValueError as error:
        raise ConfigError(str(error)) from error
