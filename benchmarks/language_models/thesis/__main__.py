"""Tables 3.1, 3.2 and 4.4 of Mnih (2010) on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.thesis [--data ptb wikitext-2] [--only STUDY ...] [--models MODEL ...]

Studies: flat (Table 3.2), machines (Table 3.1) and trees (Table 4.4), all rows of each unless models are named, as in
"LBL by NCE, 2" (of two words). Every fit is kept; an interrupted one is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row, Table
from tacenda_lm import FRBM, HLBL, LBL, KneserNey, LanguageModel, Mixture, TemporalFRBM

published = reporting.published(__file__)  # what the thesis reports; not measured here
WIDTH, STOPPING = 100, 80_000  # features; words at most of the validation text that an LBL stops by
PROTOCOL = {
    "measure": "perplexity of the test text, alone and (fitted) mixed with n-grams, weights fitted on the validation "
    "text in the context of the row",
    "text": contexts.TEXT,
    "scored": contexts.PROTOCOL,
    "HLBL": f"{WIDTH} features, a context of 5 words with diagonal weights, no tails, trees clustered with equal "
    "weights of words; dropout 0.2, at most 3 epochs, the best one by the validation text",
    "LBL": f"{WIDTH} features, full context matrices, dropout 0.2; by NCE at most 6 epochs, or exact, at most 4",
    "FRBM": f"{WIDTH} features and hidden units, two words of context, running text; by likelihood, or by contrastive "
    "divergence (CD) with a word drawn given the hidden units, or the probabilities of all words (mean field)",
    "KN": "interpolated modified Kneser-Ney, all n-grams listed; back-off forms list those that occur twice",
    "published": published.SOURCE,
}
MIXED_WITH = {"flat": 5, "machines": 5, "trees": 6}  # the order of the n-grams
TREES: dict[str, dict[str, Any]] = {
    "RANDOM": {"tree": "random"},
    "BALANCED": {"tree": "balanced"},
    "ADAPTIVE": {"tree": "adaptive"},
    **{
        f"ADAPTIVE({overlap}){f' x {copies}' if copies > 1 else ''}": {
            "tree": "adaptive", "copies": copies, "overlap": overlap,
        }
        for overlap, copies in ((0.25, 1), (0.4, 1), (0.4, 2), (0.4, 4))
    },
}  # fmt: skip
EPOCHS = {"ptb": (8, 6), "wikitext-2": (4, 3)}  # of a machine, and of a temporal one that begins so
KINDS = {"KN": "interpolated", "back-off KN": "backoff", "back-off GT": "good_turing"}


def hlbl(tree: str = "random", overlap: float = 0.0, **settings: Any) -> HLBL:
    """Return an HLBL of the thesis."""
    advanced: dict[str, Any] = {"tail_rates": ()}
    if tree != "random":
        advanced |= {"overlap": overlap, "frequency_power": 0.0}
    given: dict[str, Any] = {"copies": 1, "dropout": 0.2, "epochs": 3, **settings}
    return HLBL(
        width=WIDTH, context=5, tree=tree, across_sentences=False, advanced=advanced, **given
    )


def lbl(context: int = 5, loss: str = "nce", epochs: int = 6) -> LBL:
    """Return an LBL of the thesis; an epoch of exact likelihood is worth more than one by NCE, and costs more."""
    return LBL(
        width=WIDTH, context=context, loss=loss, epochs=epochs, dropout=0.2, across_sentences=False
    )


def ngrams(kind: str, order: int) -> KneserNey:
    """Return n-grams; the back-off forms list what occurs twice, as SRILM does."""
    return KneserNey(order=order, smoothing=KINDS[kind], min_count=1 if kind == "KN" else 2)


def machine(temporal: bool, learning: str, data: str) -> LanguageModel:
    """Return a Boltzmann machine; a temporal one begins with the plain one of the same learning."""
    epochs, more = EPOCHS[data]
    shared: dict[str, Any] = {"features": WIDTH, "hidden": 100, "learning_rate": 0.2}
    if learning != "likelihood":
        shared["learning"] = "divergence" if learning == "drawn" else "mean_field"
    if not temporal:
        return FRBM(**shared, epochs=epochs)
    piece = {} if learning == "likelihood" else {"piece_words": 1}
    return TemporalFRBM(**shared, **piece, frbm_epochs=epochs, epochs=more)


def of_grams(texts: Texts, kind: str, order: int, theirs: float | None = None) -> Iterator[Row]:
    model = ngrams(kind, order).fit(texts.train)
    for row in contexts.perplexities(model, {"perplexity": texts.test}):
        about = {"model": f"{kind}{order}", "context": order - 1, "scored": row["context"]}
        found = {**about, "perplexity": row["perplexity"]}
        yield found | ({"perplexity APNews": theirs} if theirs else {})


def of(
    texts: Texts, name: str, model: LanguageModel, study: str, theirs: Any = (), **about: Any
) -> Iterator[Row]:
    """Yield the rows of a model alone and mixed, next to the thesis's numbers."""
    valid = texts.valid
    if isinstance(model, LBL):  # scoring costs it as much as learning
        valid = valid.head(int(np.searchsorted(valid.offsets, STOPPING, side="right")))
    found, took = contexts.fitted(model, texts.name, texts.train, valid)
    grams = KneserNey(order=MIXED_WITH[study]).fit(texts.train)
    mixture = Mixture({"model": found, "kneser_ney": grams})
    tested = {"perplexity": texts.test}
    alone = {row["context"]: row for row in contexts.perplexities(found, tested)}
    for row in contexts.perplexities(mixture, tested, weights_on=texts.valid):
        own = alone.get(row["context"]) or alone[contexts.EITHER]
        yield {
            **about, "model": name, "scored": row["context"], "perplexity": own["perplexity"],
            "fitted": row["perplexity"], "share": row["weights"]["model"],
            "epochs": len(found.fitted_on["training"]["evaluations"]), "CPU seconds": took["CPU s"],
            **dict(zip(("perplexity APNews", "fitted APNews"), theirs, strict=False)),
        }  # fmt: skip


#: The models of a study, and what measures the rows of each.
Trials = Iterator[tuple[str, Callable[[], Iterator[Row]]]]


def flat(texts: Texts) -> Trials:
    """Table 3.2: the LBL by context, by NCE and exact, and n-grams of every kind."""
    ptb = texts.name == "ptb"
    models = {("LBL by NCE", n): lbl(n) for n in ((2, 5, 10) if ptb else (5,))}
    models |= {("LBL, exact", 5): lbl(5, "softmax", 4)} if ptb else {}
    for (name, context), model in models.items():
        theirs = published.LBL.get(context, ())
        measure = partial(of, texts, name, model, "flat", theirs, context=context)
        yield f"{name}, {context}", measure
    for kind, orders in {
        "KN": (3, 5, 6, 9),
        "back-off KN": (3, 5, 6, 9),
        "back-off GT": (3, 6),
    }.items():
        for order in orders:
            theirs = published.BACKOFF.get(order) if kind == "back-off KN" else None
            yield f"{kind}{order}", partial(of_grams, texts, kind, order, theirs)


def machines(texts: Texts) -> Trials:
    """Table 3.1: restricted Boltzmann machines of words, plain and temporal, alone and with n-grams."""
    ways = ("likelihood", "drawn", "mean field") if texts.name == "ptb" else ("likelihood",)
    for learning in ways:
        for temporal in (False, True) if learning != "mean field" else (False,):
            kind = "temporal FRBM" if temporal else "FRBM"
            name = kind if learning == "likelihood" else f"{kind} by CD, {learning}"
            model = machine(temporal, learning, texts.name)
            yield name, partial(of, texts, name, model, "machines", published.MACHINES[kind])
    yield "KN5", partial(of_grams, texts, "KN", 5)


def trees(texts: Texts) -> Trials:
    """Table 4.4: HLBL on different trees."""
    for tree, settings in TREES.items():
        name, theirs = f"HLBL, {tree}", published.MODELS[tree]
        yield name, partial(of, texts, name, hlbl(**settings), "trees", theirs)
    if texts.name == "ptb":
        tree, settings = list(TREES.items())[-1]
        name, longer = f"HLBL, {tree}, longer", hlbl(**settings, epochs=9, dropout=0.5)
        yield name, partial(of, texts, name, longer, "trees")
    yield "LBL", partial(of, texts, "LBL", lbl(), "trees", published.MODELS["LBL"])
    for order in (2, 3, 6):
        theirs = published.INTERPOLATED[order]
        yield f"KN{order}", partial(of_grams, texts, "KN", order, theirs)


def rows(study: str, texts: Texts, models: list[str]) -> Iterator[Row]:
    """Yield the rows of a study, of all its models or of the named ones."""
    for name, measure in STUDIES[study](texts):
        if not models or name in models:
            yield from measure()


STUDIES = {"flat": flat, "machines": machines, "trees": trees}


if __name__ == "__main__":
    options = reporting.parse(__doc__, data=tuple(EPOCHS), models=[])
    options.whole = not options.models  # every study measures all rows of its tables otherwise
    for data in options.data:
        texts = Texts(data)
        for name in options.chosen(STUDIES):
            own = lambda each, name=name, texts=texts: rows(name, texts, each.models)  # noqa: E731
            told = {**PROTOCOL, "mixtures": f"with interpolated KN{MIXED_WITH[name]}"}
            Table(f"lm-thesis-{name}-{data}", told, own).run(options)
