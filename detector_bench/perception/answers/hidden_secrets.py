"""Keeps keys and passwords out of everything that is shown or written."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

_HIDDEN = "(hidden)"
_SHORTEST_SECRET = 8  # a shorter text also stands in answers by chance


@dataclass(frozen=True)
class Secrets:
    """Texts that nobody may see; they do not show when this is printed."""

    values: tuple[str, ...] = field(repr=False)

    def hidden_in(self, text: str) -> str:
        """The text without the secrets, should a server repeat them."""
        for secret in sorted(self.values, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text

    def hide_in_logs_of(self, *loggers: str) -> None:
        """Keep them out of what these loggers write: at their most talkative they repeat what a server says."""
        for name in loggers:
            logger = logging.getLogger(name)
            if not any(isinstance(each, _Hiding) and each.secrets == self for each in logger.filters):
                logger.addFilter(_Hiding(self))


class _Hiding(logging.Filter):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self.secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.secrets.hidden_in(record.getMessage()), None
        return True
