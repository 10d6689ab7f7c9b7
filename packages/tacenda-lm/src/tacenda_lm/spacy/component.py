"""The pipeline component behind ``lm_scorer``.

It holds any fitted language model and keeps the scores of its words with every document, where the
extension attributes of ``tacenda_lm.spacy.attributes`` read them; it trains nothing: the model is loaded or
fitted in `LanguageModelScorer.initialize`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from spacy.tokens import Doc

from tacenda.errors import ConfigurationError
from tacenda.spacy.component import ModelComponent
from tacenda_lm.spacy import sources
from tacenda_lm.spacy.attributes import register
from tacenda_lm.spacy.doc_scores import DocScores
from tacenda_lm.spacy.normalizing import Normalizing
from tacenda_lm.spacy.scoring import DocScorer

__all__ = ["LanguageModelScorer"]


class LanguageModelScorer(ModelComponent):
    """Scores every token of a document by a language model.

    Parameters
    ----------
    nlp
        The pipeline.
    name
        The component's name in it.
    prefix
        What the names of all attributes and figures begin with.
    context
        What a token's probability depends on: all before it in its ``"doc"``, in its
        ``"sentence"``, or in the ``"stream"`` of all documents so far.
    eos
        Predict ``</s>`` after every sentence (after the document where boundaries are unknown).
    rank
        Find ``token._.lm_rank``; costs a whole distribution a token.
    entropy
        Find ``token._.lm_entropy``; likewise.
    state
        Find ``token._.lm_state``, the state behind the token on the most probable path through its
        sentence; for models that have states, not in a ``"stream"``.
    lowercase
        Lower-case tokens for their look-up.
    number_word
        What stands for a token that is a number, such as ``"N"``; None: the number.
    batch_tokens
        Tokens given to the model at a time; a longer document goes alone.
    scorer
        What ``nlp.evaluate`` calls; None for nothing.

    Raises
    ------
    ConfigurationError
        a setting is out of range, or the attributes are somebody else's.
    """

    contexts = ("doc", "sentence", "stream")
    command = "tacenda lm fit"

    def __init__(
        self,
        nlp: Any,
        name: str = "lm_scorer",
        *,
        prefix: str = "",
        context: str = "doc",
        eos: bool = True,
        rank: bool = False,
        entropy: bool = False,
        state: bool = False,
        lowercase: bool = False,
        number_word: str | None = None,
        batch_tokens: int = 20_000,
        scorer: Callable[..., dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(
            nlp, name, distribution="tacenda-lm", context=context, batch_tokens=batch_tokens
        )
        register(prefix, rank=rank, entropy=entropy, state=state)
        self.prefix = prefix
        self.eos = eos
        self.rank = rank
        self.entropy = entropy
        self.state = state
        self.normalizing = Normalizing(lowercase, number_word)
        self.scorer = scorer

    @property
    def language_model(self) -> Any:
        """The fitted model; raises NotFittedError if there is none yet."""
        return self.fitted

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]] | None = None,
        *,
        nlp: Any = None,
        artifact: Any = None,
        corpus: Any = None,
        valid: Any = None,
        model: str = "kneser_ney",
        distribution: str | None = None,
        settings: dict[str, Any] | None = None,
        tokenizer: Any = "spacy",
        split: str = "lines",
        max_vocabulary: int | None = 40_000,
        min_count: int = 1,
        oov: str = "single",
    ) -> None:
        """Loads a fitted model, or fits one on raw text; with neither, keeps the model there is.

        Parameters
        ----------
        get_examples
            Not used; raw text teaches these models, not annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            Folder of a saved language model (``tacenda lm fit``, ``save``), or a fitted model.
        corpus
            Raw text: a file, a list of files, an iterable of lines, or a ``tacenda.Corpus``.
        valid
            Held-out text in the same forms, for models that stop by it and for the artefact's figures.
        model
            Which model of the registry to fit.
        distribution
            Whose, if two distributions have one of that name.
        settings
            Its settings, such as ``{"order": 3}``.
        tokenizer
            ``"spacy"``, this pipeline's own, or what ``tacenda.Corpus.from_text`` takes.
        split
            ``"lines"``: a line of the text is a sentence; ``"sentences"``: lines are paragraphs, which
            are split at punctuation.
        max_vocabulary
            Types kept, the most frequent ones; None keeps all.
        min_count
            Rarer types become ``<unk>``.
        oov
            As in ``tacenda.Corpus.from_text``.

        Raises
        ------
        ConfigurationError
            Neither or both of artifact and corpus are given, or a setting is wrong.
        TacendaError
            The artefact or the corpus cannot be read.
        """

        def fit() -> Any:
            raw = sources.RawText(self._nlp(), tokenizer, split, self.normalizing)
            vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
            chosen = dict(settings or {})
            return sources.fit(model, distribution, chosen, raw, corpus, valid, vocabulary)

        self._initialize(nlp, artifact, corpus, fit)

    def set_annotations(self, docs: Sequence[Doc], found: Sequence[DocScores]) -> None:
        """Keeps scores, as `predict` gives them, with every document."""
        for doc, scores in zip(docs, found, strict=True):
            scores.keep(doc, self.prefix)

    def restart_stream(self) -> None:
        """Forgets the documents so far, with ``context="stream"``: the next one is the first."""
        _ = self.fitted
        cast("DocScorer", self._predictor).restart()

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Figures of scored documents, for ``nlp.evaluate``: what the configured scorer returns."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})

    def _predictor_of(self, model: Any) -> DocScorer:
        return DocScorer(
            model,
            self.normalizing,
            self.context,
            self.eos,
            rank=self.rank,
            entropy=self.entropy,
            state=self.state,
        )

    def _load_model(self, source: Any) -> Any:
        return sources.load(source)

    def _check_pipeline(self, nlp: Any) -> None:
        """Raise ConfigurationError if another component writes the same attributes."""
        for name, pipe in nlp.pipeline:
            same = isinstance(pipe, LanguageModelScorer) and pipe.prefix == self.prefix
            if same and pipe is not self:
                raise ConfigurationError(
                    f"{name!r} and {self.name!r} both write the attributes that begin with "
                    f"{self.prefix!r}: give one of them another prefix"
                )

    def _settings(self) -> dict[str, Any]:
        return {
            "prefix": self.prefix,
            "context": self.context,
            "eos": self.eos,
            "rank": self.rank,
            "entropy": self.entropy,
            "state": self.state,
            "lowercase": self.normalizing.lowercase,
            "number_word": self.normalizing.number_word,
            "batch_tokens": self.batch_tokens,
            "scorer": self.scorer,
        }
