"""Key and secret of a Face++ account: from the environment alone, and never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from detector_bench.errors import ConfigError
from detector_bench.perception.answers.hidden_secrets import Secrets

KEY_VARIABLE = "FACEPP_API_KEY"
SECRET_VARIABLE = "FACEPP_API_SECRET"  # noqa: S105 - the name of a variable, no secret


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

    @property
    def secrets(self) -> Secrets:
        """Both, to be kept out of everything that is shown."""
        return Secrets((self.key, self.secret))
