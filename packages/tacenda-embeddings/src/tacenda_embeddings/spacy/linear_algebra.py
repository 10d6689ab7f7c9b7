"""``tacenda.numpy_blas.v1``: the layers of a whole pipeline multiply with NumPy's BLAS.

On a CPU thinc multiplies with BLIS. With the BLAS of NumPy (OpenBLAS, or Accelerate on a Mac), spaCy's default tagger
ran about twice as fast, and a pipeline of tagger, parser and entity recognizer 1.5 times as fast
(docs/results/spacy-pipelines.md). In a configuration:

    [nlp]
    after_pipeline_creation = {"@callbacks":"tacenda.numpy_blas.v1"}

It works for any pipeline, with our layers or without. Weights and saved files stay the same, and results differ only by
rounding. BLIS uses one thread; ``OMP_NUM_THREADS`` sets how many OpenBLAS uses.
"""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, NumpyOps

#: Name of the callback.
NUMPY_BLAS = "tacenda.numpy_blas.v1"

_OPERATIONS = NumpyOps(use_blis=False)


def uses_numpy_blas() -> Callable[[Any], Any]:
    """Make the callback that ``[nlp] after_pipeline_creation`` names: `use_numpy_blas`."""
    return use_numpy_blas


def use_numpy_blas(nlp: Any) -> Any:
    """Switch all layers of a pipeline, including disabled components, to NumPy's BLAS; return the pipeline.

    Components added later are not switched.
    """
    from tacenda.spacy.component import note_requirement

    note_requirement(nlp, "tacenda-embeddings")
    for _, component in nlp.components:
        model = getattr(component, "model", None)
        if isinstance(model, Model):
            on_numpy_blas(model)
    return nlp


def on_numpy_blas(layer: Model[Any, Any]) -> Model[Any, Any]:
    """Make a layer, and all within it, multiply with NumPy's BLAS; return it.

    Operations for a GPU or of thinc-apple-ops stay as they are.
    """
    for node in layer.walk():
        if type(node.ops) is NumpyOps:
            node.ops = _OPERATIONS
    return layer
