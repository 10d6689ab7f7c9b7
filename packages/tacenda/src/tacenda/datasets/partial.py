"""The unfinished file of a download and what is known of it, so that another attempt can go on."""

import json
import re
from pathlib import Path
from typing import Any

_RANGE = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+|\*)\Z")


class Partial:
    """``<target>.part`` and ``<target>.part.json``.

    Attributes
    ----------
    path
        The unfinished file.
    url
        The address it came from.
    etag, last_modified
        The validators the server gave for it.
    length
        Bytes of the whole file, or None if the server did not say.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(target.name + ".part")
        self._state = target.with_name(target.name + ".part.json")
        self._set("", None, None, None)
        self._read()

    def _set(
        self, url: str, etag: str | None, last_modified: str | None, length: int | None
    ) -> None:
        self.url, self.etag, self.last_modified, self.length = url, etag, last_modified, length

    def _read(self) -> None:
        """Take over the state file; one that is missing or damaged means beginning anew."""
        try:
            state = json.loads(self._state.read_text("utf-8"))
        except (OSError, ValueError):
            return
        if not isinstance(state, dict):
            return
        url, etag, modified = (state.get(key) for key in ("url", "etag", "last_modified"))
        length = state.get("length")
        texts = all(isinstance(value, str | None) for value in (etag, modified))
        if isinstance(url, str) and texts and type(length) in (int, type(None)):
            self._set(url, etag, modified, length)

    def _write(self) -> None:
        state = {
            "url": self.url,
            "etag": self.etag,
            "last_modified": self.last_modified,
            "length": self.length,
        }
        self._state.write_text(json.dumps(state), "utf-8")

    def size(self) -> int:
        """Bytes that are here."""
        return self.path.stat().st_size if self.path.exists() else 0

    def validator(self) -> str:
        """What ``If-Range`` may carry: a strong ETag or, for want of one, the date; else empty."""
        if self.etag and not self.etag.startswith("W/"):
            return self.etag
        return self.last_modified or ""

    def resumable(self, url: str) -> int:
        """Bytes to go on after: 0 unless they are of ``url`` and a validator vouches for them."""
        if self.url != url or not self.validator():
            return 0
        size = self.size()
        return size if self.length is None or size <= self.length else 0

    def complete(self, url: str) -> bool:
        """Whether all that ``url`` serves is here."""
        here = self.url == url and self.path.exists()
        return here and self.length is not None and self.size() == self.length

    def accept(self, url: str, response: Any, offset: int) -> int:
        """Note what an answer says of the file; return the offset at which its body begins."""
        headers = response.headers
        etag, modified = headers.get("ETag"), headers.get("Last-Modified")
        body = headers.get("Content-Length", "")
        length = int(body) if body.isascii() and body.isdigit() else None
        begin = 0
        if response.status == 206:
            begin, total = _content_range(headers.get("Content-Range", ""))
            same = begin == offset and (etag is None or etag == self.etag)
            if not same or (self.length is not None and total != self.length):
                self.discard()
                raise ConnectionError("the server sent another part than was asked for")
            etag, modified = etag or self.etag, modified or self.last_modified
            length = total
        self._set(url, etag, modified, length)
        if not begin:
            self.path.unlink(missing_ok=True)  # before the state changes: the old bytes are not its
        self._write()
        return begin

    def discard(self) -> None:
        """Forget everything."""
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)
        self._set("", None, None, None)


def _content_range(header: str) -> tuple[int, int | None]:
    """(first byte, length of the whole) of a ``Content-Range``; (-1, None) if it is malformed."""
    match = _RANGE.match(header)
    if match is None:
        return -1, None
    return int(match[1]), None if match[3] == "*" else int(match[3])
