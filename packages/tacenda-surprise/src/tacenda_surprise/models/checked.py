"""What a model gave, checked by its host: the model may be anybody's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import PluginError


def checked(model: object, method: str, found: object, *shape: int) -> npt.NDArray[Any]:
    """Return ``found``, which ``method`` of ``model`` gave, if it holds floats and has this ``shape``.

    Raises PluginError, which names the model and both shapes.
    """
    if isinstance(found, np.ndarray) and found.shape == shape and found.dtype.kind == "f":
        return found
    given = f"a {type(found).__name__}"
    if isinstance(found, np.ndarray):
        given = f"{found.dtype} of the shape {found.shape}"
    name = getattr(model, "name", type(model).__name__)
    raise PluginError(
        f"{method} of the model {name!r} ({type(model).__name__}) gave {given} where float32 of the shape {shape} was "
        "asked for: correct the model"
    )
