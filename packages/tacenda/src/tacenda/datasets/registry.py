"""The registry of datasets, and the form of its entries.

A distribution registers its datasets under the entry-point group ``tacenda.datasets``. An entry is a `DatasetSpec` or
a list of them; the core registers its own datasets in the same way. A plugin that fails to load hides only its own
datasets. A name that two distributions claim is an error when somebody asks for it.
"""

import difflib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from tacenda import plugins
from tacenda.errors import DataError, PluginError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\Z")
_HASH = re.compile(r"(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})\Z")

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file to fetch.

    Raises
    ------
    DataError
        An address is not http or https, or the file name or the hash is malformed.
    """

    urls: tuple[str, ...]
    """The official address first, then others that hold the same file; tried in order."""
    filename: str
    """A plain file name; it is stored, or unpacked from, under this name."""
    size: int | None = None
    """Bytes, where known; for information."""
    hash: str | None = None
    """``sha256:...`` or ``md5:...`` in lower-case hexadecimal; None where nobody published it."""
    confirmed: bool = True
    """Whether a second source confirmed the first address when the entry was written."""
    unpack: bool = False
    """Whether the file is an archive to unpack: zip, tar (plain, gz, xz, bz2), gz or xz."""
    members: tuple[str, ...] = ()
    """`fnmatch` patterns of the members to unpack; none means all of them."""
    max_bytes: int = 512 * MIB
    """The largest size the file may have, packed and unpacked."""
    max_files: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what could not be fetched safely."""
        if not self.urls or any(urlsplit(u).scheme not in {"http", "https"} for u in self.urls):
            raise DataError(f"the addresses {self.urls} must be http or https, one at least")
        if not _FILENAME.match(self.filename):
            raise DataError(f"the file name {self.filename!r} must be plain: letters, digits, .+_-")
        if self.hash is not None and not _HASH.match(self.hash):
            raise DataError(
                f"the hash {self.hash!r} must be sha256: or md5: and hexadecimal digits"
            )


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A dataset: its terms, where it officially lives, and what its files are called.

    Raises
    ------
    DataError
        The name is not plain, no file is named, or there is neither a download nor a
        word on how to obtain the data.
    """

    kind: ClassVar[str] = "datasets"

    name: str
    title: str
    licence: str
    """The name of the licence, for the listing."""
    licence_text: str
    """The terms, as a user must know them before fetching."""
    homepage: str
    files: Mapping[str, tuple[str, ...]]
    """Role (``train``, ``ratings``...) to the paths it may have within the folder, best first."""
    folders: tuple[str, ...] = ()
    """Where the folder may be within a data folder, besides ``name``; ``*`` is allowed."""
    downloads: tuple[Download, ...] = ()
    obtain: str = ""
    """How to obtain data that cannot be downloaded, as an imperative sentence."""
    optional: frozenset[str] = field(default_factory=frozenset)
    """Roles that a folder may lack."""

    def __post_init__(self) -> None:
        """Refuse an entry that could be neither fetched nor found."""
        if not _NAME.match(self.name):
            raise DataError(
                f"the dataset name {self.name!r} must be lower-case letters, digits, ._-"
            )
        if not self.files:
            raise DataError(f"the dataset {self.name} names no files")
        if not self.downloads and not self.obtain:
            raise DataError(f"the dataset {self.name} needs a download or a word on obtaining it")

    @property
    def size(self) -> int | None:
        """Bytes to download, or None if one of the sizes is not known."""
        sizes = [download.size for download in self.downloads]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None


def available() -> list[DatasetSpec]:
    """Return all registered datasets in order of their names; those that cannot be loaded cause a warning."""
    return sorted((spec for _, spec in _registered()), key=lambda spec: spec.name)


def get(name: str) -> DatasetSpec:
    """Return the dataset of a name.

    Raises
    ------
    DataError
        Nobody registered it, or two distributions did.
    """
    claims = [(owner, spec) for owner, spec in _registered() if spec.name == name]
    if not claims:
        known = sorted({spec.name for _, spec in _registered()})
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "`tacenda data list` shows those there are"
        raise DataError(f"there is no dataset {name!r}: {hint}")
    if len(claims) > 1:
        owners = " and ".join(sorted(owner for owner, _ in claims))
        raise DataError(f"the dataset {name!r} is registered by {owners}: uninstall one of them")
    return claims[0][1]


def _registered() -> list[tuple[str, DatasetSpec]]:
    """Return every (distribution, spec); a plugin that cannot be loaded causes a warning."""
    found: list[tuple[str, DatasetSpec]] = []
    for record in plugins.available("datasets"):
        try:
            entry = plugins.get("datasets", record.name, distribution=record.distribution)
        except PluginError as error:
            if record.status == "not loaded":  # otherwise it was said before
                warnings.warn(f"datasets left out: {error}", stacklevel=3)
            continue
        specs = [entry] if isinstance(entry, DatasetSpec) else entry
        found.extend((record.distribution, spec) for spec in specs)
    return found
