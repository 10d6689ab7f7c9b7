"""What a text is worth to a language model: perplexity, surprisal, entropy, and whether it is normalised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tacenda.corpus.text import Sentence, Text, tokens_of
from tacenda.errors import DataError
from tacenda.tokenizers import Tokenizer
from tacenda_lm.contract import LanguageModelContract
from tacenda_lm.perplexity import Context, Perplexity, checked_context
from tacenda_lm.sequences import Float64, Ids, with_ends
from tacenda_lm.state import State
from tacenda_lm.text import blocks, ids_of

__all__ = ["Evaluation"]

_LN2 = math.log(2)


class Evaluation(LanguageModelContract):
    """Figures of whole texts, and of every token of a sentence."""

    def perplexity(
        self,
        text: Text,
        *,
        tokenizer: str | Tokenizer = "whitespace",
        context: Context = "sentence",
    ) -> Perplexity:
        """Perplexity of a text, a float that carries its protocol.

        Parameters
        ----------
        text
            A string is text (one sentence per line, so one line is one sentence, as in the kenlm module) and
            a ``pathlib.Path`` is a file; otherwise a corpus, or sentences (token lists or strings).
            Sentences without tokens are left out.
        tokenizer
            Splits the lines of files and strings; see ``tacenda.tokenizers``.
        context
            ``"sentence"``, each from ``start()``; or ``"stream"``, the whole text as one sequence with
            ``</s>`` after every sentence, each in the context of all before it (as recurrent models are
            measured). It makes a difference to models that look beyond ``</s>`` only.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        CorpusError
            The text cannot be read.
        ConfigurationError
            There is no such context.
        """
        vocabulary = self.vocabulary
        checked_context(context)
        state = self.start()
        log_prob = log_prob_eos = log_prob_oov = 0.0
        n_sentences = n_words = n_oov = 0
        n_characters: int | None = 0
        for block in blocks(text, vocabulary, tokenizer):
            ids, offsets = with_ends(block.ids, block.offsets, vocabulary.boundary_id)
            if context == "stream":
                scores, state = self.score_from(state, ids)
            else:
                scores = self.score_corpus(ids, offsets)
            ends = np.zeros(len(ids), bool)
            ends[offsets[1:] - 1] = True
            log_prob += float(scores.sum())
            log_prob_eos += float(scores[ends].sum())
            log_prob_oov += float(scores[~ends][block.oov].sum())
            n_sentences += len(offsets) - 1
            n_words += len(block.ids)
            n_oov += int(block.oov.sum())
            if n_characters is not None and block.n_characters is not None:
                n_characters += block.n_characters + len(block.ids)
            else:
                n_characters = None
        return Perplexity(
            log_prob=log_prob,
            log_prob_eos=log_prob_eos,
            log_prob_oov=log_prob_oov,
            n_sentences=n_sentences,
            n_words=n_words,
            n_oov=n_oov,
            n_characters=n_characters,
            context=context,
        )

    def token_log_probs(self, sentences: Iterable[Sentence], *, eos: bool = True) -> list[Float64]:
        """Natural log-probability of every token of every sentence, all scored in one call.

        Parameters
        ----------
        sentences
            Token lists, or strings that are split at whitespace.
        eos
            Add the log-probability of ``</s>`` at the end of each.

        Returns
        -------
        One float64 array (tokens,) a sentence, one longer with ``eos``.
        """
        ids, offsets = self._encoded([tokens_of(each) for each in sentences], eos)
        return [part.copy() for part in np.split(self.score_corpus(ids, offsets), offsets[1:-1])][
            : len(offsets) - 1
        ]

    def _encoded(
        self, sentences: Sequence[Sequence[str]], eos: bool
    ) -> tuple[Ids, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        ids, offsets = ids_of(sentences, self.vocabulary)
        return with_ends(ids, offsets, self.vocabulary.boundary_id) if eos else (ids, offsets)

    def surprisal(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """-log2 p(token | those before it) in bits: float64 (tokens,), one longer with ``eos`` for ``</s>``."""
        return -self.token_log_probs([sentence], eos=eos)[0] / _LN2

    def surprisals(self, sentences: Iterable[Sentence], *, eos: bool = False) -> list[Float64]:
        """`surprisal` of many sentences, scored in one call."""
        return [-scores / _LN2 for scores in self.token_log_probs(sentences, eos=eos)]

    def entropy(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """Entropy in bits of the distribution each token is drawn from: float64 (tokens,).

        Costs a whole distribution a token. With ``eos`` one longer: the last is that of what follows the end.
        """
        ids, offsets = self._encoded([tokens_of(sentence)], eos)
        found = [np.empty(0)]
        for rows in self.distributions(ids, offsets):
            wide = rows.astype(np.float64)
            found.append(-(np.exp(wide) * np.maximum(wide, -1e300)).sum(axis=1) / _LN2)
        return np.concatenate(found)

    def ranks(
        self, sentence: Sentence, *, eos: bool = False
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """How many words were more probable than each token: int64 (tokens,), 0 for the best guess."""
        ids, offsets = self._encoded([tokens_of(sentence)], eos)
        found = [np.empty(0, np.int64)]
        done = 0
        for rows in self.distributions(ids, offsets):
            own = rows[np.arange(len(rows)), ids[done : done + len(rows)]]
            found.append((rows > own[:, None]).sum(axis=1))
            done += len(rows)
        return np.concatenate(found)

    def check_normalized(
        self,
        sentences: Iterable[Sentence] | None = None,
        *,
        n_contexts: int = 100,
        seed: int = 0,
        tolerance: float = 1e-5,
    ) -> float:
        """The largest |sum_w p(w | context) - 1|, computed in full.

        Parameters
        ----------
        sentences
            Contexts are all beginnings of these; by default random words of the vocabulary, after
            the start of a sentence and after nothing.
        n_contexts
            How many, by default.
        seed
            Of the default contexts.
        tolerance
            What is allowed.

        Raises
        ------
        DataError
            a distribution is not normalised, or holds NaN; the message names the context.
        """
        worst = 0.0
        for states, shown in self._contexts_to_check(sentences, n_contexts, seed):
            sums = np.exp(self.log_probs(states).astype(np.float64)).sum(axis=1)
            off = np.where(np.isfinite(sums), np.abs(sums - 1), np.inf)
            i = int(off.argmax())
            if off[i] > tolerance:
                raise DataError(
                    f"the probabilities of the next word after {shown[i]!r:.200} sum to {sums[i]:.8g}, "
                    f"which is further from 1 than {tolerance:g}: the model is damaged or not normalised"
                )
            worst = max(worst, float(off[i]))
        return worst

    def _contexts_to_check(
        self, sentences: Iterable[Sentence] | None, n_contexts: int, seed: int
    ) -> Iterable[tuple[list[State], list[str]]]:
        vocabulary = self.vocabulary
        if sentences is None:
            rng = np.random.default_rng(seed)
            drawn = rng.integers(len(vocabulary), size=(-(-n_contexts // 10), 9))
            sequences = [row.tolist() for row in drawn]
        else:
            sequences = [vocabulary.encode(tokens_of(each)).tolist() for each in sentences]
        yield [self.null()], ["nothing"]
        for sequence in sequences:
            states, shown = [self.start()], ["<s>"]
            for word in sequence:
                states.append(self.advance(states[-1], word))
                shown.append(f"{shown[-1]} {vocabulary.words[word]}")
            for i in range(0, len(states), 64):
                yield states[i : i + 64], shown[i : i + 64]
