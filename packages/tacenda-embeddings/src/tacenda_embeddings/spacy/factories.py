"""The factories ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

This module imports only spaCy and the standard library. spaCy imports every installed factory when it creates any
pipeline, so each factory imports what its model needs in its body.
"""

from typing import Any, Optional

from spacy.language import Language

#: The settings that all factories share. Every value is a JSON value, and none is a path.
SHARED_CONFIG = {
    # the output of the model; None: as fitted. LDS: own_past_future, own_context, weighted_mean, mean, own,
    # filtered; VarEmbed: logits, log_odds, probabilities
    "output": None,
    # whether similarity and .vector of tokens, spans and documents use these vectors; None: only if the target is
    # Doc.tensor and the pipeline has no word vectors, which is when spaCy's own .vector uses the tensor
    "similarity": None,
    # where the vectors go: "tensor" for Doc.tensor, any other name for an extension, such as doc._.lds
    "target": "tensor",
    # "replace" the vectors in the target, or "append" columns and record them in doc._.<target>_columns
    "mode": "replace",
    # the context of a vector: the whole "doc", or its "sentence" if sentence boundaries are set
    "context": "doc",
    # tokens that the model embeds at a time; a document is never split
    "batch_tokens": 20_000,
}


@Language.factory(
    "token_embeddings",
    assigns=["doc.tensor"],
    # embedder: a name that `tacenda plugins` lists (None: that of the artifact);
    # distribution: its distribution, if two have an embedder of that name
    default_config={"embedder": None, "distribution": None, **SHARED_CONFIG},
)
def token_embeddings(
    nlp: Language,
    name: str,
    embedder: Optional[str],  # noqa: UP045 - spaCy builds a pydantic schema from these annotations
    distribution: Optional[str],  # noqa: UP045
    output: Optional[str],  # noqa: UP045
    similarity: Optional[bool],  # noqa: UP045
    target: str,
    mode: str,
    context: str,
    batch_tokens: int,
) -> Any:
    """Make a component that writes the vectors of any installed embedder, one row of ``Doc.tensor`` per token.

    The model is not part of the configuration: pass it to ``initialize(artifact=...)``, or name it in
    ``[initialize.components.token_embeddings]``. A ``DocBin`` stores no tensor; the component's ``restore(docs)``
    computes it again.
    """
    settings = locals()  # every argument by its name
    from tacenda_embeddings.spacy.component import TokenEmbeddings

    return TokenEmbeddings(**settings)


def _make_factory(embedder: str, doc: str) -> Any:
    """Register the factory of an embedder of this distribution, even if another one has an embedder of that name."""

    def make(
        nlp: Language,
        name: str,
        output: Optional[str],  # noqa: UP045
        similarity: Optional[bool],  # noqa: UP045
        target: str,
        mode: str,
        context: str,
        batch_tokens: int,
    ) -> Any:
        settings = (output, similarity, target, mode, context, batch_tokens)
        return token_embeddings(nlp, name, embedder, "tacenda-embeddings", *settings)

    make.__doc__ = doc
    factory = f"{embedder}_embeddings"
    return Language.factory(
        factory, assigns=["doc.tensor"], default_config=SHARED_CONFIG, func=make
    )


lds_embeddings = _make_factory(
    "lds", "Write token vectors in context, from a linear dynamical system; see `token_embeddings`."
)
varembed_embeddings = _make_factory(
    "varembed", "Write word vectors made of morphemes, for any word; see `token_embeddings`."
)
