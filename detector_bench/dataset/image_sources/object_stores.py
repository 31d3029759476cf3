"""Objects in S3, Google Cloud Storage and on the Hugging Face Hub, through fsspec's file systems.

Credentials are found as each library finds them (for S3 as the AWS command line does, with `AWS_ENDPOINT_URL` for
other stores; for Google as `gcloud auth application-default login` leaves them; for the Hub `HF_TOKEN` or `hf auth
login`), and options in fsspec's own configuration, such as `FSSPEC_S3_ANON=true` for a public bucket.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import sentence
from detector_bench.dataset.image_sources.patience import NotNowError, Patience, PatientCalls
from detector_bench.dataset.image_sources.places import ContentMark, changed, require_size
from detector_bench.errors import DetectorBenchError
from detector_bench.installation import require

AT_ONCE = 32
"""Requests that are under way at the same time."""

LISTED_FROM = 2_000
"""A folder is listed as a whole from so many wanted objects on; fewer are asked for side by side.

A listing brings 1,000 objects in a request, one request after another, and the folder may hold many more objects.
"""

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub"}
_CLASSES = {"s3": "S3FileSystem", "gs": "GCSFileSystem", "hf": "HfFileSystem"}
_IDENTITIES = ("ETag", "etag", "generation", "blob_id", "xet_hash", "sha256")
# Google's and the Hub's libraries try again by themselves; for S3, that is turned off (see `_options`).
_PATIENCE = {"s3": Patience(), "gs": Patience(attempts=2), "hf": Patience(attempts=2)}
_RETRIES_OF_AWS = ("AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE")
_PASSING = (errno.EBUSY, errno.EREMOTEIO if hasattr(errno, "EREMOTEIO") else errno.EIO, errno.ECONNRESET)
_GONE = ("EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ConnectError", "ProxyError")
_CUT = ("IncompleteReadError", "ClientPayloadError", "ResponseStreamingError", "ChecksumError")
_WITHOUT_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "RefreshError")


class ObjectStore:
    """The objects of one scheme; addresses begin with it.

    Raises:
        MissingExtraError: the scheme's library is not installed.
    """

    def __init__(self, scheme: str, patience: Patience | None = None) -> None:
        self._scheme = scheme
        self._calls = PatientCalls(patience or _PATIENCE[scheme])
        self._lock = Lock()
        self._opened: Any = None
        require(PACKAGES[scheme], extra="remote")

    def mark(self, address: str) -> ContentMark:
        """ETag (or what stands for it) and size."""
        found = self._call(address, lambda: self._info(address))
        if found.get("type") == "directory":
            raise ImageError("not_a_file", f"{address}: a folder, not an object")
        return _mark_of(found)

    def marks(self, addresses: Sequence[str]) -> list[ContentMark | None]:
        """The marks of objects; folders of which many are wanted are listed, others asked for side by side."""
        folders: dict[str, list[int]] = {}
        for number, address in enumerate(addresses):
            folders.setdefault(address.rpartition("/")[0], []).append(number)
        found: list[ContentMark | None] = [None] * len(addresses)
        alone = []
        for folder, numbers in folders.items():
            if len(numbers) < LISTED_FROM:
                alone += numbers
                continue
            listed = self._listed(folder)
            for number in numbers:
                found[number] = listed.get(self._name(addresses[number]))

        def mark(number: int) -> ContentMark | None:
            try:
                return self.mark(addresses[number])
            except ImageError:
                return None

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="marks") as pool:
            for number, each in zip(alone, pool.map(mark, alone), strict=True):
                found[number] = each
        return found

    def read(
        self,
        address: str,
        *,
        max_bytes: int,
        start: int | None = None,
        end: int | None = None,
        mark: ContentMark | None = None,
    ) -> bytes:
        """Download an object, or a part of it; see `FilePlace.read`."""
        if start is not None:
            require_size(address, None if end is None else end - start, max_bytes)
            data: bytes = self._call(address, lambda: self._system().cat_file(address, start=start, end=end))
            # A part may come from another object than the one that was indexed; a whole one cannot.
            if mark is not None and mark.text is not None and self.mark(address).text != mark.text:
                raise changed(address)
            return data
        listed = self.mark(address) if mark is None or mark.size is None else mark
        require_size(address, listed.size, max_bytes)
        data = self._call(address, lambda: self._system().cat_file(address))
        if listed.size is not None and len(data) != listed.size:
            raise changed(address)
        return data

    def files(self, folder: str, *, suffixes: Sequence[str]) -> list[str]:
        """The addresses below a folder that end with one of the suffixes, whatever their case; sorted.

        Raises:
            ImageError: the folder cannot be listed.
        """
        found = self._call(folder, lambda: self._system().find(folder))
        names = sorted(name for name in found if str(name).lower().endswith(tuple(suffixes)))
        return [f"{self._scheme}://{name}" for name in names]

    def _info(self, address: str) -> Mapping[str, Any]:
        # Of the Hub's files only the long form tells which content they have.
        options = {"expand_info": True} if self._scheme == "hf" else {}
        found: Mapping[str, Any] = self._system().info(address, refresh=True, **options)
        return found

    def _listed(self, folder: str) -> dict[str, ContentMark]:
        try:
            entries = self._call(folder, lambda: self._system().ls(folder, detail=True, refresh=True))
        except ImageError:
            return {}
        return {str(entry["name"]): _mark_of(entry) for entry in entries if entry.get("type") == "file"}

    def _name(self, address: str) -> str:
        return str(self._system()._strip_protocol(address))

    def _system(self) -> Any:
        with self._lock:
            if self._opened is None:
                system = getattr(require(PACKAGES[self._scheme], extra="remote"), _CLASSES[self._scheme])
                self._opened = system(**_options(self._scheme))
            return self._opened

    def _call(self, address: str, call: Callable[[], Any]) -> Any:
        def attempt() -> Any:
            with _errors(address):
                return call()

        return self._calls.call(attempt)


def _options(scheme: str) -> dict[str, Any]:
    if scheme == "hf":
        return {}
    # A listing that is kept would hide that an object has changed.
    options: dict[str, Any] = {"use_listings_cache": False}
    configured = require("fsspec.config", extra="remote").conf.get(scheme, {})
    if scheme == "s3" and "config_kwargs" not in configured and not any(map(os.environ.get, _RETRIES_OF_AWS)):
        # While nobody answers, botocore's own five attempts would take 5 s for each image.
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    return options


def _mark_of(entry: Mapping[str, Any]) -> ContentMark:
    size = entry.get("size")
    size = int(size) if size is not None else None
    identities = [f"{entry[name]}" for name in _IDENTITIES if entry.get(name)]
    return ContentMark(":".join([*identities, str(size)]) if identities else None, size)


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Whatever goes wrong below becomes an `ImageError`, or passes."""
    try:
        yield
        return
    except (ImageError, DetectorBenchError):
        raise
    except Exception as error:  # noqa: BLE001 - four libraries below one another, each with errors of its own
        failure = _failure(address, error)
    # Behind the handler, so that no traceback leads to frames that hold a secret.
    raise failure


def _failure(address: str, error: Exception) -> Exception:
    names = {each.__name__ for kind in map(type, _chain(error)) for each in kind.__mro__}
    status = next((status for each in _chain(error) if (status := _status(each)) is not None), None)
    said = sentence(error)
    detail = f"{address}: {type(error).__name__}: {said}"
    if names & set(_WITHOUT_CREDENTIALS):
        return ImageError("no_permission", f"{address}: no credentials are found, or they are not accepted")
    if isinstance(error, PermissionError) or status in (401, 403):
        return ImageError("no_permission", f"{address}: the store refuses it: {said}")
    if isinstance(error, FileNotFoundError) or status == 404:
        return ImageError("missing_file", f"{address}: no such object")
    if names & set(_CUT):
        return NotNowError("truncated_transfer", detail)
    is_gone = bool(names & set(_GONE))
    is_passing = isinstance(error, TimeoutError | ConnectionError) or "HTTPClientError" in names
    is_passing |= getattr(error, "errno", None) in _PASSING or (status is not None and status >= 500)
    if is_gone or is_passing:
        return NotNowError("unreachable", detail, reached=not is_gone)
    return ImageError("unreadable", detail)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(5):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    """The status of an answer by HTTP, which every library keeps elsewhere."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        response = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    candidates = (response, getattr(response, "status_code", None), getattr(error, "code", None))
    return next((int(each) for each in candidates if isinstance(each, int | str) and str(each).isdecimal()), None)
