"""``tacenda.TextCatAverage.v1``: the mean of three text categorizers, each trained on its own error.

Trained as one network, as in ``spacy.TextCatEnsemble.v2``, a bag of words soon explains the few labeled texts, and the
vectors learn nothing more from them. Here each of the three learns as if it were alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from spacy.ml.models.textcat import NEG_VALUE
from spacy.tokens import Doc
from thinc.api import (
    Dropout,
    LayerNorm,
    Linear,
    Logistic,
    Maxout,
    Model,
    ParametricAttention,
    Softmax,
    chain,
    concatenate,
    list2ragged,
    reduce_max,
    reduce_mean,
    reduce_sum,
    residual,
    resizable,
)
from thinc.layers.resizable import resize_linear_weighted, resize_model
from thinc.types import Floats2d, Ragged

Layer: TypeAlias = Model[Any, Any]


def average_categorizers(
    tok2vec: Layer, linear_model: Layer, nO: int | None = None
) -> Model[list[Doc], Floats2d]:
    """Average the probabilities of a bag of words and of two categorizers that read token vectors.

    One of the two reads the mean and the maximum of the vectors, the other their sum weighted by attention and one
    hidden layer, as in spaCy's ensemble. A document without tokens has one token vector, of zeros.

    Parameters
    ----------
    tok2vec
        Returns one array ``(n_tokens, width)`` for each document.
    linear_model
        A bag of words that returns probabilities: ``spacy.TextCatBOW.v3`` with ``no_output_layer = false``. Whether its
        classes exclude each other holds for all three.
    nO
        The number of classes; None takes it from the examples.

    Returns
    -------
    A model that returns probabilities ``(n_documents, n_classes)``, for ``textcat`` and ``textcat_multilabel``. Labels
    can be added to it if they can be added to the bag of words.
    """
    width, multi_label = tok2vec.maybe_get_dim("nO"), linear_model.attrs["multi_label"]
    resizes = {"resize_output": _resize} if "resize_output" in linear_model.attrs else {}

    def classify() -> Layer:
        # as in spaCy's own, a new class that excludes others has no probability until it is trained
        fill = {"W": 0, "b": 0 if multi_label else NEG_VALUE}
        resize = partial(resize_linear_weighted, fill_defaults=fill)
        output = resizable(Linear(nO) if multi_label else Softmax(nO), resize)
        return chain(output, Logistic()) if multi_label else output

    hidden = chain(Maxout(width, width, nP=3), LayerNorm(width), Dropout(0.0))
    pooled = chain(concatenate(reduce_mean(), reduce_max()), classify())
    attended = chain(ParametricAttention(width), reduce_sum(), residual(hidden), classify())
    one_token_at_least: Layer = Model("one_token_at_least", _give_a_token)
    vectors = chain(tok2vec, one_token_at_least, list2ragged())
    return Model(
        "average_categorizers",
        _forward,
        init=_init,
        layers=[linear_model, vectors, pooled, attended],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "hidden": hidden},
        attrs={"multi_label": multi_label, **resizes},
    )


def _resize(model: Layer, n_classes: int) -> Layer:
    bag, _, *readers = model.layers
    bag.attrs["resize_output"](bag, n_classes)
    for output in [node for reader in readers for node in reader.walk()]:
        if "resize_layer" in output.attrs:
            resize_model(output, n_classes)
    model.set_dim("nO", n_classes, force=True)
    return model


def _init(model: Layer, X: list[Doc] | None = None, Y: Floats2d | None = None) -> None:
    bag, vectors, *readers = model.layers
    bag.initialize(X=X, Y=Y)
    vectors.initialize(X=X)
    tokens = None if X is None else vectors.predict(X)
    if tokens is not None:
        for layer in model.get_ref("hidden").layers:
            for dim in ("nI", "nO"):
                if layer.has_dim(dim) is None:
                    layer.set_dim(dim, tokens.dataXd.shape[1])
    for reader in readers:
        reader.initialize(X=tokens, Y=Y)
    if Y is not None:
        model.set_dim("nO", Y.shape[1])


def _forward(
    model: Layer, docs: list[Doc], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[Doc]]]:
    bag, vectors, *readers = model.layers
    tokens, backprop_tokens = vectors(docs, is_train)
    outputs = [bag(docs, is_train), *(reader(tokens, is_train) for reader in readers)]
    mean: Floats2d = sum(scores for scores, _ in outputs) / len(outputs)

    def backprop(d_mean: Floats2d) -> list[Doc]:
        # spaCy's gradient is the scores less the truth, which gives the truth, and with it each one's own gradient;
        # where a label is missing it is zero, and each learns from the mean
        truth = mean - d_mean
        _, *gradients = [backprop_one(scores - truth) for scores, backprop_one in outputs]
        backprop_tokens(Ragged(sum(each.dataXd for each in gradients), tokens.lengths))
        return []

    return mean, backprop


def _give_a_token(
    model: Layer, docs: list[Floats2d], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Floats2d]]]:
    """Give documents without tokens one vector of zeros, because thinc finds no maximum of nothing."""

    def backprop(d_docs: list[Floats2d]) -> list[Floats2d]:
        return [d_doc[: len(doc)] for d_doc, doc in zip(d_docs, docs, strict=True)]

    return [doc if len(doc) else model.ops.alloc2f(1, doc.shape[1]) for doc in docs], backprop
