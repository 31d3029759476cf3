"""Where the files lie that belong to the package but are no code: example studies, labels, published tables."""

from __future__ import annotations

from pathlib import Path

from detector_bench.errors import DetectorBenchError


def resource(relative: str) -> Path:
    """Find a file or folder under `configs` or `labels`, in an installed package or in a checkout.

    Args:
        relative: the path as in the repository, with slashes: "configs/quickstart.yaml".

    Raises:
        DetectorBenchError: the installation lacks it.
    """
    package = Path(__file__).parent
    # A wheel carries the folders inside the package; an editable installation reads them from the repository.
    for place in (package / "resources", package.parent):
        if (place / relative).exists():
            return place / relative
    raise DetectorBenchError(f"{relative} is missing from this installation of detector-bench; install it again")
