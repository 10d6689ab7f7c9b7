"""The backends that ship with tacenda, named by its ``tacenda.kernels`` entry points.

An operation is named by ``"module:function"`` and imported when it is first called, so that loading
a backend costs nothing and one broken operation leaves the others alone.
"""

from importlib.util import find_spec

from tacenda.errors import PluginUnavailableError
from tacenda.kernels.dispatch import API_VERSION, Backend

__all__ = ["cpu", "reference"]  # and triton, see __getattr__

_HERE = "tacenda.kernels"

reference = Backend(
    name="reference",
    api_version=API_VERSION,
    priority=0,
    devices=frozenset({"cpu"}),
    operations={
        "lagged_counts": f"{_HERE}.dynamics.lagged_counts.naive:lagged_counts",
        "sparse_product": f"{_HERE}.shared.sparse_product.naive:multiply",
        "linear_recurrence": f"{_HERE}.dynamics.linear_recurrence.naive:forward",
        "linear_recurrence_backward": f"{_HERE}.dynamics.linear_recurrence.naive:backward",
        "modal_recurrence": f"{_HERE}.dynamics.modal_recurrence.naive:forward",
        "modal_recurrence_backward": f"{_HERE}.dynamics.modal_recurrence.naive:backward",
        "modal_scan": f"{_HERE}.dynamics.modal_recurrence.naive:scan",
        "merge_counts": f"{_HERE}.dynamics.lagged_counts.naive:merge_counts",
        "rating_sgd": f"{_HERE}.ratings.sgd.naive:epoch",
        "rating_scores": f"{_HERE}.ratings.scores.naive:scores",
        "rating_solves": f"{_HERE}.ratings.solves.naive:solve",
        "rating_boltzmann": f"{_HERE}.ratings.boltzmann.naive:divergence",
        "rating_expectations": f"{_HERE}.ratings.boltzmann.naive:expect",
        "tree_softmax": f"{_HERE}.log_bilinear.tree_softmax.naive:forward",
        "tree_softmax_backward": f"{_HERE}.log_bilinear.tree_softmax.naive:backward",
        "tree_softmax_step": f"{_HERE}.log_bilinear.tree_softmax.naive:step",
        "tree_softmax_distribution": f"{_HERE}.log_bilinear.tree_softmax.naive:distribution",
        "context_sum": f"{_HERE}.log_bilinear.context_sum.naive:forward",
        "context_sum_backward": f"{_HERE}.log_bilinear.context_sum.naive:backward",
        "row_steps": f"{_HERE}.shared.row_steps.naive:adagrad",
        "stream_scores": f"{_HERE}.log_bilinear.stream_scores.naive:scores",
        "block_softmax": f"{_HERE}.hidden_markov.block_softmax.naive:forward",
        "block_softmax_backward": f"{_HERE}.hidden_markov.block_softmax.naive:backward",
        "class_softmax": f"{_HERE}.hidden_markov.class_softmax.naive:forward",
        "class_softmax_backward": f"{_HERE}.hidden_markov.class_softmax.naive:backward",
        "hmm_block": f"{_HERE}.hidden_markov.block.naive:forward",
        "hmm_block_backward": f"{_HERE}.hidden_markov.block.naive:backward",
        "hmm_features": f"{_HERE}.hidden_markov.features.naive:forward",
        "hmm_features_backward": f"{_HERE}.hidden_markov.features.naive:backward",
        "streaming_logsumexp": f"{_HERE}.hidden_markov.streaming_logsumexp.naive:forward",
        "streaming_logsumexp_backward": f"{_HERE}.hidden_markov.streaming_logsumexp.naive:backward",
    },
)
"""The specifications themselves: slow, readable, float64."""

cpu = Backend(
    name="cpu",
    api_version=API_VERSION,
    priority=50,
    devices=frozenset({"cpu"}),
    operations={
        "lagged_counts": f"{_HERE}.dynamics.lagged_counts.cpu:lagged_counts",
        "sparse_product": f"{_HERE}.shared.sparse_product.cpu:multiply",
        "linear_recurrence": f"{_HERE}.dynamics.linear_recurrence.cpu:forward",
        "linear_recurrence_backward": f"{_HERE}.dynamics.linear_recurrence.cpu:backward",
        "modal_recurrence": f"{_HERE}.dynamics.modal_recurrence.cpu:forward",
        "modal_recurrence_backward": f"{_HERE}.dynamics.modal_recurrence.cpu:backward",
        "modal_scan": f"{_HERE}.dynamics.modal_recurrence.cpu:scan",
        "merge_counts": f"{_HERE}.dynamics.lagged_counts.cpu:merge_counts",
        "rating_sgd": f"{_HERE}.ratings.sgd.cpu:epoch",
        "rating_scores": f"{_HERE}.ratings.scores.cpu:scores",
        "rating_solves": f"{_HERE}.ratings.solves.cpu:solve",
        "rating_boltzmann": f"{_HERE}.ratings.boltzmann.cpu:divergence",
        "rating_expectations": f"{_HERE}.ratings.boltzmann.cpu:expect",
        "tree_softmax": f"{_HERE}.log_bilinear.tree_softmax.cpu:forward",
        "tree_softmax_backward": f"{_HERE}.log_bilinear.tree_softmax.cpu:backward",
        "tree_softmax_step": f"{_HERE}.log_bilinear.tree_softmax.cpu:step",
        "tree_softmax_distribution": f"{_HERE}.log_bilinear.tree_softmax.cpu:distribution",
        "context_sum": f"{_HERE}.log_bilinear.context_sum.cpu:forward",
        "context_sum_backward": f"{_HERE}.log_bilinear.context_sum.cpu:backward",
        "row_steps": f"{_HERE}.shared.row_steps.cpu:adagrad",
        "stream_scores": f"{_HERE}.log_bilinear.stream_scores.cpu:scores",
        "block_softmax": f"{_HERE}.hidden_markov.block_softmax.cpu:forward",
        "block_softmax_backward": f"{_HERE}.hidden_markov.block_softmax.cpu:backward",
        "class_softmax": f"{_HERE}.hidden_markov.class_softmax.cpu:forward",
        "class_softmax_backward": f"{_HERE}.hidden_markov.class_softmax.cpu:backward",
        "hmm_block": f"{_HERE}.hidden_markov.block.cpu:forward",
        "hmm_block_backward": f"{_HERE}.hidden_markov.block.cpu:backward",
        "hmm_features": f"{_HERE}.hidden_markov.features.cpu:forward",
        "hmm_features_backward": f"{_HERE}.hidden_markov.features.cpu:backward",
        "streaming_logsumexp": f"{_HERE}.hidden_markov.streaming_logsumexp.cpu:forward",
        "streaming_logsumexp_backward": f"{_HERE}.hidden_markov.streaming_logsumexp.cpu:backward",
    },
)
"""numba where the work is an irregular loop, BLAS where it is a product; single-threaded, nogil."""

_triton = Backend(
    name="triton",
    api_version=API_VERSION,
    priority=100,
    devices=frozenset({"cuda"}),
    operations={
        "modal_recurrence": f"{_HERE}.dynamics.modal_recurrence.triton:forward",
        "modal_recurrence_backward": f"{_HERE}.dynamics.modal_recurrence.triton:backward",
        "block_softmax": f"{_HERE}.hidden_markov.block_softmax.triton:forward",
        "block_softmax_backward": f"{_HERE}.hidden_markov.block_softmax.triton:backward",
        "class_softmax": f"{_HERE}.hidden_markov.class_softmax.triton:forward",
        "class_softmax_backward": f"{_HERE}.hidden_markov.class_softmax.triton:backward",
        "hmm_block": f"{_HERE}.hidden_markov.block.triton:forward",
        "hmm_block_backward": f"{_HERE}.hidden_markov.block.triton:backward",
        "streaming_logsumexp": f"{_HERE}.hidden_markov.streaming_logsumexp.triton:forward",
        "streaming_logsumexp_backward": f"{_HERE}.hidden_markov.streaming_logsumexp.triton:backward",
    },
)


def __getattr__(name: str) -> Backend:
    """Give out ``triton`` only where its packages are, so that the registry can say why not."""
    if name != "triton":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [package for package in ("torch", "triton") if find_spec(package) is None]
    if missing:
        raise PluginUnavailableError(
            f"the triton kernels need {' and '.join(missing)}: install tacenda[gpu]"
        )
    return _triton
