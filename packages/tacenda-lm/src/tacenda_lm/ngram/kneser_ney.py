"""`KneserNey`: n-gram models of any order, with modified Kneser-Ney, back-off or Good-Turing smoothing.

    p(w | h) = (c(h w) - D(c(h w))) / sum_v c(h v) + gamma(h) p(w | h')

(Chen and Goodman, *An Empirical Study of Smoothing Techniques for Language Modeling*, 1998; estimated as lmplz
does: Heafield et al., ACL 2013.) Fitting sorts the n-grams of the text within a given memory, on disk where they are
more. A saved table is mapped, not read; `NGramScores` looks n-grams up in it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.lines import Marks
from tacenda.corpus.text import Text
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.fitting import FitRun
from tacenda.settings import configured_by
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import Vocabulary
from tacenda_lm.ngram.counts import Counted, by_order, count_ngrams
from tacenda_lm.ngram.pruning import pruned
from tacenda_lm.ngram.quantization import quantized
from tacenda_lm.ngram.rows import Rows
from tacenda_lm.ngram.scoring import NGramScores
from tacenda_lm.ngram.smoothing import FALLBACK, KneserNeySettings, estimate
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import Table

__all__ = ["KneserNey"]

_FEW_WORDS = (
    1 << 12
)  # a vocabulary of so many is read when the model is opened, as a small table is


class KneserNey(NGramScores):
    """An n-gram language model.

    Every type of the vocabulary is predicted, ``</s>`` and ``<unk>`` too; a ``<unk>`` written in the text is an
    ordinary word. A word outside the vocabulary has the probability of ``<unk>``. A state's value is a tuple of
    word ids, of which it keeps only as many as matter for what follows.

    Examples
    --------
    >>> lm = KneserNey(order=5).fit(Path("train.txt"))
    >>> lm.score("a sentence")  # log10, with </s>, as the kenlm module
    -7.21
    """

    name: ClassVar[str] = "kneser_ney"
    settings_class = KneserNeySettings
    mapped_arrays = frozenset({"ngrams.data"})
    is_normalized = True
    """False for a model read from an ARPA file whose distributions do not all sum to one, and for one of few bits."""

    @configured_by(KneserNeySettings)
    def __init__(self, settings: KneserNeySettings) -> None:
        super().__init__(settings)

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        def count(scratch: Scratch) -> Counted:
            order, types = self.settings.order, corpus.vocabulary
            blocks = corpus.blocks(scratch.rows_of_block(order))
            return count_ngrams(
                blocks, corpus.n_tokens, len(types), types.boundary_id, order, scratch
            )

        self._estimate(corpus.vocabulary, count)

    def fit_counted(
        self, corpus: Any, rows: Iterable[Rows], valid: Text | None, marks: Marks
    ) -> Self:
        """Fit the model to a text of which others have counted the n-grams: the `sorted_rows` of ``corpus``."""

        def count(scratch: Scratch) -> Counted:
            size = scratch.rows_of_block(self.settings.order)
            blocks = (
                np.array(each[i : i + size]) for each in rows for i in range(0, len(each), size)
            )
            return by_order(blocks, len(corpus.vocabulary), self.settings.order, scratch)

        with self._recording(corpus, valid, marks):
            self._estimate(corpus.vocabulary, count)
        return self

    def _estimate(self, vocabulary: Vocabulary, count: Callable[[Scratch], Counted]) -> None:
        """Fit the model to n-grams, which ``count`` finds within the memory that the settings allow."""
        from tacenda_lm.ngram.packing import TableWriter

        settings, order = self.settings, self.settings.order
        budget = default_budget() if settings.memory_gb is None else int(settings.memory_gb * 1e9)
        with Scratch(budget) as scratch:
            counted = count(scratch)
            writer = TableWriter(order, len(vocabulary), scratch)
            found = estimate(counted, settings, scratch, writer)
            table = Table(*writer.finish())
        _announce(found.from_text, settings)
        table = _made_smaller(table, settings)
        self.is_normalized = settings.bits is None
        self._vocabulary, self._table = vocabulary, table
        self.fitted_on = {
            "n_grams": table.sizes,
            "discounts": [each.tolist() for each in found.discounts],
            "discounts_from_text": found.from_text,
        }

    def smaller(self, *, prune: float = 0.0, bits: int | None = None) -> Self:
        """Return a smaller form of a fitted model, or of one read from an ARPA file, without fitting again.

        Parameters
        ----------
        prune, bits
            The settings of these names. A fit with them gives the same model.

        Raises
        ------
        NotFittedError
            There is no table to make smaller.
        ConfigurationError
            The model has few bits already, or a value is out of range.
        """
        if self.table.is_coarse:
            raise ConfigurationError(
                "the numbers of this model are rounded to few bits already: make it smaller from the whole model"
            )
        settings = replace(self.settings, prune=prune, bits=bits)
        model = type(self).from_settings(settings)
        model._vocabulary, model.start_log_prob = self._vocabulary, self.start_log_prob
        model._table = _made_smaller(self.table, settings)
        model.is_normalized = self.is_normalized and bits is None
        model.fitted_on = {**self.fitted_on, "n_grams": model._table.sizes}
        return model

    # -- ARPA files --------------------------------------------------------------------------------

    @classmethod
    def from_arpa(cls, path: str | os.PathLike[str]) -> Self:
        """Read the back-off model of an ARPA file, plain or compressed (gzip, bzip2, xz).

        Files whose distributions do not sum to one are read too, with a warning; `is_normalized` is False then.

        Raises
        ------
        DataError
            The file is cut short or breaks the format, and the message names the line; or its back-offs give a word a
            probability above one.
        """
        from tacenda_lm.ngram.arpa_reader import read_arpa

        vocabulary, table, sums, notes = read_arpa(path)
        if sums.above_one is not None:
            context, word = (
                " ".join(vocabulary.decode(ids)) for ids in (sums.above_one[0], [sums.above_one[1]])
            )
            raise DataError(
                f"{path}: back-offs give {word!r} after {context!r} a probability above one; correct the file"
            )
        if not sums.are_one:
            warnings.warn(
                f"{path} is not normalized: the probabilities after a context sum to {sums.low:.4g} at the lowest and "
                f"{sums.high:.4g} at the highest, so its perplexities cannot be compared with those of other models",
                stacklevel=2,
            )
        model = cls(order=table.order)
        model.is_normalized = sums.are_one
        model._vocabulary, model._table = vocabulary, table
        model.start_log_prob = notes.pop("start_log_prob", cls.start_log_prob)
        model.fitted_on = {
            "arpa": Path(path).name,
            "n_grams": table.sizes,
            "tokenizer": ASCII_WHITESPACE,
            **notes,
        }
        return model

    def to_arpa(self, path: str | os.PathLike[str]) -> None:
        """Write the model as an ARPA file, gzipped if the name ends in .gz.

        Raises
        ------
        DataError
            A word cannot stand in such a file, the name promises another packing, or the path cannot be written.
        """
        from tacenda_lm.ngram.arpa_writer import write_arpa

        write_arpa(path, self.vocabulary, self.table, self.start_log_prob)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings, the vocabulary's, and what an ARPA file may say otherwise, as JSON values."""
        own = {"is_normalized": self.is_normalized, "start_log_prob": self.start_log_prob}
        return {**super().config_dict(), **own}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the table and of the vocabulary. Raises NotFittedError."""
        return {**self.table.arrays(), **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artefact and check every array. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        few = np.size(arrays.get("vocabulary.counts", 0)) <= _FEW_WORDS
        model._vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays, at_once=few)
        model.is_normalized = config.get("is_normalized", True)
        if not isinstance(model.is_normalized, bool):
            raise ArtifactError(f"is_normalized is {model.is_normalized!r:.80}, not true or false")
        start = config.get("start_log_prob", cls.start_log_prob)
        if not isinstance(start, int | float) or isinstance(start, bool) or not -1e3 < start <= 0:
            raise ArtifactError(f"start_log_prob is {start!r:.80}, not a logarithm from -1000 to 0")
        model.start_log_prob = float(start)
        model._table = Table.from_arrays(arrays, len(model._vocabulary), model.is_normalized)
        return model


def _made_smaller(table: Table, settings: KneserNeySettings) -> Table:
    """Prune the table and round its numbers, as the settings say."""
    if settings.prune:
        table = pruned(table, settings.prune)
    return table if settings.bits is None else quantized(table, settings.bits)


def _announce(from_text: Sequence[bool], settings: KneserNeySettings) -> None:
    """Say for which orders the text is too small or too odd to give the discounts, where lmplz stops."""
    orders = [str(n) for n, given in enumerate(from_text, 1) if not given]
    if not orders:
        return
    which = f"the text does not give the discounts of order {', '.join(orders)}"
    if settings.smoothing == "good_turing":
        used = f"those of a cutoff below {settings.cutoff} or, where there are none, half a count are used"
    else:
        used = f"{', '.join(map(str, FALLBACK))} are used, as with lmplz --discount_fallback"
    warnings.warn(f"{which} (it is too small, or sentences repeat in it): {used}", stacklevel=5)
