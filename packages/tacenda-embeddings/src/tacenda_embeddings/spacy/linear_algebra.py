"""``tacenda.numpy_blas.v1``: the layers of a whole pipeline multiply with NumPy's BLAS.

On a CPU thinc multiplies with BLIS. With the BLAS of NumPy (OpenBLAS, or Accelerate on a Mac), spaCy's default tagger
ran about twice as fast, and a pipeline of tagger, parser and entity recognizer 1.5 times as fast
(docs/results/spacy-pipelines.md). In the configuration of a pipeline:

    [nlp]
    after_pipeline_creation = {"@callbacks":"tacenda.numpy_blas.v1"}

It works for any pipeline, with or without layers of Tacenda. Weights stay the same, and results differ only by
rounding. BLIS uses one thread; ``OMP_NUM_THREADS`` sets how many OpenBLAS uses.
"""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, NumpyOps

#: Name of the callback.
NUMPY_BLAS = "tacenda.numpy_blas.v1"

_OPERATIONS = NumpyOps(use_blis=False)


def uses_numpy_blas() -> Callable[[Any], Any]:
    """Return the callback that ``[nlp] after_pipeline_creation`` names, for which a pipeline needs this package."""

    def after_pipeline_creation(nlp: Any) -> Any:
        # not at the top: an entry point of spaCy imports this module, which may import spaCy and thinc only
        from tacenda.spacy.component import note_requirement

        note_requirement(nlp, "tacenda-embeddings")
        return use_numpy_blas(nlp)

    return after_pipeline_creation


def use_numpy_blas(nlp: Any) -> Any:
    """Switch all layers of a pipeline, including disabled components, to NumPy's BLAS; return the pipeline.

    Components and layers added later are not switched: call it again then. After labels were added, ``initialize``
    gives a parser or an entity recognizer a new layer. A saved pipeline is switched again when it is loaded only if its
    configuration names the callback.
    """
    for _, component in nlp.components:
        model = getattr(component, "model", None)
        if isinstance(model, Model):
            switch_layer_to_numpy_blas(model)
    return nlp


def switch_layer_to_numpy_blas(layer: Model[Any, Any]) -> Model[Any, Any]:
    """Switch a layer and all layers in it to NumPy's BLAS, and return it.

    Layers that compute on a GPU or with thinc-apple-ops stay as they are.
    """
    for node in layer.walk():
        if type(node.ops) is NumpyOps:
            node.ops = _OPERATIONS
    return layer
