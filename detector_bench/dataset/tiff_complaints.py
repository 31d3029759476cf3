"""What libtiff finds wrong with a file; it would print it on standard error, without the image's name."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from functools import cache

from PIL import _imaging

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class _Heard(threading.local):
    complaint: str | None = None


_heard = _Heard()


def _note(_module: bytes | None, message: bytes | None, _values: object) -> None:
    # The values that belong into the message cannot be read from here: its words before them have to do.
    words = (message or b"").decode("utf-8", "replace").partition("%")[0].strip(" :;,(\"'")
    _heard.complaint = _heard.complaint or words or "a decoding error"


# They live as long as the module: threads may install them at the same time, and libtiff keeps whose came last.
_QUIET, _NOTING = _Handler(lambda *_: None), _Handler(_note)


@cache
def _listening() -> None:
    """Take the place of libtiff's printing for this process."""
    # Linked in another way, it prints as before.
    with suppress(AttributeError, OSError):
        # The library that Pillow's own module has brought into the process.
        library = ctypes.CDLL(_imaging.__file__)
        library.TIFFSetWarningHandler(_QUIET)
        library.TIFFSetErrorHandler(_NOTING)


def listen_to_libtiff() -> None:
    """Forget what this thread's libtiff has complained of, and note from now on what it finds."""
    _listening()
    _heard.complaint = None


def complaint_of_libtiff() -> str | None:
    """The first mistake that libtiff has found in this thread since `listen_to_libtiff`; None: no mistake."""
    return _heard.complaint
