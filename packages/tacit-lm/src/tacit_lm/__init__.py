"""Language models with latent variables, the n-gram models beside them, and what people score text with."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit_lm.generation import Continuation
    from tacit_lm.hidden_markov.brown_clusters import BrownClusters, brown_clusters
    from tacit_lm.hidden_markov.config import HMMConfig, VLHMMConfig
    from tacit_lm.hidden_markov.decoding import Posterior
    from tacit_lm.hidden_markov.hmm import HMM
    from tacit_lm.hidden_markov.vlhmm import VLHMM
    from tacit_lm.kenlm_interface import FullScore
    from tacit_lm.language_model import LanguageModel
    from tacit_lm.log_bilinear.config import HLBLConfig, LBLConfig
    from tacit_lm.log_bilinear.hlbl import HLBL
    from tacit_lm.log_bilinear.lbl import LBL
    from tacit_lm.log_bilinear.tree_building import build_tree
    from tacit_lm.log_bilinear.trees import Tree
    from tacit_lm.mixture import Mixture
    from tacit_lm.ngram.config import KneserNeyConfig
    from tacit_lm.ngram.kneser_ney import KneserNey
    from tacit_lm.perplexity import Perplexity
    from tacit_lm.rescoring import Rescored
    from tacit_lm.state import State

__version__ = "0.1.0"

__all__ = [
    "HLBL",
    "HMM",
    "LBL",
    "VLHMM",
    "BrownClusters",
    "Continuation",
    "FullScore",
    "HLBLConfig",
    "HMMConfig",
    "KneserNey",
    "KneserNeyConfig",
    "LBLConfig",
    "LanguageModel",
    "Mixture",
    "Perplexity",
    "Posterior",
    "Rescored",
    "State",
    "Tree",
    "VLHMMConfig",
    "brown_clusters",
    "build_tree",
]

_HOMES = {
    "BrownClusters": "tacit_lm.hidden_markov.brown_clusters",
    "brown_clusters": "tacit_lm.hidden_markov.brown_clusters",
    "HLBL": "tacit_lm.log_bilinear.hlbl",
    "HLBLConfig": "tacit_lm.log_bilinear.config",
    "LBL": "tacit_lm.log_bilinear.lbl",
    "LBLConfig": "tacit_lm.log_bilinear.config",
    "Posterior": "tacit_lm.hidden_markov.decoding",
    "Tree": "tacit_lm.log_bilinear.trees",
    "HMM": "tacit_lm.hidden_markov.hmm",
    "HMMConfig": "tacit_lm.hidden_markov.config",
    "VLHMM": "tacit_lm.hidden_markov.vlhmm",
    "VLHMMConfig": "tacit_lm.hidden_markov.config",
    "build_tree": "tacit_lm.log_bilinear.tree_building",
    "Continuation": "tacit_lm.generation",
    "FullScore": "tacit_lm.kenlm_interface",
    "KneserNey": "tacit_lm.ngram.kneser_ney",
    "KneserNeyConfig": "tacit_lm.ngram.config",
    "LanguageModel": "tacit_lm.language_model",
    "Mixture": "tacit_lm.mixture",
    "Perplexity": "tacit_lm.perplexity",
    "Rescored": "tacit_lm.rescoring",
    "State": "tacit_lm.state",
}


def __getattr__(name: str) -> Any:
    # Lazy, because spaCy imports this package whenever it looks for factories.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
