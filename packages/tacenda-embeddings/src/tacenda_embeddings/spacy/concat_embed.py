"""``tacenda.ConcatEmbed.v1``: concatenated embedding layers, with an optional layer that mixes them.

It takes documents and returns one array ``(n_tokens, width)`` float32 for each. It can be the ``tok2vec`` of a
component, which then has no encoder, or the ``embed`` of ``spacy.Tok2Vec.v2``.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from spacy.tokens import Doc
from thinc.api import Maxout, Model, NumpyOps, get_width
from thinc.types import Floats2d, Ragged

from tacenda.errors import ConfigurationError
from tacenda_embeddings.spacy.linear_algebra import switch_layer_to_numpy_blas

NUMPY_OPS = NumpyOps()  # lengths stay on the CPU, whatever device the vectors are on


def concat_embed(
    embeds: dict[str, Any],  # not Model, because spaCy checks the type before it has built them
    width: int | None = None,
    maxout_pieces: int = 3,
) -> Model[list[Doc], list[Floats2d]]:
    """Concatenate the outputs of several embedding layers.

    Parameters
    ----------
    embeds
        Layers by name, each a section of the configuration, such as ``[...tok2vec.embeds.lds]``. A layer
        returns a list of arrays (``spacy.MultiHashEmbed.v2``, ``tacenda.DocTensor.v1``) or a ``Ragged``
        (``spacy.StaticVectors.v2``).
    width
        The width of a maxout layer with layer normalization that mixes the columns; None returns the concatenation
        without it.
    maxout_pieces
        The number of pieces of the maxout layer. Without ``width`` it has no effect.

    Raises
    ------
    tacenda.errors.ConfigurationError
        There is no layer, an entry is no layer, or a number is not positive.
    """
    from tacenda_embeddings.spacy.fused import WordRows  # loads numba

    if not embeds:
        _fail("embeds is empty: name at least one layer, as in [...embeds.lds]")
    for name, layer in embeds.items():
        if not isinstance(layer, Model):
            _fail(f"embeds.{name} is not a layer: give it an @architectures line")
    if maxout_pieces < 1 or (width is not None and width < 1):
        _fail(f"width and maxout_pieces must be positive, not {width}, {maxout_pieces}")
    # A head without an encoder spends nearly all its time in products, here and in hash embeddings.
    # Sorted by name, because spaCy sorts the sections of a configuration that it saves, and the parameters
    # of a saved model belong to its layers in their order.
    layers = [switch_layer_to_numpy_blas(embeds[name]) for name in sorted(embeds)]
    mix = None
    if width is not None:
        mix = switch_layer_to_numpy_blas(
            Maxout(nO=width, nP=maxout_pieces, normalize=True, dropout=0.0)
        )
    model: Model[list[Doc], list[Floats2d]] = Model(
        "concat_embed",
        forward,
        init=init,
        layers=layers if mix is None else [*layers, mix],
        dims={"nO": width},
        attrs={"n_embeds": len(layers), "rows": WordRows()},
    )
    if mix is None and all(layer.has_dim("nO") for layer in layers):
        model.set_dim("nO", sum(layer.get_dim("nO") for layer in layers))
    return model


def init(model: Model[Any, Any], X: list[Doc] | None = None, Y: Any = None) -> None:
    """Initialize the embedding layers, then the mixing layer, which needs their total width."""
    embeds, mix = _split_layers(model)
    widths = []
    for layer in embeds:
        layer.initialize(X=X)
        if layer.has_dim("nO"):
            widths.append(layer.get_dim("nO"))
        elif X is not None:
            widths.append(get_width(layer.predict(X)))
    if len(widths) < len(embeds):
        return  # a width is not known yet: thinc initializes again, with a sample
    if mix is None:
        model.set_dim("nO", sum(widths))
    else:
        mix.initialize(X=model.ops.alloc2f(1, sum(widths)))


def forward(
    model: Model[Any, Any], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Return one array ``(n_tokens, width)`` per document."""
    ops = model.ops
    lengths = NUMPY_OPS.asarray1i([len(doc) for doc in docs])
    if not lengths.sum():
        return [ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda d_docs: []
    embeds, mix = _split_layers(model)
    if not is_train and mix is not None and isinstance(ops, NumpyOps):
        mixed_docs = model.attrs["rows"].embed_and_mix(model, embeds, mix, docs)
        if mixed_docs is not None:
            return mixed_docs, lambda d_docs: []
    outputs = [layer(docs, is_train) for layer in embeds]
    parts = [part.data if isinstance(part, Ragged) else ops.flatten(part) for part, _ in outputs]
    joined = ops.xp.concatenate(parts, axis=1)
    mixed, mix_backprop = (joined, None) if mix is None else mix(joined, is_train)

    def backprop(d_docs: list[Floats2d]) -> list[Doc]:
        gradient = ops.flatten(d_docs)
        if mix_backprop is not None:
            gradient = mix_backprop(gradient)
        start = 0
        for (output, part_backprop), part in zip(outputs, parts, strict=True):
            stop = start + part.shape[1]
            piece = ops.as_contig(gradient[:, start:stop])
            if isinstance(output, Ragged):
                part_backprop(Ragged(piece, output.lengths))
            else:
                part_backprop(ops.unflatten(piece, lengths))
            start = stop
        return []

    return ops.unflatten(mixed, lengths), backprop


def _split_layers(model: Model[Any, Any]) -> tuple[list[Model[Any, Any]], Model[Any, Any] | None]:
    """Return the embedding layers and the mixing layer, if any."""
    # not by a reference, which a copy of the model (``replace_listeners``) loses
    n = model.attrs["n_embeds"]
    return list(model.layers[:n]), next(iter(model.layers[n:]), None)


def _fail(message: str) -> NoReturn:
    raise ConfigurationError(f"tacenda.ConcatEmbed.v1: {message}")
