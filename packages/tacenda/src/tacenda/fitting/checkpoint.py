"""Checkpoints of a fit: tensors in safetensors files, one JSON manifest as the commit point.

A checkpoint folder holds ``checkpoint.json`` and the files it names: ``state-<hash>.safetensors`` (all the next step
depends on) and ``best-<hash>.safetensors`` (the best parameters so far, written only when they have changed), where
the hash is the first 32 digits of the sha256. The manifest is written last; see `tacenda.store`.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from tacenda import reading, store
from tacenda.artifact import arrays as named_arrays
from tacenda.errors import ArtifactError, FittingError, describe, warn
from tacenda.fitting.trainer import State

Resume = bool | Literal["auto"]

FORMAT = 1
MANIFEST = "checkpoint.json"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, ArtifactError)
_ARRAY_FILE = re.compile(r"(state|best)-[0-9a-f]{32}\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """One saved moment: manifest entries and the two sets of arrays."""

    identity: dict[str, Any]
    """The entries that must be the same in a run that resumes: configuration, data, settings."""
    progress: dict[str, Any]
    """Counters, sums, schedule state, history (JSON)."""
    state: Mapping[str, NDArray[Any]]
    best: Mapping[str, NDArray[Any]] | None


class CheckpointFolder:
    """The one checkpoint of a folder, to be written and read; ``identity`` tells its fit from others."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        identity: dict[str, Any] | None = None,
        every_steps: int | None = None,
        every_seconds: float | None = None,
    ) -> None:
        self.folder = reading.path_of(folder, FittingError)
        self.manifest = self.folder / MANIFEST
        self._identity, self._every = identity or {}, (every_steps, every_seconds)
        self._saved_at, self._saved_once = time.monotonic(), False
        self._best: tuple[int, dict[str, Any]] | None = None  # (version, file entry) last written
        self._fresh: list[Path] = []  # files written since the last manifest
        self._claimed: ExitStack | None = None

    def claim(self) -> None:
        """Keep the folder, which exists, for this object until `release`.

        Raises FittingError if another fit keeps it: each would remove the files of the other.
        """
        if self._claimed is not None:
            return
        with ExitStack() as claimed:
            try:
                claimed.enter_context(store.claim(self.folder))
            except BlockingIOError as error:
                raise FittingError(
                    f"another fit ({error.strerror}) keeps its checkpoints in {self.folder}: give each fit a separate "
                    "folder, or wait for the other to end"
                ) from error
            except OSError as error:
                raise FittingError(
                    f"cannot save a checkpoint in {self.folder}: {error.strerror or error}; choose another folder"
                ) from error
            self._claimed = claimed.pop_all()

    def release(self) -> None:
        """Let others write into the folder."""
        if self._claimed is not None:
            self._claimed.close()
        self._claimed = None

    def due(self, step: int) -> bool:
        """Tell whether a checkpoint is due after ``step`` steps."""
        steps, seconds = self._every
        if steps is not None and step % steps == 0:
            return True
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def record(
        self, progress: dict[str, Any], state: State, best: State | None, best_version: int
    ) -> None:
        """Save a checkpoint. The first that cannot be written ends the fit; a later one causes a warning."""
        try:
            self.write(Checkpoint(self._identity, progress, state, best), best_version)
        except FittingError as error:
            if not self._saved_once:
                raise
            warn(f"{error}; the fit goes on", RuntimeWarning)
        self._saved_at, self._saved_once = time.monotonic(), True

    def write(self, checkpoint: Checkpoint, best_version: int) -> None:
        """Save a checkpoint; ``best_version`` changes whenever the best parameters do.

        Raises FittingError if the folder cannot be written, or another fit keeps it; the last one that was saved is
        then whole.
        """
        self._fresh.clear()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.claim()
            files = {"state": self._write_arrays("state", checkpoint.state)}
            if checkpoint.best is not None:
                if self._best is None or self._best[0] != best_version:
                    self._best = best_version, self._write_arrays("best", checkpoint.best)
                files["best"] = self._best[1]
            manifest = {
                "format": FORMAT,
                "identity": checkpoint.identity,
                "progress": checkpoint.progress,
                "files": files,
            }
            # the commit point: before it the old checkpoint is whole, after it the new one
            store.write_file(self.manifest, json.dumps(manifest, indent=1).encode())
            self._fresh.clear()
            keep = {entry["name"] for entry in files.values()}
            store.sweep(self.folder, keep, _ARRAY_FILE.fullmatch)
        except OSError as error:
            self._best = None
            for path in self._fresh:  # which no manifest names
                store.remove(path)
            raise FittingError(
                f"cannot save a checkpoint in {self.folder}: {error.strerror or error}; "
                "free or choose another folder (the last one that was saved, if any, is whole)"
            ) from error

    def read(self) -> Checkpoint:
        """Read and check the checkpoint. Raises FittingError, which says what is wrong with it."""
        try:
            manifest = reading.read_json(self.manifest)
            version = manifest["format"]
            if version != FORMAT:
                raise self._damage_error(f"has format {version!r}, this release reads {FORMAT}")
            for name in ("identity", "progress", "files"):
                if not isinstance(manifest[name], dict):
                    raise self._damage_error(f"holds no JSON object as its {name}")
            arrays = {
                role: self._read_arrays(role, entry) for role, entry in manifest["files"].items()
            }
            best = arrays.get("best")
            return Checkpoint(manifest["identity"], manifest["progress"], arrays["state"], best)
        except _DAMAGE as error:
            raise self._damage_error(f"cannot be read ({describe(error)})") from error

    def find(self, resume: Resume) -> Checkpoint | None:
        """Return the checkpoint to resume from, or None to start from the beginning.

        Raises FittingError for a folder that another fit keeps, for the checkpoint of a different fit, for files that
        cannot be removed, and with ``resume=True`` if there is no checkpoint.
        """
        if self.folder.is_dir():
            self.claim()
        if resume is False:
            try:
                self.manifest.unlink(missing_ok=True)
                if self.folder.is_dir():
                    store.sweep(self.folder, (), _ARRAY_FILE.fullmatch)
            except OSError as error:
                raise FittingError(
                    f"the checkpoint in {self.folder} cannot be removed ({describe(error)}): use another folder"
                ) from error
        if not self.manifest.exists():
            if resume is True:
                raise FittingError(
                    f"there is no checkpoint in {self.folder} to resume from; start with resume='auto'"
                )
            return None
        saved = self.read()
        if changes := _describe_changes(saved.identity, json.loads(json.dumps(self._identity))):
            raise FittingError(
                f"the checkpoint in {self.folder} belongs to a different fit, in which {changes} differ "
                "(there -> here): use another folder, or remove this one, or start over with resume=False"
            )
        return saved

    def _write_arrays(self, role: str, arrays: State) -> dict[str, Any]:
        data = named_arrays.encode(arrays)
        digest = hashlib.sha256(data).hexdigest()
        name = f"{role}-{digest[:32]}.safetensors"
        if not (self.folder / name).exists():
            store.write_file(self.folder / name, data)
            self._fresh.append(self.folder / name)
        return {"name": name, "size": len(data), "sha256": digest}

    def _read_arrays(self, role: str, entry: dict[str, Any]) -> dict[str, NDArray[Any]]:
        name = entry["name"]
        if Path(name).name != name or not name.startswith(f"{role}-"):
            raise self._damage_error(f"names a file it may not name: {name!r}")
        with reading.open_regular(self.folder / name) as file:
            # a file of another size is not read: it may be larger than the memory
            fits = os.fstat(file.fileno()).st_size == entry["size"]
            data = file.read() if fits else b""
        if len(data) != entry["size"] or hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise self._damage_error(f"names {name}, whose contents are not those that were saved")
        return named_arrays.decode(data)

    def _damage_error(self, what: str) -> FittingError:
        return FittingError(
            f"the checkpoint {self.manifest} {what}; remove its folder, or start over with resume=False"
        )


def _describe_changes(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the entries in which two JSON objects differ, such as ``data: a -> b, settings (width: 4 -> 5)``."""
    changes = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            changes.append(f"{key} ({_describe_changes(old, new)})")
        elif old != new:
            changes.append(f"{key}: {old} -> {new}")
    return ", ".join(changes)
