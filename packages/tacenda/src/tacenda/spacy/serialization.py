"""How a component is saved, loaded and pickled: the fitted model as an artefact, nothing else.

The settings of a component come with the pipeline's configuration. A component without a model
saves and loads as such.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import srsly
from spacy import util

__all__ = ["ModelSerialization"]


class ModelSerialization:
    """Serialization methods, as spaCy names them, of a component with a fitted model or None."""

    def _get_model(self) -> Any:
        """Return the fitted model or None."""
        raise NotImplementedError

    def _set_model(self, model: Any) -> None:
        """Take a fitted model or None."""
        raise NotImplementedError

    def _load_model(self, source: Path | bytes) -> Any:
        """Return the model in a folder, or in what ``Artifact.to_bytes`` gave."""
        raise NotImplementedError

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the fitted model; ``exclude=["model"]`` leaves it out."""
        model = self._get_model()
        serialize = {
            "cfg": lambda: srsly.json_dumps({"fitted": model is not None}),
            "model": lambda: b"" if model is None else model.to_artifact().to_bytes(),
        }
        return bytes(util.to_bytes(serialize, exclude))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Restore what `to_bytes` gave; a component saved without a model has none afterwards."""
        util.from_bytes(data, {"cfg": _ignore, "model": self._model_from_bytes}, exclude)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save to a folder: ``cfg.json`` and, unless ``exclude=["model"]``, the artefact in
        ``model``.
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        model = None if "model" in exclude else self._get_model()
        if model is not None:
            model.save(folder / "model")
        # last, and it decides: the folder may hold the model of an earlier save
        srsly.write_json(folder / "cfg.json", {"fitted": model is not None})

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_disk` saved; a component saved without a model has none afterwards."""
        folder = Path(path)
        if "model" not in exclude:
            fitted = srsly.read_json(folder / "cfg.json").get("fitted")
            self._set_model(self._load_model(folder / "model") if fitted else None)
        return self

    def _model_from_bytes(self, data: bytes) -> None:
        self._set_model(self._load_model(data) if data else None)


def _ignore(data: bytes) -> None:
    """Read nothing; the settings come with the pipeline's configuration."""
