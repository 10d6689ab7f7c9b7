"""Resumable download of one file over HTTP.

Written on the standard library's urllib: one GET with three headers is all it takes, and every user
of the core would otherwise install an HTTP library for a command most of them never run.

The body goes to ``<target>.part``, with the address, the validators (ETag, Last-Modified) and the
length in ``<target>.part.json`` beside it. A later attempt, in this process or the next, asks for
the rest with ``Range`` and ``If-Range`` (RFC 9110, 13.1.5 and 14.2): a server that has the same
file answers 206 and the rest; one whose file changed, or which knows no ranges, answers 200 and the
whole, and the part begins anew. A body shorter than it was announced counts as a failed attempt.
``target`` itself appears only when it is complete and its hash is right.
"""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import tacenda
from tacenda.datasets.partial import Partial
from tacenda.errors import DataError
from tacenda.progress import Progress, track

_CHUNK = 1 << 16
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 60.0
USER_AGENT = f"tacenda/{tacenda.__version__}"


@dataclass(frozen=True)
class Receipt:
    """What was fetched."""

    url: str
    filename: str
    bytes: int
    sha256: str
    etag: str | None
    last_modified: str | None
    verified: bool
    """Whether the file was compared with a hash known beforehand."""


class _AgainError(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _GiveUpError(Exception):
    """An address will not serve the file."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and from https not back to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme != "http" or req.type == "https"):
            raise _GiveUpError(f"it redirects to {newurl}, which is not safe to follow")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(
    urls: Sequence[str],
    target: str | Path,
    *,
    expected: str | None = None,
    max_bytes: int = 512 << 20,
    timeout: float = 30.0,
    attempts: int = 5,
    backoff: float = 1.0,
    sleep: Callable[[float], Any] = time.sleep,
) -> Receipt:
    """Fetch a file, resuming an earlier attempt if one was broken off.

    Parameters
    ----------
    urls
        Addresses of the same file, tried in order.
    target
        Where the file goes; replaced if it exists.
    expected
        ``sha256:...`` or ``md5:...``; None means that nobody knows.
    max_bytes
        The longest body accepted.
    timeout
        Seconds without a byte after which an attempt has failed.
    attempts
        How many attempts in a row may fail without progress at one address.
    backoff
        Seconds to wait after the first failure; doubled after each, 60 at most.
    sleep
        How to wait; for tests.

    Raises
    ------
    DataError
        No address served the file, it is too long, or its hash is another one.
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from error
    part = Partial(target)
    causes: list[str] = []
    for url in urls:
        try:
            _persist(url, part, max_bytes, timeout, attempts, backoff, sleep)
            receipt = _check(part, expected)
        except _GiveUpError as error:
            causes.append(f"{url}: {error}")
            continue
        except OSError as error:
            raise DataError(f"{part.path} cannot be written: {error.strerror or error}") from error
        part.path.replace(target)
        part.discard()
        return receipt
    raise DataError(f"{target.name} could not be fetched ({'; '.join(causes)}): try again later")


def _persist(
    url: str,
    part: Partial,
    max_bytes: int,
    timeout: float,
    attempts: int,
    backoff: float,
    sleep: Callable[[float], Any],
) -> None:
    """Attempt until the part is complete, or ``attempts`` in a row made no progress."""
    failures = 0
    farthest = part.resumable(url)
    while True:
        try:
            _attempt(url, part, max_bytes, timeout)
            return
        except _AgainError as error:
            # Not "longer than before": a server that always begins anew must not keep us for ever.
            progress = part.size() >= farthest + _CHUNK
            failures = 0 if progress else failures + 1
            farthest = max(farthest, part.size())
            if failures >= attempts:
                raise _GiveUpError(f"{error}, {attempts} times in a row") from error
            wait = backoff * 2 ** max(failures - 1, 0) if error.wait is None else error.wait
            sleep(min(wait, _LONGEST_WAIT))


def _attempt(url: str, part: Partial, max_bytes: int, timeout: float) -> None:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise _GiveUpError("its scheme is neither http nor https")
    offset = part.resumable(url)
    if part.complete(url):
        return
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": part.validator()}
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=timeout) as response:
            begin = part.accept(url, response, offset)
            _receive(response, part, begin, max_bytes)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # the part is as long as the file, or longer: it is not the file
                part.discard()
                raise _AgainError("the server has nothing after what is already here") from error
            if error.code in _RETRIED:
                raise _AgainError(
                    f"HTTP {error.code} {error.reason}", _retry_after(error)
                ) from error
            raise _GiveUpError(f"HTTP {error.code} {error.reason}") from error
    except (http.client.HTTPException, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # of the disk, not of the connection
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        raise _AgainError(
            f"the connection failed ({str(cause) or type(cause).__name__})"
        ) from error


def _receive(response: Any, part: Partial, begin: int, max_bytes: int) -> None:
    total = part.length
    if total is not None and total > max_bytes:
        part.discard()
        raise _GiveUpError(f"it is {total:,} bytes long and {max_bytes:,} is the most expected")
    size = begin
    with (
        part.path.open("r+b" if begin else "wb") as stream,
        _bar(part.target.name, total) as bar,
    ):
        stream.seek(begin)
        stream.truncate()
        bar.update(begin)
        while chunk := response.read(_CHUNK):
            size += len(chunk)
            if size > max_bytes:
                break
            _write(stream, chunk, part.path)
            bar.update(len(chunk))
    if size > max_bytes:
        part.discard()
        raise _GiveUpError(f"it is longer than {max_bytes:,} bytes, the most expected")
    if total is not None and size != total:
        if size > total:
            part.discard()
        raise _AgainError(f"the connection ended after {size:,} of {total:,} bytes")


def _bar(name: str, total: int | None) -> Progress[int]:
    return track(None, f"fetching {name}", total=total, unit="B")


def _write(stream: IO[bytes], chunk: bytes, path: Path) -> None:
    try:
        stream.write(chunk)
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    seconds = error.headers.get("Retry-After", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() else None


def _check(part: Partial, expected: str | None) -> Receipt:
    """Compare the finished part with its hash; one that differs is discarded."""
    algorithm, _, digest = (expected or "sha256:").partition(":")
    found = {name: file_hash(part.path, name) for name in {"sha256", algorithm}}
    if digest and found[algorithm] != digest:
        part.discard()
        raise _GiveUpError(
            f"its {algorithm} is {found[algorithm]} and should be {digest}, "
            "so it was changed or damaged and is not kept"
        )
    return Receipt(
        url=part.url,
        filename=part.target.name,
        bytes=part.size(),
        sha256=found["sha256"],
        etag=part.etag,
        last_modified=part.last_modified,
        verified=bool(digest),
    )


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
