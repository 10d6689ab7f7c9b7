"""The pipeline component behind ``lm_scorer``.

It holds any fitted language model, and keeps the scores of the words with every document, from where the
extension attributes of ``tacenda_lm.spacy.scores`` read them. The model is loaded or fitted in
`LanguageModelScorer.initialize`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from itertools import chain, pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from spacy.attrs import IDX, LENGTH, ORTH
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError, warn
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.documents import TokenSurvey, WordCache, sentence_cuts
from tacenda.spacy.sources import load, read_corpus, resolve_text, resolve_tokenizer
from tacenda.tokenizers import get_tokenizer
from tacenda_lm.language_model import LanguageModel, find_fitted_tokenizers
from tacenda_lm.sequences import with_ends
from tacenda_lm.spacy.scores import DocScores, build_scored_text, register, text_length
from tacenda_lm.states import State, distributions_of, ranks_and_entropies, states_before
from tacenda_lm.surprisal.notes import caveats
from tacenda_lm.surprisal.table import SurprisalTable, tabulate
from tacenda_lm.unknown_words import Unknown, UnknownWords, check_way

_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*")
_BLANK = -1  # stands for a whitespace token


@dataclass(frozen=True)
class _Normalization:
    """Changes to a token before it is looked up; by default none."""

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
    nlp
        The pipeline.
    name
        The component's name in it.
    prefix
        The beginning of the names of all attributes and figures.
    context
        The words on which a token's probability may depend: those before it in its ``"doc"``, in its
        ``"sentence"``, or in the ``"stream"`` of all documents so far. Where sentence boundaries are known, ``</s>`` is
        predicted after each sentence in every context, and the model sees what follows as a new sentence; with
        ``"sentence"`` it also forgets what came before.
    eos
        Predict ``</s>`` after every sentence, or after the document where boundaries are unknown.
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
        if number_word is not None and number_word.split() != [number_word]:
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
        """Load a fitted model, or fit one on raw text; with neither, keep the model there is.

        Parameters
        ----------
        get_examples
            Looked at for tokens that the model does not know; these models learn from raw text, not from annotations.
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
            The saved model or the corpus cannot be read.
        """

        def fit() -> Any:
            unfitted = plugins.make("language_models", model, settings, distribution=distribution)
            vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
            return self._fit(unfitted, corpus, valid, tokenizer, split, vocabulary)

        self._initialize(nlp, artifact, corpus, fit)
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
            found = resolve_tokenizer(tokenizer, self._nlp())
            cut = getattr(found, "name", found if isinstance(found, str) else None)
            facts |= {"tokenizer": cut, "split": split}
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
        if split not in ("lines", "sentences"):
            raise ConfigurationError(f"split must be 'lines' or 'sentences', not {split!r}")
        if split == "lines" or isinstance(text, Corpus):
            cut = resolve_tokenizer(tokenizer, nlp)
            if self.normalize != _Normalization():
                tokenize = get_tokenizer(cut)
                return read_corpus(
                    text, lambda line: list(map(self.normalize, tokenize(line))), settings
                )
            return read_corpus(text, cut, settings)
        if tokenizer != "spacy" or nlp is None:
            raise ConfigurationError(
                "split = 'sentences' needs tokenizer = 'spacy': set that, or give a text with one "
                "sentence per line"
            )
        given, names = resolve_text(text)
        lines: Any = given if names is None else chain.from_iterable(text_blocks(given))

        def sentences() -> Iterator[list[str]]:
            sentencizer = Sentencizer()
            for line in lines:
                for sentence in sentencizer(nlp.tokenizer(line.strip())).sents:
                    yield [self.normalize(token.text) for token in sentence if not token.is_space]

        return Corpus.from_sentences(sentences(), **settings), names

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
                f"a {type(model).__name__} has no states: leave out state, or use a hidden Markov model "
                "such as vlhmm"
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
        """Keep the scores that `predict` returned with their documents."""
        for doc, scores in zip(docs, found, strict=True):
            scores.keep(doc, self.prefix)

    def surprisal_table(
        self, docs: Doc | Mapping[str, Doc] | Iterable[Doc], *, previous: int = 1
    ) -> SurprisalTable:
        """Return the words of scored documents as `tacenda_lm.surprisal_table` returns the words of texts.

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
        as_fitted = all(
            name.startswith("spacy:") for name in find_fitted_tokenizers(self.language_model)
        )
        # words were counted as they are written
        as_counted = as_fitted and self.normalize == _Normalization()
        counts = vocabulary.split_words if as_counted else None
        texts = [
            build_scored_text(doc, name, vocabulary, self.normalize, self.prefix, counts)
            for name, doc in named.items()
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
        table = tabulate(texts, previous, list(notes))
        for note in table.notes:
            warn(note)
        return table

    def restart_stream(self) -> None:
        """Forget the documents so far, with ``context="stream"``: the next one is then the first."""
        _ = self.fitted
        cast("_DocScorer", self._predictor).stream = None

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Return the figures of scored documents that the configured scorer computes, for ``nlp.evaluate``."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})


class _DocScorer:
    """Applies a fitted model to documents, with the options of a component."""

    def __init__(self, model: Any, options: LanguageModelScorer) -> None:
        self._model, self._options = model, options
        self._vocabulary = model.vocabulary
        self._shares = UnknownWords(model.vocabulary, options.unknown, options.unseen_types)
        self.stream: State | None = None
        self._unknown = frozenset(self._vocabulary.oov_ids.tolist())
        self._cache = WordCache(self._look_up, _BLANK, self._vocabulary)

    def _look_up(self, text: str) -> int:
        """Twice the id of a token, plus one if it is outside the vocabulary."""
        number: int = self._vocabulary.id_of(self._options.normalize(text))
        return 2 * number + (number in self._unknown)

    def __call__(self, docs: Sequence[Doc]) -> list[DocScores]:
        """Return the scores of each document, empty for a document without words."""
        if not docs:
            return []
        options = self._options
        offsets = np.cumsum([0, *map(len, docs)])
        coded = np.array(self._cache.read(docs), dtype=np.int64)
        is_word = coded != _BLANK  # (tokens,); whitespace is left out of all that follows
        before = np.concatenate([[0], np.cumsum(is_word)])  # words before each token
        oov = (coded[is_word] & 1).astype(bool)
        places = np.concatenate([doc.to_array([IDX, LENGTH]).reshape(-1, 2) for doc in docs])
        start, length = places[is_word].astype(np.int32).T
        # cuts of the words into segments, sentences where boundaries are known, else documents; and of
        # the segments into documents
        segments = np.unique(before[sentence_cuts(docs, offsets)]).astype(np.int64)
        doc_segments = np.searchsorted(segments, before[offsets])
        # what is predicted: the words, and </s> after each segment if it is scored
        ids, predicted = (coded[is_word] >> 1).astype(np.int32), segments
        if options.eos:
            ids, predicted = with_ends(ids, segments, self._vocabulary.boundary_id)
        is_end = np.zeros(len(ids), bool)
        if options.eos:
            is_end[predicted[1:] - 1] = True
        share = None
        if self._shares.way != "class":
            share = np.zeros(len(oov))
            if oov.any():
                orths = np.concatenate([doc.to_array(ORTH) for doc in docs])[is_word][oov]
                strings = docs[0].vocab.strings
                words = (options.normalize(strings[orth]) for orth in orths.tolist())
                share[oov] = self._shares.log_shares(words)
        found = self._score(ids, np.unique(predicted[doc_segments]), predicted)
        eos = found["log_prob"][is_end]
        of_words = {name: values[~is_end] for name, values in found.items()}
        scores = []
        for doc, (first, last) in zip(docs, pairwise(doc_segments.tolist()), strict=True):
            cuts = segments[first : last + 1]
            own = slice(int(cuts[0]), int(cuts[-1]))
            scores.append(
                DocScores(
                    # copies: a view would keep the whole batch in memory for as long as the document lives
                    start=start[own].copy(),
                    length=length[own].copy(),
                    oov=oov[own].copy(),
                    share=share[own].copy() if share is not None and oov[own].any() else None,
                    segments=cuts - cuts[0],
                    eos=eos[first:last].copy(),
                    text_length=text_length(doc),
                    **{name: values[own].copy() for name, values in of_words.items()},
                )
            )
        return scores

    def _score(self, ids: Any, documents: Any, segments: Any) -> dict[str, npt.NDArray[Any]]:
        """Score ids, cut into documents and into segments; the context makes each of one kind a sequence."""
        model, options = self._model, self._options
        cuts = documents if options.context == "doc" else segments
        if options.context == "stream":
            before = model.start() if self.stream is None else self.stream
            log_prob, self.stream = model.score_from(before, ids)
            rows = distributions_of(model, states_before(model, before, ids))
        else:
            log_prob = model.score_corpus(ids, cuts)
            rows = model.distributions(ids, cuts)
        found: dict[str, npt.NDArray[Any]] = {"log_prob": log_prob}
        if options.rank or options.entropy:
            ranks, entropies = ranks_and_entropies(rows, ids)
            found |= {"rank": ranks} if options.rank else {}
            found |= {"entropy": entropies} if options.entropy else {}
        if options.state:
            found["state"] = model.state_path(ids, cuts)
        return found
