"""Download one file with pooch, which retries, compares hashes and moves the finished file into place.

What pooch does not do is done here: several addresses are tried in turn, a body may not be longer than it is
allowed or shorter than it was announced, and redirects lead to http or https only, never from https to http.
pooch comes with the extra ``tacenda[data]`` and is imported when something is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import tacenda
from tacenda import store
from tacenda.errors import DataError
from tacenda.progress import Progress, track

__all__ = ["Receipt", "download"]

#: Statuses of a server that another attempt may overcome.
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Receipt:
    """What was fetched."""

    url: str
    filename: str
    bytes: int
    sha256: str
    verified: bool
    """Whether the file was compared with a hash known beforehand."""


class _RefusedError(Exception):
    """An address will not serve the file, however often it is asked."""


def download(
    urls: Sequence[str],
    target: Path,
    *,
    expected: str | None = None,
    max_bytes: int = 512 << 20,
    timeout: float = 30.0,
    attempts: int = 3,
) -> Receipt:
    """Fetch a file, unless it is there with the expected hash.

    Parameters
    ----------
    urls
        Addresses of the same file, tried in order.
    target
        Where the file goes. If ``expected`` is None, a file that is there already is taken as it is.
    expected
        ``sha256:...`` or ``md5:...``; None means that nobody knows.
    max_bytes
        The longest body accepted.
    timeout
        Seconds without a byte after which an attempt has failed.
    attempts
        How often each address is asked.

    Raises
    ------
    DataError
        pooch is not installed, no address served the file, it is too long, or its hash is another one.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        raise DataError(
            'fetching a dataset needs pooch: install it with pip install "tacenda[data]"'
        ) from error
    pooch.get_logger().setLevel("WARNING")
    causes: list[str] = []
    for url in urls:
        if urlsplit(url).scheme not in {"http", "https"}:
            causes.append(f"{url}: its scheme is neither http nor https")
            continue
        files = pooch.create(
            target.parent,
            base_url="",
            registry={target.name: expected},
            urls={target.name: url},
            retry_if_failed=attempts - 1,
        )
        try:
            files.fetch(target.name, downloader=_Downloader(target.name, max_bytes, timeout))
        except (_RefusedError, ValueError, requests.RequestException) as error:
            causes.append(f"{url}: {error}")
            continue
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error.strerror or error}") from error
        sha256 = store.sha256_of(target)
        return Receipt(url, target.name, target.stat().st_size, sha256, expected is not None)
    raise DataError(f"{target.name} could not be fetched ({'; '.join(causes)}): try again later")


class _Downloader:
    """What pooch calls to fetch an address into a temporary file; the bytes pass through `write`."""

    def __init__(self, name: str, max_bytes: int, timeout: float) -> None:
        self._name, self._max_bytes, self._timeout = name, max_bytes, timeout
        self._announced: int | None = None
        self._size = 0
        self._stack = ExitStack()
        self._bar: Progress[object]
        self._stream: IO[bytes]

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        """Fetch once; what may succeed another time is raised as a RequestException."""
        from pooch import HTTPDownloader
        from requests import HTTPError, RequestException

        fetch = HTTPDownloader(
            chunk_size=_CHUNK,
            timeout=self._timeout,
            headers={"User-Agent": f"tacenda/{tacenda.__version__}", "Accept-Encoding": "identity"},
            hooks={"response": self._look_at},
        )
        self._announced, self._size = None, 0
        with Path(output_file).open("wb") as stream, self._stack:
            self._stream = stream
            try:
                fetch(url, self, pooch)
            except HTTPError as error:
                if error.response is None or error.response.status_code in _RETRIED:
                    raise
                raise _RefusedError(str(error)) from error
        if self._announced not in (None, self._size):
            raise RequestException(
                f"the connection ended after {self._size:,} of {self._announced:,} bytes"
            )

    def _look_at(self, response: Any, **_: Any) -> None:
        """Refuse an unsafe redirect or too long a body before it is followed or read."""
        if response.is_redirect:
            location = response.headers["location"]
            scheme = urlsplit(location).scheme or urlsplit(response.url).scheme
            if scheme != "https" and (scheme != "http" or response.url.startswith("https:")):
                raise _RefusedError(f"it redirects to {location}, which is not safe to follow")
            return
        if not response.ok:
            return
        length = response.headers.get("content-length", "")
        self._announced = int(length) if length.isascii() and length.isdigit() else None
        if (self._announced or 0) > self._max_bytes:
            raise _RefusedError(
                f"it is {self._announced:,} bytes long and {self._max_bytes:,} is the most expected"
            )
        self._bar = self._stack.enter_context(
            track(None, f"fetching {self._name}", total=self._announced, unit="B")
        )

    def write(self, chunk: bytes) -> None:
        """Write a piece of the body."""
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise _RefusedError(f"it is longer than {self._max_bytes:,} bytes, the most expected")
        self._stream.write(chunk)
        self._bar.update(len(chunk))

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is closed."""
