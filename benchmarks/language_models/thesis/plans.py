"""How much of each study is done on each data set: all of it on the smaller one."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.language_models.thesis import recipes
from benchmarks.language_models.thesis.recipes import Machine, Shape


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
    contexts
        The beginnings of Tables 3.7 to 3.9, written for this.
    asked
        Words whose neighbours are looked for.
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
    contexts: tuple[str, ...]
    asked: tuple[str, ...]
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
        windows_tree=recipes.DOUBLE,
        eighths_tree=recipes.DOUBLE,
        longer=True,
        contexts=(
            "he went to work for general",
            "its price rose on the new york stock",
            "the lawyers will appeal to the supreme",
        ),
        asked=("monday", "million", "chairman", "japan", "rose", "his", "bank", "very"),
        machines=recipes.MACHINES,
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
        windows_tree=recipes.DOUBLE,
        eighths_tree=recipes.BEST_SINGLE,
        longer=False,
        contexts=(
            "he was born in the United",
            "they lost the second World",
            "she sang it with a rolling",
        ),
        asked=("Monday", "million", "king", "Japan", "won", "his", "river", "very"),
        machines=recipes.FEW_EPOCHS,
    ),
}
