"""The settings of `VLHMM`, the device that they allow, and the memory that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from tacenda import devices
from tacenda.settings import Group, Settings, group, option
from tacenda_lm import options

Method = Literal["exchange", "predictive", "brown"]
_ON_DEVICES = "two_level", "flat"
_OPERATIONS = "block_softmax", "class_softmax", "hmm_block", "streaming_logsumexp"
_PARAMETER_COPIES = 5  # themselves, gradient, two moments, average
# chosen by the perplexity of held-out text of three sizes
PLAN = options.Plan(tokens_per_type_per_epoch=4, max_epochs=30)
MEMORY_ADVICE = "fewer states_per_class, a smaller width or batch_words, or more state_dropout"


@dataclass(frozen=True, kw_only=True)
class VLHMMAdvanced(Settings):
    """Options of `VLHMM` that few need to change."""

    retired: ClassVar = MappingProxyType({"averaging": ..., "clip_norm": ...})

    word_classes: Method = option(
        "exchange", 'how words are put into classes; "brown" in the paper'
    )
    neural: bool = option(
        True,
        "whether shared networks turn embeddings of the states into distributions; if not, every emission and every "
        "transition between classes that occur next to each other has its own number",
    )
    n_features: int = option(
        64, 'features of a state with transitions="features", f', at_least=1, at_most=1 << 16
    )
    evaluate_every: int = option(
        1,
        "epochs between evaluations of the held-out text; with many states and a lot of dropout, an evaluation costs "
        "half as much as an epoch",
        at_least=1,
    )


@dataclass(frozen=True, kw_only=True)
class VLHMMSettings(options.SeededSettings):
    """Settings of `VLHMM`."""

    n_classes: int = option(
        256,
        "word classes, M, one of them only for ``</s>``; with 1, every state emits every word; 128 in the paper",
        at_least=1,
        at_most=1 << 16,
    )
    states_per_class: int = option(
        64,
        "states of each class, k; the model has M k states; 256 in the paper",
        at_least=1,
        at_most=1 << 16,
    )
    width: int = options.width(64, "elements of an embedding, h; 256 in the paper")
    transitions: Literal["two_level", "flat", "features"] = option(
        "two_level",
        '"two_level": p(class | state) p(state | class, state); "flat": one softmax over all states, as in the paper; '
        '"features": the generalized softmax with a learned positive feature map',
    )
    state_dropout: float = options.dropout(
        0.5, "share of the states of each class that a step leaves out; 0.5 in the paper"
    )
    epochs: int | None = PLAN.option(" (with held-out text, it is 30)")
    learning_rate: float = options.learning_rate(0.07, "Adam", "a fiftieth; 0.01 in the paper")
    patience: int = options.patience(5)
    batch_words: int = option(
        16384,
        "approximate number of words of a step, in whole sentences; lowered for small texts so that an epoch has fifty "
        "steps, but not below 256; 512 in the paper",
        at_least=1,
        at_most=1 << 24,
    )
    threads: int = options.threads()
    device: str = devices.option()
    advanced: Group[VLHMMAdvanced] = group(VLHMMAdvanced)

    def idle(self) -> Mapping[str, str]:
        reasons = {}
        if self.transitions == "features":
            reasons["threads"] = 'with transitions="features"'
        else:
            reasons["advanced.n_features"] = 'without transitions="features"'
        if self.n_classes == 1:
            reasons["advanced.word_classes"] = "with a single class"
        if not self.advanced.neural:
            reasons["transitions"] = "without networks (neural=False), since they have two levels"
            reasons["width"] = "without networks (neural=False), since there are no embeddings"
        return reasons

    @property
    def n_kept(self) -> int:
        """How many states of each class a step keeps."""
        return max(1, round(self.states_per_class * (1 - self.state_dropout)))

    def find_device(self) -> str:
        """Return the device of a fit. Raises ConfigurationError if it does not exist or lacks the kernels."""
        if not self.advanced.neural or self.transitions not in _ON_DEVICES:
            if self.device.startswith("cuda"):
                kinds = " or ".join(_ON_DEVICES)
                self.refuse("device", f'"cpu" unless neural with transitions {kinds}')
            return "cpu"
        backward = [f"{operation}_backward" for operation in _OPERATIONS]
        return devices.resolve(self, [*_OPERATIONS, *backward])

    def bytes_needed(self, n_types: int, words: int, evaluated: int = 0, keys: int = 0) -> int:
        """Estimate the bytes of the parameters and of the largest step.

        ``words`` are the words of a step and ``evaluated`` those of an evaluation of held-out text, which keeps all
        states; both have at most as many pairs of classes. ``keys`` is the number of pairs with free parameters.
        """
        M, k, h, kept = self.n_classes, self.states_per_class, self.width, self.n_kept
        pairs, evaluated = min(words, M * M), min(evaluated, M * M)
        parameters = M * k * h + n_types * h + 6 * h * h  # states, words, three residual networks
        if not self.advanced.neural:
            parameters = keys * k * k + M * k * M + n_types * k
        # blocks and emissions with their counts, and the gradient of the vectors of each pair
        step = pairs * (2 * kept * kept + kept * h) + 2 * n_types * kept
        if self.transitions == "features":  # of both sides, with their gradients, instead of blocks
            step = 4 * M * kept * self.advanced.n_features + 2 * n_types * kept
            evaluated = 0
        if self.transitions == "two_level":  # p(c' | z), with its gradient
            step += 2 * M * M * kept
        return 4 * (_PARAMETER_COPIES * parameters + max(step, evaluated * k * k))
