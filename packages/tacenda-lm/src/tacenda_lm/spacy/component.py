"""`LanguageModelScorer`: the pipeline component behind ``lm_scorer``.

The component holds any fitted language model, which `LanguageModelScorer.initialize` loads or fits. It stores the
scores of the words with every document, where the extension attributes of `tacenda_lm.spacy.attributes` read them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from itertools import chain
from typing import Any, cast

import numpy as np
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError, check_choice
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.documents import TokenSurvey
from tacenda.spacy.sources import load, read_corpus, resolve_text, resolve_tokenizer
from tacenda.tokenizers import find_fitted_tokenizers, get_tokenizer
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.spacy.attributes import register
from tacenda_lm.spacy.scores import DocScorer, DocScores
from tacenda_lm.surprisal.notes import caveats
from tacenda_lm.surprisal.table import SurprisalTable, tabulate
from tacenda_lm.surprisal.words import ScoredText, Split, Word, bare_tokens
from tacenda_lm.unknown_words import Unknown, check_way

_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True)
class _Normalization:
    """The changes to a token before it is looked up; by default none."""

    lowercase: bool = False
    number_word: str | None = None

    def __call__(self, token: str) -> str:
        if self.number_word is not None and _NUMBER.fullmatch(token):
            return self.number_word
        return token.lower() if self.lowercase else token


class LanguageModelScorer(ModelComponent):
    """A spaCy component that scores every token of a document with a language model.

    Parameters
    ----------
    nlp, name
        The pipeline, and the component's name in it.
    prefix
        The beginning of the names of all attributes and figures.
    context
        The words on which a token's probability may depend: those before it in its ``"doc"``, in its
        ``"sentence"``, or in the ``"stream"`` of all documents so far.
    eos
        Predict ``</s>`` after every sentence, or after the document where boundaries are unknown. The model also reads
        the ``</s>``, so the words after it are a new sentence to the model. Without ``eos``, the words of a ``"doc"``
        or a ``"stream"`` are unbroken text.
    rank
        Set ``token._.lm_rank``; this computes a whole distribution for every token.
    entropy
        Set ``token._.lm_entropy``; this needs the same distributions.
    unknown
        How a token outside the vocabulary shares the probability that the model gives to all such tokens together:
        ``"spelling"`` (a letter model), ``"even"`` (an even share among ``unseen_types``) or ``"class"`` (all of it):
        see `tacenda_lm.unknown_words`. Perplexities count such a token as ``<unk>`` in any case.
    unseen_types
        For ``"even"``: the assumed number of words outside the vocabulary.
    state
        Set ``token._.lm_state``, the state of the token on the most probable path through its sentence. This works only
        for models that have states, and not in a ``"stream"``.
    lowercase
        Lower-case tokens before they are looked up.
    number_word
        The word that replaces a token that is entirely a number (``12``, ``3.5``, ``1,000``), such as ``"N"`` for a
        model of the Penn Treebank; None keeps the number.
    batch_tokens
        Number of tokens given to the model at a time; a longer document is processed alone.
    scorer
        The function that ``nlp.evaluate`` calls, or None.

    Raises
    ------
    ConfigurationError
        A setting is out of range, or another library has extensions with these names.
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
        is_word = isinstance(number_word, str) and number_word.split() == [number_word]
        if number_word is not None and not is_word:
            raise ConfigurationError(
                f"number_word must be one word, such as 'N', or null, not {number_word!r}"
            )
        self.prefix, self.scorer = prefix, scorer
        self.eos, self.rank, self.entropy, self.state = eos, rank, entropy, state
        self.unknown: Unknown = check_way(unknown, unseen_types)
        self.unseen_types = unseen_types
        self.lowercase, self.number_word = lowercase, number_word
        self.normalize = _Normalization(lowercase, number_word)

    @property
    def language_model(self) -> Any:
        """The fitted model. Raises NotFittedError if there is none yet."""
        return self.fitted

    # -- the model ---------------------------------------------------------------------------------

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
        """Load a fitted model, or fit one on raw text; with neither, keep the model of the component.

        Parameters
        ----------
        get_examples
            Examples whose tokens are checked: a warning says if the model does not know most of them. Language models
            learn from raw text, not from annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            The folder of a saved language model (``tacenda lm fit``, ``save``), the name of an installed one
            (``tacenda models``), or a fitted model.
        corpus
            Raw text: a file, a list of files, an iterator of lines (``iter(lines)``), or a ``tacenda.Corpus``. A
            string is the name of a file here, because a configuration has no other way to name one.
        valid
            Held-out text in the same forms; its perplexity is saved with the model, and some models stop by it.
        model
            The registered name of the model to fit.
        distribution
            Package of the model, if two packages have a model of that name.
        settings
            Options of the model, such as ``{"order": 3}``.
        tokenizer
            ``"spacy"``, which is this pipeline's own, or what ``tacenda.Corpus.from_text`` takes.
        split
            ``"lines"``: a line of the text is a sentence; ``"sentences"``: lines are paragraphs, split at punctuation.
        max_vocabulary, min_count, oov
            The choice of the vocabulary, as in ``tacenda.Corpus.from_text``.

        Raises
        ------
        ConfigurationError
            Both artifact and corpus are given, or neither and there is no model yet, a setting is wrong, or an argument
            has no effect.
        TacendaError
            The saved model or the corpus cannot be read.
        """
        vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}

        def fit() -> Any:
            unfitted = plugins.make("language_models", model, settings, distribution=distribution)
            text, names = self._read(corpus, tokenizer, split, vocabulary)
            held_out = None
            if valid is not None:
                held_out, _ = self._read(valid, tokenizer, split, {"vocabulary": text.vocabulary})
            fitted = unfitted.fit(text, held_out)
            facts: dict[str, Any] = {"text": names}  # for the card of the model
            if not isinstance(corpus, Corpus):
                resolved = resolve_tokenizer(tokenizer, self._nlp())
                name = getattr(resolved, "name", resolved if isinstance(resolved, str) else None)
                facts |= {"tokenizer": name, "split": split}
                facts["token_normalization"] = asdict(self.normalize)
            known = {name: fact for name, fact in facts.items() if fact is not None}
            fitted.fitted_on = {**(getattr(fitted, "fitted_on", None) or {}), **known}
            return fitted

        of_fit: dict[str, Any] = {"valid": valid, "model": model, "settings": settings}
        of_fit["distribution"] = distribution
        splitting = {"tokenizer": tokenizer, "split": split}
        if valid is None or isinstance(valid, Corpus):
            of_text: dict[str, Any] = {**splitting, **vocabulary}
        else:  # it is split, whatever the corpus is
            of_fit, of_text = {**of_fit, **splitting}, vocabulary
        self._initialize(nlp, artifact, corpus, fit, of_fit, of_text)
        self._survey_examples(get_examples)

    def _read(
        self, text: Any, tokenizer: Any, split: str, settings: dict[str, Any]
    ) -> tuple[Corpus, list[str] | None]:
        """Read raw text as a corpus, and return the names of its files if it came from files.

        Raises ConfigurationError for a split that is unknown or needs another tokenizer, and CorpusError for a text
        that cannot be read.
        """
        nlp = self._nlp()
        check_choice("split", split, Split)
        if split == "lines" or isinstance(text, Corpus):
            resolved = resolve_tokenizer(tokenizer, nlp)
            if self.normalize == _Normalization():
                return read_corpus(text, resolved, settings)
            tokenize = get_tokenizer(resolved)
            return read_corpus(
                text, lambda line: list(map(self.normalize, tokenize(line))), settings
            )
        if tokenizer != "spacy" or nlp is None:
            raise ConfigurationError(
                "split = 'sentences' needs tokenizer = 'spacy': set that, or give a text with one sentence per line"
            )
        given, names = resolve_text(text)

        def read_sentences() -> Iterator[list[str]]:
            sentencizer = Sentencizer()
            for line in chain.from_iterable(text_blocks(given)):
                for sentence in sentencizer(nlp.tokenizer(line.strip())).sents:
                    yield [self.normalize(token.text) for token in sentence if not token.is_space]

        return Corpus.from_sentences(read_sentences(), **settings), names

    def _load_model(self, source: Any) -> Any:
        model = load(source, "language_models", "a language model", "score_corpus")
        if not isinstance(model, LanguageModel):
            raise ConfigurationError(
                f"a {type(model).__name__} is not a language model: it does not inherit tacenda_lm.LanguageModel"
            )
        return model

    def _predictor_of(self, model: Any) -> DocScorer:
        if self.state and self.context == "stream":
            raise ConfigurationError(
                "states need whole sentences, and a stream scores each word at once: "
                "use context = 'doc' or 'sentence' with state = true"
            )
        if self.state and not hasattr(model, "state_path"):
            raise ConfigurationError(
                f"a {type(model).__name__} has no states: leave out state, or use a hidden Markov model such as vlhmm"
            )
        return DocScorer(model, self)

    def _check_pipeline(self, nlp: Any) -> None:
        for name, pipe in nlp.pipeline:
            same = isinstance(pipe, LanguageModelScorer) and pipe.prefix == self.prefix
            if same and pipe is not self:
                raise ConfigurationError(
                    f"{name!r} and {self.name!r} both write the attributes that begin with "
                    f"{self.prefix!r}: give one of them another prefix"
                )

    def _survey_of(self, model: Any) -> TokenSurvey:
        known = model.vocabulary
        return TokenSurvey(model, repr(self.name), lambda word: self.normalize(word) in known)

    def _settings(self) -> dict[str, Any]:
        options = list(signature(LanguageModelScorer).parameters)[2:]  # but nlp and name
        return {name: getattr(self, name) for name in options}

    # -- documents ---------------------------------------------------------------------------------

    def _annotate(self, docs: Sequence[Doc]) -> None:
        """Score documents. If that fails, the stream continues from the document before them."""
        scorer: Any = self._predictor or self.fitted  # which raises
        before = scorer.stream
        try:
            super()._annotate(docs)
        except BaseException:
            scorer.stream = before
            raise

    def set_annotations(self, docs: Sequence[Doc], found: Sequence[DocScores]) -> None:
        """Store the scores that `predict` returned with their documents."""
        for doc, scores in zip(docs, found, strict=True):
            scores.store_in(doc, self.prefix)

    def surprisal_table(
        self, docs: Doc | Mapping[str, Doc] | Iterable[Doc], *, previous: int = 1
    ) -> SurprisalTable:
        """Return the words of scored documents as `tacenda_lm.surprisal_table` returns the words of texts.

        Parameters
        ----------
        docs
            Scored by this component: one document, several, or documents by the names of their texts.
        previous
            Number of preceding words whose values each row also has (spill-over).

        Raises
        ------
        NotFittedError
            A document was not scored.
        ConfigurationError
            Something is not a document, such as a string or a span, or ``previous`` is out of range.
        DataError
            There is no document.
        """
        if not isinstance(docs, Mapping):
            several = docs if isinstance(docs, Iterable) and not isinstance(docs, Doc) else [docs]
            docs = {str(number): doc for number, doc in enumerate(several, start=1)}
        model = self.language_model
        as_fitted = all(name.startswith("spacy:") for name in find_fitted_tokenizers(model))
        # words were counted as they are written
        as_counted = as_fitted and self.normalize == _Normalization()
        counts = model.vocabulary.split_words if as_counted else None
        texts = [self._read_scores(doc, str(name), counts) for name, doc in docs.items()]
        # the component may outlive its pipeline
        split = str.split if (nlp := self._nlp()) is None else resolve_tokenizer("spacy", nlp)

        def tokenize(word: str) -> list[str]:
            return list(map(self.normalize, split(word)))

        notes = caveats(model, self.unknown, texts, tokenize, as_fitted=as_fitted)
        return tabulate(texts, previous, list(notes))

    def _read_scores(self, doc: Doc, name: str, counts: Mapping[str, int] | None) -> ScoredText:
        """Return the words of a document with the scores of their tokens. Raises as `DocScores.of`.

        A word is what whitespace separates; its tokens are those that were scored. ``counts`` are of words of several
        tokens, and None if they were not counted.
        """
        scores, vocabulary = DocScores.of(doc, self.prefix), self.language_model.vocabulary
        text, starts = doc.text, scores.start.tolist()
        ends = (scores.start + scores.length).tolist()
        tokens = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        numbers = np.arange(1, len(scores.segments))
        sentences = np.repeat(numbers, np.diff(scores.segments)).tolist()
        words, first = [], 0
        for i in range(1, len(tokens) + 1):
            if i < len(tokens) and starts[i] == ends[i - 1]:  # no space before the next token
                continue
            of_word = tuple(tokens[first:i])
            start, end, bare = starts[first], ends[i - 1], bare_tokens(of_word)
            word = Word(text[start:end], start, end, sentences[first], of_word, bare, (bare,))
            words.append(word)
            first = i
        ids = vocabulary.encode(list(map(self.normalize, tokens)))
        shares = np.zeros(len(ids)) if scores.share is None else scores.share
        return ScoredText.of(vocabulary, name, words, ids, scores.log_prob, shares, counts)

    def restart_stream(self) -> None:
        """Forget the documents so far, with ``context="stream"``: the next one begins a new stream.

        Raises NotFittedError if there is no model yet.
        """
        _ = self.fitted  # raises NotFittedError
        cast("DocScorer", self._predictor).stream = None

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Return the metrics that the configured scorer computes of scored documents, for ``nlp.evaluate``."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})
