"""The operations of Tacenda and the backends that ship with it, named by its ``tacenda.kernels`` entry points.

A backend names its functions by ``"module:function"`` and imports each when it is first called, so that loading a
backend costs nothing and one broken operation leaves the others alone.
"""

from importlib.util import find_spec

from tacenda.errors import PluginUnavailableError
from tacenda.kernels.dispatch import API_VERSION, Backend

OPERATIONS = {
    "lagged_counts": "dynamics.lagged_counts:lagged_counts",
    "merge_counts": "dynamics.lagged_counts:merge_counts",
    "linear_recurrence": "dynamics.linear_recurrence:forward",
    "modal_scan": "dynamics.modal_recurrence:scan",
    "context_sum": "log_bilinear.context_sum:forward",
    "context_sum_backward": "log_bilinear.context_sum:backward",
    "stream_scores": "log_bilinear.stream_scores:scores",
    "tree_softmax": "log_bilinear.tree_softmax:forward",
    "tree_softmax_step": "log_bilinear.tree_softmax:step",
    "tree_softmax_backward": "log_bilinear.tree_softmax:backward",
    "tree_softmax_distribution": "log_bilinear.tree_softmax:distribution",
    "hmm_block": "hidden_markov.block:forward",
    "hmm_block_backward": "hidden_markov.block:backward",
    "hmm_features": "hidden_markov.features:forward",
    "hmm_features_backward": "hidden_markov.features:backward",
    "block_softmax": "hidden_markov.block_softmax:forward",
    "block_softmax_backward": "hidden_markov.block_softmax:backward",
    "class_softmax": "hidden_markov.class_softmax:forward",
    "class_softmax_backward": "hidden_markov.class_softmax:backward",
    "streaming_logsumexp": "hidden_markov.streaming_logsumexp:forward",
    "streaming_logsumexp_backward": "hidden_markov.streaming_logsumexp:backward",
    "rating_sgd": "ratings.sgd:epoch",
    "rating_visits": "ratings.visits:visit",
    "rating_scores": "ratings.scores:scores",
    "rating_solves": "ratings.solves:solve",
    "boltzmann_divergence": "ratings.boltzmann:divergence",
    "boltzmann_descent": "ratings.boltzmann:descend",
    "boltzmann_expectations": "ratings.boltzmann:expect",
    "hidden_sums": "boltzmann.hidden_sums:log_sums",
    "row_steps": "shared.row_steps:adagrad",
    "adam_steps": "shared.adam_steps:step",
    "sparse_product": "shared.sparse_product:multiply",
    "tall_gram": "shared.tall_matrices:gram",
    "tall_product": "shared.tall_matrices:multiply",
    "tall_update": "shared.tall_matrices:subtract_along",
    "tall_moments": "shared.tall_matrices:moments",
    "tall_columns": "shared.tall_matrices:multiply_columns",
    "unit_rows": "shared.tall_matrices:normalize",
}
"""Operation -> ``"wing.folder:function"``. The folder itself has the public function of this name; its ``naive.py`` has
the specification, ``cpu.py``, ``torch.py`` and ``triton.py`` have the fast ones."""

_IN_TRITON = (
    *(
        f"{name}{end}"
        for name in ("hmm_block", "block_softmax", "class_softmax")
        for end in ("", "_backward")
    ),
    "streaming_logsumexp",
    "streaming_logsumexp_backward",
    "context_sum",
    "context_sum_backward",
    "modal_scan",
    "rating_visits",
    "rating_scores",
    "boltzmann_divergence",
    "boltzmann_expectations",
    "sparse_product",
    "row_steps",
    "adam_steps",
    "tree_softmax",
    "tree_softmax_step",
    "tree_softmax_backward",
)
_IN_TORCH = (
    "linear_recurrence",
    "rating_solves",
    "tall_gram",
    "tall_product",
    "tall_update",
    "tall_moments",
    "tall_columns",
    "unit_rows",
)


def _functions(file: str, operations: tuple[str, ...] = tuple(OPERATIONS)) -> dict[str, str]:
    """Operation -> where the function of that file is, for `Backend`."""
    places = {operation: OPERATIONS[operation].split(":") for operation in operations}
    return {
        operation: f"tacenda.kernels.{folder}.{file}:{function}"
        for operation, (folder, function) in places.items()
    }


reference = Backend("reference", API_VERSION, priority=0, operations=_functions("naive"))
"""The specifications themselves: slow, readable, float64."""

cpu = Backend("cpu", API_VERSION, priority=50, operations=_functions("cpu"))
"""numba where the work is an irregular loop, BLAS where it is a product; on one thread unless told, without the GIL."""

_CUDA = frozenset({"cuda"})
OF_CUDA = {
    "torch": Backend("torch", API_VERSION, 90, _functions("torch", _IN_TORCH), _CUDA),
    "triton": Backend("triton", API_VERSION, 100, _functions("triton", _IN_TRITON), _CUDA),
}
"""By name: an operation is plain torch where that is near what the device can do, else Triton. A backend
whose packages are missing is here too, though `plugins` has it as unavailable."""


def __getattr__(name: str) -> Backend:
    """Give out ``torch`` and ``triton`` only where their packages are, so that the registry can say why not."""
    if name not in OF_CUDA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [package for package in dict.fromkeys(("torch", name)) if find_spec(package) is None]
    if missing:
        raise PluginUnavailableError(
            f"the {name} kernels need {' and '.join(missing)}: install tacenda[gpu]"
        )
    return OF_CUDA[name]
