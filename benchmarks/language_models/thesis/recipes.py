"""The models of the studies, as what tells them apart, and how much of each study is done on each data set.

The same recipe in two studies is one fit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tacenda_lm.boltzmann import FRBMSettings, TemporalFRBMSettings
from tacenda_lm.log_bilinear.hlbl import HLBLAdvanced, HLBLSettings
from tacenda_lm.log_bilinear.lbl import LBLSettings
from tacenda_lm.log_bilinear.trees import Rule

WIDTH, CONTEXT = 100, 5


@dataclass(frozen=True)
class NGrams:
    """n-grams; the back-off forms list what occurs twice, as SRILM does from three words on."""

    order: int
    smoothing: Literal["interpolated", "backoff", "good_turing"] = "interpolated"
    without: int | None = None

    @property
    def name(self) -> str:
        kind = {"interpolated": "KN", "backoff": "back-off KN", "good_turing": "back-off GT"}
        return f"{kind[self.smoothing]}{self.order}"


@dataclass(frozen=True)
class Flat:
    """An LBL with full context matrices, as in chapter 3."""

    context: int = CONTEXT
    loss: Literal["softmax", "nce"] = "nce"
    epochs: int = 6

    @property
    def name(self) -> str:
        return "LBL" if self.context == CONTEXT else f"LBL, {self.context} words"

    @property
    def settings(self) -> LBLSettings:
        return LBLSettings(
            width=WIDTH, context=self.context, loss=self.loss, epochs=self.epochs, dropout=0.2,
            across_sentences=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A tree: one for each seed, joined; a seed twice is the same subtree twice."""

    rule: Rule
    overlap: float = 0.0
    seeds: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        rule = {"noisy": "NOISY-ADAPTIVE"}.get(self.rule, self.rule.upper())
        kind = f"{rule}({self.overlap:g})" if self.overlap else rule
        return kind if len(self.seeds) == 1 else f"{kind} x {len(self.seeds)}"


@dataclass(frozen=True)
class Hierarchical:
    """An HLBL of the thesis on a given tree.

    Attributes
    ----------
    without
        The eighth of the training text that is left out.
    across
        Whether the context goes on over the ends of sentences.
    """

    tree: Shape
    width: int = WIDTH
    context: int = CONTEXT
    across: bool = False
    without: int | None = None
    epochs: int = 3
    dropout: float = 0.2

    @property
    def name(self) -> str:
        longer = ", longer" if self.epochs > 3 else ""
        return f"HLBL, {self.tree.name}{longer}"

    @property
    def settings(self) -> HLBLSettings:
        clustering: dict[str, Any] = {}
        if self.tree.rule != "random":
            clustering = {"overlap": self.tree.overlap, "frequency_power": 0.0}
        advanced = HLBLAdvanced(tail_rates=(), **clustering)
        return HLBLSettings(
            width=self.width, context=self.context, tree=self.tree.rule,
            copies=len(self.tree.seeds), dropout=self.dropout, epochs=self.epochs,
            across_sentences=self.across, advanced=advanced,
        )  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A factored restricted Boltzmann machine, on the running text.

    Attributes
    ----------
    temporal
        Whether its hidden units remember; training then begins with the plain machine of the same recipe.
    learning
        By likelihood, or by contrastive divergence with words that are drawn, or all there in part.
    hidden, epochs, rate
        Hidden units, passes over the text at most, and the learning rate.
    begin
        Epochs of the plain machine that a temporal one begins with.
    """

    temporal: bool = False
    learning: Literal["likelihood", "drawn", "mean field"] = "likelihood"
    hidden: int = 100
    epochs: int = 8
    rate: float = 0.2
    begin: int = 0

    @property
    def name(self) -> str:
        kind = "temporal FRBM" if self.temporal else "FRBM"
        return kind if self.learning == "likelihood" else f"{kind} by CD, {self.learning}"

    @property
    def plain(self) -> Machine:
        """The machine that a temporal one begins with."""
        return replace(self, temporal=False, epochs=self.begin, begin=0)

    @property
    def settings(self) -> FRBMSettings | TemporalFRBMSettings:
        shared: dict[str, Any] = {
            "features": WIDTH, "hidden": self.hidden, "epochs": self.epochs,
            "learning_rate": self.rate,
        }  # fmt: skip
        if self.learning != "likelihood":
            shared["learning"] = "divergence" if self.learning == "drawn" else "mean_field"
        if not self.temporal:
            return FRBMSettings(**shared)
        piece = {} if self.learning == "likelihood" else {"piece_words": 1}
        return TemporalFRBMSettings(**shared, **piece, frbm_epochs=0)


Recipe = NGrams | Flat | Hierarchical | Machine

EXACT_EPOCHS = 4
"""An epoch of exact likelihood is worth more than one of noise-contrastive estimation, and costs more."""
OVERLAP = 0.4
RANDOM, BALANCED, ADAPTIVE = Shape("random"), Shape("balanced"), Shape("adaptive")
LIGHT, BEST_SINGLE = Shape("adaptive", 0.25), Shape("adaptive", OVERLAP)
DOUBLE = Shape("adaptive", OVERLAP, (0, 1))
BEST = Shape("adaptive", OVERLAP, (0, 1, 2, 3))
LONGER = Hierarchical(BEST, epochs=9, dropout=0.5)
"""What the thesis's best model is worth if it is regularised by more than stopping early."""
TREES = (RANDOM, BALANCED, ADAPTIVE, LIGHT, BEST_SINGLE, DOUBLE, BEST)

MACHINES = (
    Machine(epochs=8),
    Machine(True, epochs=6, begin=8),
    Machine(learning="drawn", epochs=8),
    Machine(True, "drawn", epochs=6, begin=8),
    Machine(learning="mean field", epochs=8),
)
# Where text and vocabulary are larger an epoch by likelihood costs far more: half as many.
FEW_EPOCHS = (Machine(epochs=4), Machine(True, epochs=3, begin=4))

SETTINGS = {
    "HLBL": f"{WIDTH} features, a context of {CONTEXT} words with diagonal weights, no tails, trees clustered with "
    "equal weights of words by the vectors of the model on the RANDOM tree; dropout 0.2, at most 3 epochs, "
    "learning rate 0.1 falling along a cosine, the best epoch by the validation text",
    "LBL": f"{WIDTH} features, tied, full context matrices, dropout 0.2, otherwise the defaults; by NCE with 100 words "
    "of noise, at most 6 epochs, or exact, at most 4; perplexities are normalised exactly in any case",
    "FRBM": f"{WIDTH} features, two words of context, running text; by likelihood, or by contrastive divergence (CD) "
    "with a word drawn given the hidden units, or, as the thesis's FRBM, the probabilities of all words (mean field); "
    "AdaGrad, rates chosen on the beginning of the training text; a temporal FRBM begins with the FRBM of the same way "
    "of learning; the best epoch by the validation text",
    "KN": "interpolated modified Kneser-Ney, all n-grams listed; back-off forms list those that occur twice",
    "seeds": "one fit each, seed 0, unless said otherwise",
}


def facts_of(recipe: Recipe, data: str) -> dict[str, Any]:
    """Return what a fit depends on: the recipe, the settings with their defaults, and the text."""
    facts: dict[str, Any] = {"data": data, "kind": type(recipe).__name__, **asdict(recipe)}
    settings = {} if isinstance(recipe, NGrams) else recipe.settings.to_dict()
    return {**facts, "settings": settings}


@dataclass(frozen=True)
class Plan:
    """What costs time.

    Attributes
    ----------
    flat
        Contexts of the LBL by NCE.
    exact
        Those by exact likelihood.
    repeats
        Overcomplete random trees: copies -> how many different ones.
    widths
        Of Table 4.2.
    copies, replicas
        Of Table 4.6: subtrees in a tree, and how many trees of equal subtrees.
    windows
        Contexts of Table 4.7.
    across
        Those also with contexts over the ends of sentences.
    windows_tree, eighths_tree
        The trees of Tables 4.7, and of 4.8 and 4.9.
    longer
        Whether the best tree is also trained for longer.
    machines
        The restricted Boltzmann machines of Table 3.1.
    """

    flat: tuple[int, ...]
    exact: tuple[int, ...]
    repeats: dict[int, int]
    widths: tuple[int, ...]
    copies: int
    replicas: int
    windows: tuple[int, ...]
    across: tuple[int, ...]
    windows_tree: Shape
    eighths_tree: Shape
    longer: bool
    machines: tuple[Machine, ...]


PLANS: dict[str, Plan] = {
    "ptb": Plan(
        flat=(2, 5, 10),
        exact=(5,),
        repeats={1: 4, 2: 2, 4: 2},
        widths=(25, 50, 75, 100),
        copies=4,
        replicas=1,
        windows=(1, 2, 3, 5, 10, 20),
        across=(5, 20),
        windows_tree=DOUBLE,
        eighths_tree=DOUBLE,
        longer=True,
        machines=MACHINES,
    ),
    "wikitext-2": Plan(
        flat=(5,),
        exact=(),
        repeats={1: 2, 2: 1, 4: 1},
        widths=(25, 50, 100),
        copies=2,
        replicas=1,
        windows=(2, 5, 10),
        across=(),
        windows_tree=DOUBLE,
        eighths_tree=BEST_SINGLE,
        longer=False,
        machines=FEW_EPOCHS,
    ),
}
