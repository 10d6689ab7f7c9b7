"""The parts of `make bench`: the modules that measure, and the results files that each of them writes."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """What one process of `make bench` measures.

    Attributes
    ----------
    module
        Below `benchmarks`, as `language_models.ngrams`.
    results
        The names of the result files.
    timed
        Whether it times anything: such a part wants a quiet machine.
    arguments
        Of the command line; by default the module writes all of its tables.
    """

    module: str
    results: tuple[str, ...]
    timed: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells it from other parts: its module, and the last words of the arguments."""
        return " ".join(
            (self.module, *(each for each in self.arguments if not each.startswith("--")))
        )


#: A part a line: the module, its results without the words that all of them begin with, and its options.
_PARTS = """
embeddings.local          embeddings- local
embeddings.start          embeddings- start
embeddings.unseen         embeddings- unseen
embeddings.languages      embeddings- languages languages-1000 languages-speed
embeddings.multiword      embeddings- multiword
embeddings.universal_tags embeddings- universal-tags
embeddings.peers          embeddings- peers peers-more
embeddings.text_classes   embeddings- text-classes text-classes-1000
embeddings.whole          embeddings- whole
embeddings.raw_text       embeddings- raw-text
embeddings.lexicalized    embeddings- lexicalized
embeddings.spacy_rows     embeddings- spacy
embeddings.pipeline_speed embeddings- pipeline-speed timed
embeddings.peers_speed    embeddings- peers-speed timed
embeddings.fit            embeddings- fit timed
varembed.intrinsic        varembed- intrinsic timed
varembed.intrinsic        varembed- intrinsic-1.5 timed --tokens 1.5
varembed.tagging          varembed- tagging
varembed.sum_embed        varembed- sum-embed
scale.cluster             scale- cluster timed
scale.slopes              scale- slopes timed
scale.memory              scale- memory
ratings.peer_settings     ratings- peer-settings-ml-100k --data ml-100k
ratings.peer_settings     ratings- peer-settings-ml-1m --data ml-1m
ratings.accuracy          ratings- ml-100k timed --data ml-100k
ratings.accuracy          ratings- ml-1m timed --data ml-1m
ratings.uncertainty       ratings- uncertainty
ratings.newcomers         ratings- newcomers
ratings.lists             ratings- lists lists-more timed
ratings.scale             ratings- scale timed
ratings.thesis            ratings-thesis- machines conditioning factorizations
language_models.ngrams        lm- ngrams
language_models.ngrams_speed  lm- ngrams-speed timed
language_models.ngrams_size   lm- ngrams-training ngrams-arpa ngrams-files timed
language_models.log_bilinear  lm- log-bilinear
language_models.budgets       lm- budgets
language_models.caches        lm- caches
language_models.mixtures      lm- mixtures mixtures-apart
language_models.scale         lm- scale
language_models.unknown       lm- unknown
language_models.reading       lm- reading
language_models.recurrent     lm- recurrent
language_models.state_space   lm- state-space
language_models.hidden_markov lm- hidden-markov --tables lm-hidden-markov
language_models.hidden_markov lm- hidden-markov-studies --tables lm-hidden-markov-studies
language_models.hidden_markov lm- hidden-markov-mixtures --tables lm-hidden-markov-mixtures
language_models.hidden_markov lm- hidden-markov-wikitext-2 --tables lm-hidden-markov-wikitext-2
language_models.thesis        lm-thesis- flat-ptb machines-ptb trees-ptb --data ptb
language_models.thesis        lm-thesis- flat-wikitext-2 machines-wikitext-2 trees-wikitext-2 --data wikitext-2
gpu                           gpu timed
robustness                    robustness
"""


def _read(line: str) -> Part:
    told, dashes, arguments = line.partition("--")
    module, prefix, *words = told.split()
    results = [prefix + word for word in words if word != "timed"] or [prefix]
    return Part(module, tuple(results), "timed" in words, tuple((dashes + arguments).split()))


PARTS = tuple(map(_read, _PARTS.strip().splitlines()))


def part_of(result: str) -> Part | None:
    """Return the part that makes this result file; None if no part of `make bench` does."""
    return next((part for part in PARTS if result in part.results), None)
