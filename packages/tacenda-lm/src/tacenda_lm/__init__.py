"""Language models: n-grams, models with latent variables, mixtures, and tools to score text with them."""

from typing import TYPE_CHECKING

from tacenda.lazy import attach

if TYPE_CHECKING:
    from tacenda_lm.boltzmann import FRBM, TemporalFRBM
    from tacenda_lm.cache import HasContextVectors, NeuralCache, UnigramCache
    from tacenda_lm.generation import Continuation, Rescored
    from tacenda_lm.hidden_markov.brown import BrownClusters, brown_clusters
    from tacenda_lm.hidden_markov.hmm import HMM
    from tacenda_lm.hidden_markov.model import Posterior
    from tacenda_lm.hidden_markov.settings import VLHMMAdvanced
    from tacenda_lm.hidden_markov.vlhmm import VLHMM
    from tacenda_lm.kenlm_interface import FullScore
    from tacenda_lm.language_model import LanguageModel
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

# fmt: off
__all__ = [
    "FRBM", "HLBL", "HMM", "LBL", "VLHMM", "AdaptiveMixture", "BrownClusters", "Continuation",
    "FullScore", "HLBLAdvanced", "HasContextVectors", "KneserNey", "LBLAdvanced", "LanguageModel",
    "Mixture", "NeuralCache", "Perplexity", "Posterior", "RecurrentLM", "Rescored", "State",
    "StateSpaceLM", "StateSpaceLMAdvanced", "SurprisalTable", "TemporalFRBM", "Tree",
    "UnigramCache", "UnknownWords", "VLHMMAdvanced", "brown_clusters", "build_tree", "read_items",
    "surprisal_table",
]
# fmt: on

# lazy, because spaCy imports this package whenever it looks for factories
__getattr__, __dir__ = attach(
    __name__,
    {
        ".boltzmann": "FRBM TemporalFRBM",
        ".cache": "HasContextVectors NeuralCache UnigramCache",
        ".generation": "Continuation Rescored",
        ".hidden_markov.brown": "BrownClusters brown_clusters",
        ".hidden_markov.hmm": "HMM",
        ".hidden_markov.model": "Posterior",
        ".hidden_markov.settings": "VLHMMAdvanced",
        ".hidden_markov.vlhmm": "VLHMM",
        ".kenlm_interface": "FullScore",
        ".language_model": "LanguageModel",
        ".log_bilinear.hlbl": "HLBL HLBLAdvanced",
        ".log_bilinear.lbl": "LBL LBLAdvanced",
        ".log_bilinear.tree_building": "build_tree",
        ".log_bilinear.trees": "Tree",
        ".mixture": "AdaptiveMixture Mixture",
        ".ngram.kneser_ney": "KneserNey",
        ".perplexity": "Perplexity",
        ".recurrent": "RecurrentLM",
        ".state_space": "StateSpaceLM StateSpaceLMAdvanced",
        ".states": "State",
        ".surprisal.items": "read_items",
        ".surprisal.scoring": "surprisal_table",
        ".surprisal.table": "SurprisalTable",
        ".unknown_words": "UnknownWords",
    },
)
