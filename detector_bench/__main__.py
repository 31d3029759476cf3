"""Makes `python -m detector_bench` the command line."""

from __future__ import annotations

from detector_bench.cli import main

if __name__ == "__main__":
    main()
