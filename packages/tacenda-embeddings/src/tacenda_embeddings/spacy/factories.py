"""The factories ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

This module imports spaCy and the standard library only: spaCy imports every installed factory as
soon as any pipeline is made, so a model's own needs are imported in the body of the factory.
"""

from typing import Any, Optional

from spacy.language import Language

#: The settings that all factories share. Every value is plain JSON, and none is a path.
SHARED_CONFIG = {
    # which vectors of the model (None: as fitted). LDS: own_past_future, own_context, weighted_mean, mean, own,
    # filtered; VarEmbed: logits, log_odds, probabilities
    "output": None,
    # whether similarity and .vector of tokens, spans and documents use these vectors. None: only if the target is
    # Doc.tensor and the pipeline has no word vectors, as for spaCy's own .vector
    "similarity": None,
    # where the vectors go: "tensor" for Doc.tensor, any other name for an extension, such as doc._.lds
    "target": "tensor",
    # "replace" the vectors in the target, or "append" columns and record them in doc._.<target>_columns
    "mode": "replace",
    # what a vector depends on: the whole "doc", or its "sentence" if boundaries are known
    "context": "doc",
    # tokens given to the model at a time; a document is never split
    "batch_tokens": 20_000,
}


@Language.factory(
    "token_embeddings",
    assigns=["doc.tensor"],
    # embedder: a name that `tacenda plugins` lists (None: whichever the artifact holds);
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
    """Write a vector for each token, from any installed embedder: one row of ``Doc.tensor`` per token.

    The model is not part of the configuration: give it to ``initialize(artifact=...)``, or name it in
    ``[initialize.components.token_embeddings]``. A ``DocBin`` stores no tensor; ``restore(docs)`` of the component
    computes it again.
    """
    settings = locals()  # every argument by its name
    from tacenda_embeddings.spacy.component import TokenEmbeddings

    return TokenEmbeddings(**settings)


def _make_factory(embedder: str, doc: str) -> Any:
    """Return the factory of the embedder of this distribution, even if another distribution claims its name."""

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
    "varembed",
    "Write word vectors made of morphemes, for any word; see `token_embeddings`.",
)
