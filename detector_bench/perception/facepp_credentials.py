"""Key and secret of a Face++ account: from the environment alone, and never shown."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field

from detector_bench.errors import ConfigError

KEY_VARIABLE = "FACEPP_API_KEY"
SECRET_VARIABLE = "FACEPP_API_SECRET"  # noqa: S105 - the name of a variable, no secret

_HIDDEN = "(hidden)"
_SHORTEST_SECRET = 8  # a shorter text also stands in answers by chance


def missing_credentials() -> tuple[str, ...]:
    """Which of the two environment variables is not set, a line each."""
    return tuple(
        f"the environment variable {name} is not set; set it to the {what} of your Face++ account"
        for name, what in ((KEY_VARIABLE, "API key"), (SECRET_VARIABLE, "API secret"))
        if not os.environ.get(name, "").strip()
    )


@dataclass(frozen=True)
class Credentials:
    """Key and secret; neither shows when this is printed."""

    key: str = field(repr=False)
    secret: str = field(repr=False)

    @classmethod
    def from_environment(cls) -> Credentials:
        """Read both variables.

        Raises:
            ConfigError: one is not set.
        """
        if missing := missing_credentials():
            raise ConfigError("\n".join(missing))
        return cls(os.environ[KEY_VARIABLE].strip(), os.environ[SECRET_VARIABLE].strip())

    def hidden_in(self, text: str) -> str:
        """The text without key and secret, should a server repeat them."""
        for secret in (self.key, self.secret):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text

    def hide_in_logs_of(self, *loggers: str) -> None:
        """Keep both out of what these loggers write: at their most talkative they repeat what a server says."""
        for name in loggers:
            logger = logging.getLogger(name)
            if not any(isinstance(each, _Hiding) and each.credentials == self for each in logger.filters):
                logger.addFilter(_Hiding(self))


class _Hiding(logging.Filter):
    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self.credentials = credentials

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.credentials.hidden_in(record.getMessage()), None
        return True
