"""What study files state: parameters with their types, checked when they are read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Declaration(BaseModel):
    """Parameters out of a study file: they never change, and an unknown key is a mistake, not a wish."""

    model_config = ConfigDict(frozen=True, extra="forbid")
