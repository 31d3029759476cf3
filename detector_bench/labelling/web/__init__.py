"""The labelling desk's web app: pages, the interface behind them, and who may use it. Needs the extra `label`."""

from __future__ import annotations
