"""Language models: n-grams, models with latent variables, mixtures, and tools to score text with them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda_lm.boltzmann import FRBM, TemporalFRBM
    from tacenda_lm.cache import HasContextVectors, NeuralCache, UnigramCache
    from tacenda_lm.generation import Continuation
    from tacenda_lm.hidden_markov.brown import BrownClusters, brown_clusters
    from tacenda_lm.hidden_markov.hmm import HMM
    from tacenda_lm.hidden_markov.settings import VLHMMAdvanced
    from tacenda_lm.hidden_markov.vlhmm import VLHMM, Posterior
    from tacenda_lm.kenlm_interface import FullScore
    from tacenda_lm.language_model import LanguageModel, Rescored
    from tacenda_lm.log_bilinear.hlbl import HLBL, HLBLAdvanced
    from tacenda_lm.log_bilinear.lbl import LBL, LBLAdvanced
    from tacenda_lm.log_bilinear.tree_building import build_tree
    from tacenda_lm.log_bilinear.trees import Tree
    from tacenda_lm.mixture import AdaptiveMixture, Mixture
    from tacenda_lm.ngram.kneser_ney import KneserNey
    from tacenda_lm.perplexity import Perplexity
    from tacenda_lm.recurrent import RecurrentLM
    from tacenda_lm.state_space import StateSpaceLM, StateSpaceLMAdvanced
    from tacenda_lm.states import State
    from tacenda_lm.surprisal.items import read_items
    from tacenda_lm.surprisal.scoring import surprisal_table
    from tacenda_lm.surprisal.table import SurprisalTable
    from tacenda_lm.unknown_words import UnknownWords

__version__ = "0.1.0"

__all__ = [
    "FRBM",
    "HLBL",
    "HMM",
    "LBL",
    "VLHMM",
    "AdaptiveMixture",
    "BrownClusters",
    "Continuation",
    "FullScore",
    "HLBLAdvanced",
    "HasContextVectors",
    "KneserNey",
    "LBLAdvanced",
    "LanguageModel",
    "Mixture",
    "NeuralCache",
    "Perplexity",
    "Posterior",
    "RecurrentLM",
    "Rescored",
    "State",
    "StateSpaceLM",
    "StateSpaceLMAdvanced",
    "SurprisalTable",
    "TemporalFRBM",
    "Tree",
    "UnigramCache",
    "UnknownWords",
    "VLHMMAdvanced",
    "brown_clusters",
    "build_tree",
    "read_items",
    "surprisal_table",
]

_HOMES = {
    "AdaptiveMixture": "tacenda_lm.mixture",
    "BrownClusters": "tacenda_lm.hidden_markov.brown",
    "brown_clusters": "tacenda_lm.hidden_markov.brown",
    "FRBM": "tacenda_lm.boltzmann",
    "TemporalFRBM": "tacenda_lm.boltzmann",
    "HLBL": "tacenda_lm.log_bilinear.hlbl",
    "HLBLAdvanced": "tacenda_lm.log_bilinear.hlbl",
    "HasContextVectors": "tacenda_lm.cache",
    "LBL": "tacenda_lm.log_bilinear.lbl",
    "LBLAdvanced": "tacenda_lm.log_bilinear.lbl",
    "Posterior": "tacenda_lm.hidden_markov.vlhmm",
    "Tree": "tacenda_lm.log_bilinear.trees",
    "HMM": "tacenda_lm.hidden_markov.hmm",
    "VLHMM": "tacenda_lm.hidden_markov.vlhmm",
    "VLHMMAdvanced": "tacenda_lm.hidden_markov.settings",
    "UnigramCache": "tacenda_lm.cache",
    "build_tree": "tacenda_lm.log_bilinear.tree_building",
    "Continuation": "tacenda_lm.generation",
    "FullScore": "tacenda_lm.kenlm_interface",
    "KneserNey": "tacenda_lm.ngram.kneser_ney",
    "LanguageModel": "tacenda_lm.language_model",
    "Mixture": "tacenda_lm.mixture",
    "NeuralCache": "tacenda_lm.cache",
    "Perplexity": "tacenda_lm.perplexity",
    "RecurrentLM": "tacenda_lm.recurrent",
    "Rescored": "tacenda_lm.language_model",
    "State": "tacenda_lm.states",
    "StateSpaceLMAdvanced": "tacenda_lm.state_space",
    "StateSpaceLM": "tacenda_lm.state_space",
    "SurprisalTable": "tacenda_lm.surprisal.table",
    "UnknownWords": "tacenda_lm.unknown_words",
    "read_items": "tacenda_lm.surprisal.items",
    "surprisal_table": "tacenda_lm.surprisal.scoring",
}


def __getattr__(name: str) -> Any:
    # Lazy, because spaCy imports this package whenever it looks for factories.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
