"""The command line. It only calls: everything it does can be done from Python."""

from detector_bench.cli.app import main

__all__ = ["main"]
