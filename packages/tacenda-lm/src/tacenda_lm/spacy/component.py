"""The pipeline component behind ``lm_scorer``.

It holds any fitted language model, and keeps the scores of the words with every document, from where the
extension attributes of ``tacenda_lm.spacy.doc_scores`` read them. The model is loaded or fitted in
`LanguageModelScorer.initialize`.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from spacy.tokens import Doc

from tacenda import plugins
from tacenda.errors import ConfigurationError
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.sources import load
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.spacy.doc_scores import DocScores, register
from tacenda_lm.spacy.doc_words import scored_text
from tacenda_lm.spacy.raw_text import Normalizing, RawText
from tacenda_lm.spacy.scoring import DocScorer
from tacenda_lm.surprisal.table import SurprisalTable, caveats, tabulate
from tacenda_lm.unknown_words import Unknown, UnknownWords, checked_way

__all__ = ["LanguageModelScorer"]


class LanguageModelScorer(ModelComponent):
    """Scores every token of a document with a language model.

    Parameters
    ----------
    nlp
        The pipeline.
    name
        The component's name in it.
    prefix
        The beginning of the names of all attributes and figures.
    context
        The words on which a token's probability may depend: those before it in its ``"doc"``, in its
        ``"sentence"``, or in the ``"stream"`` of all documents so far.
    eos
        Predict ``</s>`` after every sentence, or after the document where boundaries are unknown.
    rank
        Set ``token._.lm_rank``; this computes a whole distribution for every token.
    entropy
        Set ``token._.lm_entropy``; this needs the same distributions.
    unknown
        What a token outside the vocabulary has of the probability that the model gives to all such tokens together:
        ``"spelling"`` (a letter model), ``"even"`` (an even share among ``unseen_types``) or ``"class"`` (all of it):
        see `tacenda_lm.unknown_words`. Perplexities count such a token as ``<unk>`` in any case.
    unseen_types
        For ``"even"``: how many words are thought to be outside the vocabulary.
    state
        Set ``token._.lm_state``, the state behind the token on the most probable path through its sentence.
        Only for models that have states, and not in a ``"stream"``.
    lowercase
        Lower-case tokens before they are looked up.
    number_word
        The word that replaces a token that is a number, such as ``"N"``; None keeps the number.
    batch_tokens
        Tokens given to the model at a time; a longer document goes alone.
    scorer
        The function that ``nlp.evaluate`` calls, or None.

    Raises
    ------
    ConfigurationError
        A setting is out of range, or another library has extensions of these names.
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
        unknown: str = "spelling",
        unseen_types: int | None = None,
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
        self.unknown: Unknown = checked_way(unknown, unseen_types)
        self.unseen_types = unseen_types
        self.normalizing = Normalizing(lowercase, number_word)
        self.scorer = scorer

    @property
    def language_model(self) -> Any:
        """The fitted model. Raises NotFittedError if there is none yet."""
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
        """Load a fitted model, or fit one on raw text; with neither, keep the model there is.

        Parameters
        ----------
        get_examples
            Not used: these models learn from raw text, not from annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            The folder of a saved language model (``tacenda lm fit``, ``save``), the name of an installed one
            (``tacenda models``), or a fitted model.
        corpus
            Raw text: a file, a list of files, an iterable of lines, or a ``tacenda.Corpus``. A string is
            the name of a file here, because a configuration has no other way to name one.
        valid
            Held-out text in the same forms; its perplexity is saved with the model, and some models stop by it.
        model
            The registered name of the model to fit.
        distribution
            Its distribution, if two have a model of that name.
        settings
            Options of the model, such as ``{"order": 3}``.
        tokenizer
            ``"spacy"``, which is this pipeline's own, or what ``tacenda.Corpus.from_text`` takes.
        split
            ``"lines"``: a line of the text is a sentence; ``"sentences"``: lines are paragraphs, and
            are split at punctuation.
        max_vocabulary
            Keep the most frequent types, this many; None keeps all.
        min_count
            Rarer types become ``<unk>``.
        oov
            As in ``tacenda.Corpus.from_text``.

        Raises
        ------
        ConfigurationError
            Both or neither of artifact and corpus are given, or a setting is wrong.
        TacendaError
            The artefact or the corpus cannot be read.
        """

        def fit() -> Any:
            unfitted = plugins.make("language_models", model, settings, distribution=distribution)
            raw = RawText(self._nlp(), tokenizer, split, self.normalizing)
            vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
            return raw.fit(unfitted, corpus, valid, vocabulary)

        self._initialize(nlp, artifact, corpus, fit)

    def set_annotations(self, docs: Sequence[Doc], found: Sequence[DocScores]) -> None:
        """Keep the scores that `predict` returned with their documents."""
        for doc, scores in zip(docs, found, strict=True):
            scores.keep(doc, self.prefix)

    def surprisal_table(
        self, docs: Doc | Mapping[str, Doc] | Iterable[Doc], *, previous: int = 1
    ) -> SurprisalTable:
        """Return the words of scored documents as `tacenda_lm.surprisal_table` returns those of texts.

        Parameters
        ----------
        docs
            Scored by this component: one document, several, or documents by the names of their texts.
        previous
            How many words before a word have their figures in its row (spill-over).

        Raises
        ------
        NotFittedError
            A document was not scored.
        """
        if isinstance(docs, Doc):
            docs = [docs]
        named = docs if isinstance(docs, Mapping) else {str(i): d for i, d in enumerate(docs, 1)}
        vocabulary = self.language_model.vocabulary
        texts = [
            scored_text(doc, name, vocabulary, self.normalizing, self.prefix)
            for name, doc in named.items()
        ]
        fitted = (getattr(self.language_model, "fitted_on", None) or {}).get("tokenizer")
        as_fitted = str(fitted).startswith("spacy:")
        notes = list(caveats(vocabulary, self.unknown, texts, as_fitted=as_fitted))
        for note in notes:
            warnings.warn(note, stacklevel=2)
        return tabulate(texts, previous, notes)

    def restart_stream(self) -> None:
        """Forget the documents so far, with ``context="stream"``: the next one is then the first."""
        _ = self.fitted
        cast("DocScorer", self._predictor).restart()

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Return the figures of scored documents that the configured scorer computes, for ``nlp.evaluate``."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})

    def _predictor_of(self, model: Any) -> DocScorer:
        return DocScorer(
            model,
            self.normalizing,
            self.context,
            self.eos,
            UnknownWords(model.vocabulary, self.unknown, self.unseen_types),
            rank=self.rank,
            entropy=self.entropy,
            state=self.state,
        )

    def _load_model(self, source: Any) -> Any:
        model = load(source, "language_models", "a language model", "score_corpus")
        if not isinstance(model, LanguageModel):
            raise ConfigurationError(
                f"a {type(model).__name__} is no language model: it does not inherit tacenda_lm.LanguageModel"
            )
        return model

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
        own = ("prefix", "context", "eos", "rank", "entropy", "state", "unknown", "unseen_types")
        further = "batch_tokens", "scorer"
        return {
            **{name: getattr(self, name) for name in (*own, *further)},
            **asdict(self.normalizing),
        }
