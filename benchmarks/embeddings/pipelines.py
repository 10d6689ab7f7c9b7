"""spaCy's own training, until the dev part stops improving, as the benchmarks of pipelines train.

The spaCy pipelines that are compared: stock tagger and ner on different layers of vectors.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.training.loop import train_while_improving
from spacy.vectors import Vectors
from thinc.api import Adam, compounding

from benchmarks.embeddings import labelled, models, subwords, text
from tacenda_embeddings.spacy.configuration import pipeline_config
from tacenda_embeddings.spacy.linear_algebra import use_numpy_blas
from tacenda_embeddings.spacy.vectors import use_vectors

EVERY, PATIENCE, MOST_STEPS = 200, 1600, 20_000  # steps, as `spacy init config` sets them
PROTOCOL = (
    "spaCy's own loop with its default Adam, batches (100 to 1000 words) and dropout 0.1; {} scored every "
    f"{EVERY} steps, until {PATIENCE} have brought no better score; the best step on the dev part"
)


def train(
    nlp: spacy.Language,
    examples: list[Example],
    on_dev: Callable[[], tuple[float, dict[str, float]]],
    annotating: Sequence[str] = (),
) -> dict[str, Any]:
    """Train a pipeline until the dev part says stop, and leave it with the weights of its best step.

    `on_dev` scores the pipeline as it is: the score that decides, and others. Returned are those of the best step
    ("dev", "others"), which it is ("step"), how many there were ("steps"), and the seconds of the processor.
    """
    start = time.process_time()
    adam = Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True, use_averages=False)
    optimizer = nlp.initialize(lambda: examples, sgd=adam)
    steps = train_while_improving(
        nlp,
        optimizer,
        _batches(examples),
        on_dev,
        dropout=0.1,
        eval_frequency=EVERY,
        accumulate_gradient=1,
        patience=PATIENCE,
        max_steps=MOST_STEPS,
        exclude=[],
        annotating_components=list(annotating),
        before_update=None,
    )
    best: dict[str, Any] = {"score": -1.0, "step": 0, "other_scores": {}}
    weights = b""
    for _, info, is_best in steps:
        if is_best and info["score"] > best["score"]:
            best, weights = info, nlp.to_bytes(exclude=["vocab"])
    seconds = time.process_time() - start
    nlp.from_bytes(weights, exclude=["vocab"])
    return {
        "dev": best["score"],
        "others": best["other_scores"],
        "step": best["step"],
        "steps": info["step"],
        "seconds": round(seconds, 1),
    }


def _batches(examples: list[Example]) -> Iterator[tuple[int, list[Example]]]:
    """Batches with the number of their epoch, without end."""
    sizes = compounding(100, 1000, 1.001)
    for epoch in count():
        random.shuffle(examples)
        for batch in minibatch_by_words(
            examples, size=sizes, tolerance=0.2, discard_oversize=False
        ):
            yield epoch, batch


WIDTH = 96
Config = dict[str, Any]
DEFAULT = "hash, CNN4 (spaCy's default)"
RECOMMENDED = "hash + SumEmbed + LDS own_context, CNN1 (recommended)"


@dataclass(frozen=True)
class Row:
    """What stands between the words and the tagger's softmax (or the parser's state).

    spaCy's hash embeddings of norm, prefix, suffix and shape always; `static`: width of the word2vec vectors
    beside them, 0 for none; `words`: vectors of a SumEmbed in their place, `subwords`: those of the library of
    this name; `output`: the vectors of the LDS; `depth`: convolution layers.
    """

    static: int = 0
    output: str | None = None
    depth: int = 0
    words: bool = False
    subwords: str = ""

    def tok2vec(self, source: str = "tensor") -> Config:
        embed: Config = {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": WIDTH,
            "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
            "rows": [5000, 1000, 2500, 2500],
            "include_static_vectors": self.static > 0 or self.words or bool(self.subwords),
        }
        if self.output:
            read = {"@architectures": "tacenda.DocTensor.v1", "source": source}
            layers = {"hash": embed, "lds": read}
            embed = {"@architectures": "tacenda.ConcatEmbed.v1", "width": WIDTH, "embeds": layers}
        if not self.depth:
            return embed
        encode = {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": WIDTH,
            "depth": self.depth,
            "window_size": 1,
            "maxout_pieces": 3,
        }
        return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


ROWS: dict[str, Row] = {
    DEFAULT: Row(depth=4),
    "hash + word2vec, CNN4": Row(static=100, depth=4),
    "hash + word2vec, CNN1": Row(static=100, depth=1),
    "hash + FastText, CNN4": Row(subwords="FastText", depth=4),
    "hash + floret, CNN4": Row(subwords="floret", depth=4),
    "hash + SumEmbed, CNN4": Row(words=True, depth=4),
    "hash, no CNN": Row(),
    "hash + LDS own_context, no CNN": Row(output="own_context"),
    "hash + LDS own_past_future, no CNN": Row(output="own_past_future"),
    "hash + SumEmbed + LDS, no CNN": Row(words=True, output="own_past_future"),
    "hash + SumEmbed + LDS own_past_future, CNN1": Row(
        words=True, output="own_past_future", depth=1
    ),
    RECOMMENDED: Row(words=True, output="own_context", depth=1),
}


def build(
    component: str, row: Row, vectors: Any, language: str = "en", layers: Config | None = None
) -> spacy.Language:
    """A pipeline with one stock component, uninitialized; `vectors` as `word_vectors` gives them.

    Its layers are those of the row, or the ``layers`` given; all multiply with numpy's BLAS.
    """
    nlp = spacy.blank(language)
    take_vectors(nlp, row, vectors)
    model: Config = {"tok2vec": layers or row.tok2vec()}
    if component in ("tagger", "morphologizer"):
        model["@architectures"] = "spacy.Tagger.v2"
    else:
        model |= {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": component,
            "extra_state_tokens": False,
            "hidden_width": 64,
            "maxout_pieces": 2,
            "use_upper": True,
        }
    nlp.add_pipe(component, config={"model": model})
    return use_numpy_blas(nlp)


def configured(
    heads: Sequence[str], row: Row, vectors: Any, lds: Any = None, language: str = "en"
) -> spacy.Language:
    """An uninitialized pipeline as `tacenda embed init-config` writes it, with the layers of a row.

    Several heads listen to one ``tok2vec``; a lone one has the layers for itself. `lds`: the folder of an LDS, by
    default the English one.
    """
    shared = len(heads) > 1
    source = "lds" if shared else "tensor"
    lds = lds or models.folder()
    config = pipeline_config(heads, str(lds), shared=shared, target=source, language=language)
    for place in ["tok2vec"] if shared else heads:
        component = config["components"][place]
        if shared:
            component["model"] = row.tok2vec(source)
        else:
            component["model"]["tok2vec"] = row.tok2vec(source)
    if row.output:
        config["components"]["lds_embeddings"]["output"] = row.output
    else:
        config["nlp"]["pipeline"].remove("lds_embeddings")
        del config["components"]["lds_embeddings"]
        config["training"]["annotating_components"] = []
        config["initialize"]["components"] = {}
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    take_vectors(nlp, row, vectors)
    return nlp


def take_vectors(nlp: spacy.Language, row: Row, vectors: Any) -> None:
    """Make the word vectors of a row those of a pipeline."""
    if row.words:
        use_vectors(nlp, vectors)
    elif (row.static or row.subwords) and vectors is not None:
        nlp.vocab.vectors = vectors


def word_vectors(tasks: list[labelled.Task], row: Row) -> Any:
    """Return what `take_vectors` wants for a row: a table of vectors, a fitted SumEmbed, or None."""
    if row.words:
        return words().model
    if row.subwords:
        return subwords.vectors(row.subwords, words_of(tasks))
    return static_vectors(tasks, row.static) if row.static else None


@cache
def words(millions: float = 0, **settings: Any) -> Any:
    """Return the SumEmbed of the text of the LDS, of so many million tokens (0: all), as the command saves it."""
    from benchmarks.varembed import models as word_models

    row = word_models.Row("SumEmbed", settings)
    found = word_models.fitted(row, 0, word_models.corpus(millions))
    return replace(found, model=found.model.rounded("int8"))


def static_vectors(tasks: list[labelled.Task], width: int) -> Vectors:
    """Return word2vec as spaCy vectors: every word of the data points at the row of its type or class."""
    rows, vocabulary = text.word2vec(width), text.corpus().vocabulary
    vectors = Vectors(data=rows, name="word2vec")
    strings = spacy.blank("en").vocab.strings
    for word in sorted(words_of(tasks) | set(vocabulary.words)):
        vectors.add(strings.add(word), row=vocabulary.id_of(word))
    return vectors


def digest(nlp: spacy.Language, row: Row, tasks: list[labelled.Task]) -> str:
    """Return a digest of the layers of a row, and of the vectors that it reads of the words of the data."""
    found = hashlib.sha256(str(row.tok2vec()).encode())
    for word in sorted(words_of(tasks)):
        found.update(nlp.vocab.get_vector(word).tobytes())
    return found.hexdigest()[:12]


def words_of(tasks: list[labelled.Task]) -> set[str]:
    """Every word of the data."""
    parts = (part for task in tasks for part in (task.train, task.dev, task.test))
    return {word for part in parts for sentence in part for word in sentence.words}


def documents(
    nlp: spacy.Language, task: labelled.Task, row: Row, lds: Any = None
) -> dict[str, list[Doc]]:
    """Return the Docs of each part, gold tokens; vectors of ``lds`` (the row's own) in tensors if it reads them."""
    found = {}
    for part in ("train", "dev", "test"):
        sentences = [s.words for s in getattr(task, part)]
        found[part] = [Doc(nlp.vocab, words=words) for words in sentences]
        if row.output is not None:
            tensors = (lds or models.fitted()).transform(sentences, output=row.output)
            for doc, tensor in zip(found[part], tensors, strict=True):
                doc.tensor = tensor
    return found
