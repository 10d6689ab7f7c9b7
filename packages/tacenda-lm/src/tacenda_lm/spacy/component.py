"""`LanguageModelScorer`: the pipeline component behind ``lm_scorer``.

The component holds any fitted language model, which `LanguageModelScorer.initialize` loads or fits. It stores the
scores of the words with every document, where the extension attributes of `tacenda_lm.spacy.scores` read them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from itertools import chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from spacy.attrs import IDX, LENGTH, ORTH
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError, check_choice
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.documents import TokenSurvey, WordCache, sentence_cuts
from tacenda.spacy.sources import load, read_corpus, resolve_text, resolve_tokenizer
from tacenda.tokenizers import find_fitted_tokenizers, get_tokenizer
from tacenda_lm.distributions import distributions_of, ranks_and_entropies, states_before
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.sequences import Float64, Ids, Offsets, with_ends
from tacenda_lm.spacy.scores import DocScores, build_scored_text, register, text_length
from tacenda_lm.states import State
from tacenda_lm.surprisal.notes import caveats
from tacenda_lm.surprisal.table import SurprisalTable, tabulate
from tacenda_lm.surprisal.words import Split
from tacenda_lm.unknown_words import Unknown, UnknownWords, check_way

_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*")
_WHITESPACE = -1  # code of a whitespace token; all other codes are of `_DocScorer._encode`


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
            return self._fit(unfitted, corpus, valid, tokenizer, split, vocabulary)

        of_fit: dict[str, Any] = {"valid": valid, "model": model, "settings": settings}
        of_fit["distribution"] = distribution
        splitting = {"tokenizer": tokenizer, "split": split}
        if valid is None or isinstance(valid, Corpus):
            of_text: dict[str, Any] = {**splitting, **vocabulary}
        else:  # it is split, whatever the corpus is
            of_fit, of_text = {**of_fit, **splitting}, vocabulary
        self._initialize(nlp, artifact, corpus, fit, of_fit, of_text)
        self._survey_examples(get_examples)

    def _fit(
        self,
        model: Any,
        corpus: Any,
        valid: Any,
        tokenizer: Any,
        split: str,
        vocabulary: dict[str, Any],
    ) -> Any:
        """Return the model fitted to raw text, with facts about the text for its card."""
        text, names = self._read(corpus, tokenizer, split, vocabulary)
        held_out = None
        if valid is not None:
            held_out, _ = self._read(valid, tokenizer, split, {"vocabulary": text.vocabulary})
        fitted = model.fit(text, held_out)
        facts: dict[str, Any] = {"text": names}
        if not isinstance(corpus, Corpus):
            resolved = resolve_tokenizer(tokenizer, self._nlp())
            name = getattr(resolved, "name", resolved if isinstance(resolved, str) else None)
            facts |= {"tokenizer": name, "split": split}
            facts["token_normalization"] = asdict(self.normalize)
        known = {name: fact for name, fact in facts.items() if fact is not None}
        fitted.fitted_on = {**(getattr(fitted, "fitted_on", None) or {}), **known}
        return fitted

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

    def _predictor_of(self, model: Any) -> "_DocScorer":
        if self.state and self.context == "stream":
            raise ConfigurationError(
                "states need whole sentences, and a stream scores each word at once: "
                "use context = 'doc' or 'sentence' with state = true"
            )
        if self.state and not hasattr(model, "state_path"):
            raise ConfigurationError(
                f"a {type(model).__name__} has no states: leave out state, or use a hidden Markov model such as vlhmm"
            )
        return _DocScorer(model, self)

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
        vocabulary = self.language_model.vocabulary
        as_fitted = all(
            name.startswith("spacy:") for name in find_fitted_tokenizers(self.language_model)
        )
        # words were counted as they are written
        as_counted = as_fitted and self.normalize == _Normalization()
        counts = vocabulary.split_words if as_counted else None
        texts = [
            build_scored_text(doc, str(name), vocabulary, self.normalize, self.prefix, counts)
            for name, doc in docs.items()
        ]
        # the component may outlive its pipeline
        split = str.split if (nlp := self._nlp()) is None else resolve_tokenizer("spacy", nlp)
        notes = caveats(
            self.language_model,
            self.unknown,
            texts,
            lambda word: list(map(self.normalize, split(word))),
            as_fitted=as_fitted,
        )
        return tabulate(texts, previous, list(notes))

    def restart_stream(self) -> None:
        """Forget the documents so far, with ``context="stream"``: the next one begins a new stream.

        Raises NotFittedError if there is no model yet.
        """
        _ = self.fitted  # raises NotFittedError
        cast("_DocScorer", self._predictor).stream = None

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Return the metrics that the configured scorer computes of scored documents, for ``nlp.evaluate``."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})


class _Words(NamedTuple):
    """The words of some documents, whitespace left out."""

    ids: Ids  # (words,)
    oov: npt.NDArray[np.bool_]  # (words,): which are outside the vocabulary
    start: npt.NDArray[np.int32]  # (words,): the first character of each in its document
    length: npt.NDArray[np.int32]  # (words,), in characters
    segments: Offsets  # (segments + 1,): cuts of the words into sentences, or documents without boundaries
    documents: Offsets  # (documents + 1,): cuts of the segments into documents
    # (words,): natural log of the share of its class; None where that is all of it
    shares: Float64 | None


class _DocScorer:
    """A fitted model that is applied to documents, with the options of a component."""

    def __init__(self, model: Any, options: LanguageModelScorer) -> None:
        self._model, self._options = model, options
        self._vocabulary = model.vocabulary
        self._shares = UnknownWords(model.vocabulary, options.unknown, options.unseen_types)
        self.stream: State | None = None
        self._unknown = frozenset(self._vocabulary.oov_ids.tolist())
        self._cache = WordCache(self._encode, _WHITESPACE, self._vocabulary)

    def _encode(self, text: str) -> int:
        """Return twice the id of a token, plus one if it is outside the vocabulary.

        The cache of words then holds one number for a token, and an array of them is taken apart without a loop.
        """
        number: int = self._vocabulary.id_of(self._options.normalize(text))
        return 2 * number + (number in self._unknown)

    def __call__(self, docs: Sequence[Doc]) -> list[DocScores]:
        """Return the scores of each document, empty for a document without words."""
        if not docs:
            return []
        words = self._read(docs)
        ids, segments, ends = words.ids, words.segments, np.empty(0, np.int64)
        if self._options.eos:
            ids, segments = with_ends(ids, segments, self._vocabulary.boundary_id)
            ends = segments[1:] - 1
        scores = self._score(ids, np.unique(segments[words.documents]), segments)
        eos = scores["log_prob"][ends]
        of_words = {name: np.delete(values, ends) for name, values in scores.items()}
        cuts = pairwise(words.documents.tolist())
        return [
            _slice_scores(doc, words, slice(first, last), of_words, eos)
            for doc, (first, last) in zip(docs, cuts, strict=True)
        ]

    def _read(self, docs: Sequence[Doc]) -> _Words:
        """Return the words of documents, encoded, and cut into segments."""
        codes = np.array(self._cache.read(docs), dtype=np.int64)
        is_word = codes != _WHITESPACE
        oov = (codes[is_word] & 1).astype(bool)
        places = np.concatenate([doc.to_array([IDX, LENGTH]).reshape(-1, 2) for doc in docs])
        start, length = places[is_word].astype(np.int32).T
        offsets = np.cumsum([0, *map(len, docs)])
        n_before = np.concatenate([[0], np.cumsum(is_word)])  # words before each token
        segments = np.unique(n_before[sentence_cuts(docs, offsets)]).astype(np.int64)
        return _Words(
            ids=(codes[is_word] >> 1).astype(np.int32),
            oov=oov,
            start=start,
            length=length,
            segments=segments,
            documents=np.searchsorted(segments, n_before[offsets]),
            shares=self._spell(docs, is_word, oov),
        )

    def _spell(
        self, docs: Sequence[Doc], is_word: npt.NDArray[np.bool_], oov: npt.NDArray[np.bool_]
    ) -> Float64 | None:
        """Return the log-share of its class of each word (words,), 0 for known ones; None if shares are not used."""
        if self._shares.way == "class":
            return None
        shares = np.zeros(len(oov))
        if oov.any():
            orths = np.concatenate([doc.to_array(ORTH) for doc in docs])[is_word][oov].tolist()
            numbers = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])[is_word][oov]
            words = (docs[n].vocab.strings[orth] for n, orth in zip(numbers, orths, strict=True))
            shares[oov] = self._shares.log_shares(map(self._options.normalize, words))
        return shares

    def _score(
        self, ids: Ids, documents: Offsets, segments: Offsets
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the requested scores of ids, by name, (tokens,) each.

        ``documents`` and ``segments`` are cuts of the ids; the context says which of them are scored independently.
        """
        model, options = self._model, self._options
        cuts = documents if options.context == "doc" else segments
        if options.context == "stream":
            before = model.start() if self.stream is None else self.stream
            log_prob, self.stream = model.score_from(before, ids)
            rows = distributions_of(model, states_before(model, before, ids))
        else:
            log_prob = model.score_corpus(ids, cuts)
            rows = model.distributions(ids, cuts)
        scores: dict[str, npt.NDArray[Any]] = {"log_prob": log_prob}
        if options.rank or options.entropy:
            ranks, entropies = ranks_and_entropies(rows, ids)
            if options.rank:
                scores["rank"] = ranks
            if options.entropy:
                scores["entropy"] = entropies
        if options.state:
            scores["state"] = model.state_path(ids, cuts)
        return scores


def _slice_scores(
    doc: Doc, words: _Words, segments: slice, scores: dict[str, npt.NDArray[Any]], eos: Float64
) -> DocScores:
    """Return copies of the scores of one document, which has some of the segments.

    Views would keep the arrays of the whole batch in memory for as long as the document lives.
    """
    cuts = words.segments[segments.start : segments.stop + 1]
    own = slice(int(cuts[0]), int(cuts[-1]))
    oov = words.oov[own].copy()
    share = words.shares[own].copy() if words.shares is not None and oov.any() else None
    return DocScores(
        start=words.start[own].copy(),
        length=words.length[own].copy(),
        oov=oov,
        share=share,
        segments=cuts - cuts[0],
        eos=eos[segments].copy(),
        text_length=text_length(doc),
        **{name: values[own].copy() for name, values in scores.items()},
    )
