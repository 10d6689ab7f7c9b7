"""The factories ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

This module imports spaCy and the standard library only: spaCy imports every installed factory as
soon as any pipeline is made, so a model's own needs are imported in the body of the factory.
"""

from typing import Any, Optional

from spacy.language import Language

#: The settings that all factories share; every value is plain JSON, and none of them is a path.
SHARED_CONFIG = {
    # which of the model's vectors, where it has several (None: as it was fitted); of an LDS own_past_future,
    # own_context, weighted_mean, mean, own or filtered; of a VarEmbed logits, log_odds or probabilities
    "output": None,
    # whether Token, Span and Doc.similarity compare these vectors, and .vector gives them; None: where the target
    # is Doc.tensor and the pipeline has no word vectors, as spaCy's own .vector does
    "similarity": None,
    # where the vectors go: "tensor" is Doc.tensor, any other name is an extension, as in doc._.lds
    "target": "tensor",
    # "replace" what is there, or "append" columns to it and record them in doc._.<target>_columns
    "mode": "replace",
    # what a vector may depend on: the whole "doc", or its own "sentence" where boundaries are known
    "context": "doc",
    # tokens handed to the model at a time; a document is never split
    "batch_tokens": 20_000,
}


@Language.factory(
    "token_embeddings",
    assigns=["doc.tensor"],
    # embedder: a name of `tacenda plugins` (None: any that the artifact holds);
    # distribution: whose, should two distributions claim the name
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
    """Token vectors of any embedder in the registry, one row of ``Doc.tensor`` per token.

    The model is not part of the configuration: give it to ``initialize(artifact=...)``, or in
    ``[initialize.components.token_embeddings]``. A ``DocBin`` stores no tensor: ``restore(docs)`` of the component
    gives documents back what they lost on their way.
    """
    from tacenda_embeddings.spacy.component import TokenEmbeddings

    return TokenEmbeddings(
        nlp,
        name,
        embedder=embedder,
        distribution=distribution,
        output=output,
        similarity=similarity,
        target=target,
        mode=mode,
        context=context,
        batch_tokens=batch_tokens,
    )


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
    "lds", "Token vectors of a linear dynamical system; see `token_embeddings`."
)
varembed_embeddings = _make_factory(
    "varembed",
    "Word vectors with a morphological prior, for words seen and unseen; see `token_embeddings`.",
)
