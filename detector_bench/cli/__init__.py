"""The command line. It only calls: everything it does can be done from Python."""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line; see `app.main`. Ctrl-C is one word also while commands are being imported."""
    # Whoever started this process may have it ignore Ctrl-C, as a shell does with what runs in the background.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _stop_importing)
    from detector_bench.cli.app import main as run

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _stop_importing(number: int, frame: object) -> None:  # noqa: ARG001 - as Python calls it
    # Nothing is open yet. An exception would be raised inside some library, which may make another of it.
    os.write(2, b"interrupted\n")
    os._exit(128 + signal.SIGINT)  # as shells count
