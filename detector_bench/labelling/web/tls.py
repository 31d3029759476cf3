"""TLS for the desk, from a certificate and its key."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

from detector_bench.errors import ConfigError


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What encrypts the desk's connections.

    Args:
        certificate: PEM, with the certificates of those who signed it behind it.
        key: PEM without a passphrase. If it is yours, nobody else may read it; another's, as root's, may be read
            by its group.

    Raises:
        ConfigError: a file cannot be read or is not what it should be, they do not belong together, or others can
            read the key.
    """
    for name, path in (("certificate", certificate), ("key", key)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise ConfigError(f"--{name}: {str(path)!r} cannot be read: {error.strerror}") from error
    _refuse_open_key(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without an answer, OpenSSL would ask at the terminal.
    asked: list[bool] = []

    def passphrase() -> str:
        asked.append(True)
        return ""

    try:
        context.load_cert_chain(certificate, key, password=passphrase)
    except ssl.SSLError as error:
        if asked:
            raise ConfigError(f"--key: {str(key)!r} has a passphrase; accepted: a key without one") from error
        raise ConfigError(
            f"--certificate {str(certificate)!r} and --key {str(key)!r} cannot be used: "
            f"{error.reason or error} (accepted: PEM files that belong together)"
        ) from error
    return context


def _refuse_open_key(key: Path) -> None:
    if os.name != "posix":
        return
    found = key.stat()
    too_much = 0o077 if found.st_uid == os.getuid() else 0o007
    if stat.S_IMODE(found.st_mode) & too_much:
        raise ConfigError(
            f"--key: others can read {str(key)!r} (mode {stat.S_IMODE(found.st_mode):o}); "
            "accepted: a file that only its owner reads (`chmod 600`)"
        )
