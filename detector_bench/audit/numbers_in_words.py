"""How an audit's sentences write numbers."""

from __future__ import annotations

from detector_bench.results.metric_lookup import Number

_MINUS = "\N{MINUS SIGN}"


def per_cent(value: float) -> str:
    """A share: `28 %`."""
    return f"{100 * value:.0f} %"


def whole_range(number: Number) -> str:
    """The interval of a share: `23 to 33 %`; empty without one."""
    return f"{100 * number.ci_low:.0f} to {100 * number.ci_high:.0f} %" if number.has_interval else ""


def signed(value: float) -> str:
    """A score with its sign: `+0.42`."""
    return fixed(value, sign="+")


def fixed(value: float, *, sign: str = "") -> str:
    """A score with two decimals and a true minus; zero bears no sign."""
    text = f"{value:{sign}.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", _MINUS)
