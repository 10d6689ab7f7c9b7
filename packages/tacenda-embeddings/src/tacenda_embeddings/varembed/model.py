"""`VarEmbed`: word vectors with a morphological prior (Bhatia, Guthrie and Eisenstein, EMNLP 2016).

    b_w ~ Bernoulli(sigma(sum of u_m over the morphemes m of w))     (eq 1)
    x_{t+1} ~ softmax(V h_t),   h_t = LSTM(b_{x_t}, h_{t-1})          (eqs 6-7)

Binary word vectors b are latent. Their posterior is approximated by independent Bernoullis, whose logits are
the word vectors; words that are rare stay near their prior, and a word never seen has its prior's logits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.varembed.base import Float32, MorphologicalEmbedder
from tacenda_embeddings.varembed.bernoulli import divergence, entropy, sigmoid
from tacenda_embeddings.varembed.config import Output, SumEmbedConfig, VarEmbedConfig

__all__ = ["SumEmbed", "VarEmbed"]


class VarEmbed(MorphologicalEmbedder[VarEmbedConfig]):
    """Word vectors with a morphological prior, for words seen and unseen.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `VarEmbedConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.

    Examples
    --------
    >>> model = VarEmbed(width=128).fit(corpus)
    >>> [vectors] = model.transform([["An", "unbefriended", "word"]])
    >>> vectors.shape
    (3, 128)
    >>> model.pieces("unbefriended")
    ('▁un', 'be', 'friend', 'ed')
    """

    name: ClassVar[str] = "varembed"
    settings = VarEmbedConfig

    def entropy(self, words: Iterable[str], *, prior: bool = False) -> Float32:
        """Uncertainty about every dimension of the words, in bits: 0 is certain, 1 knows nothing.

        Parameters
        ----------
        words
            Any strings.
        prior
            Of the prior, even where there is a posterior.

        Returns
        -------
        float32 (words, width): entropies of the posterior Bernoullis, of the prior's for unseen words.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        """
        return np.asarray(entropy(self._raw(list(words), prior)), np.float32)

    def divergence(self) -> npt.NDArray[np.float32]:
        """How far each word of the vocabulary has moved from its prior: KL in nats, float32 (types,) (eq 22)."""
        state = self._fitted()
        return np.asarray(divergence(state.words, state.prior).sum(1), np.float32)

    def with_output(self, output: Output) -> VarEmbed:
        """The same fitted model returning another output; copies nothing. Raises ConfigurationError."""
        other = VarEmbed(self.config, output=output)
        other._state, other.figures, other.fitted_on = self._state, self.figures, self.fitted_on
        return other

    def _shown(self, raw: Float32, output: str | None = None) -> Float32:
        output = output or self.config.output
        if output == "probabilities":
            return np.asarray(sigmoid(raw), np.float32)
        return raw - self._fitted().morphemes[0] if output == "log_odds" else raw

    def vectors(
        self, words: Iterable[str], *, prior: bool = False, output: str | None = None
    ) -> Float32:
        """One vector for every word, (words, width) float32.

        Parameters
        ----------
        words
            Any strings.
        prior
            Made from the morphemes even where the word was seen (the paper's "morphemes only").
        output
            Another output than ``config.output``.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        ConfigurationError
            ``output`` is unknown.
        """
        if output is not None:
            output = VarEmbedConfig(output=output).output  # type: ignore[arg-type]
        return self._shown(self._raw(list(words), prior), output)


class SumEmbed(MorphologicalEmbedder[SumEmbedConfig]):
    """The baseline: a word's vector is the sum of one of its own and its morphemes' (eq 24).

    After Botha and Blunsom (2014), with the network of `VarEmbed`. A word never seen has the sum of its
    morphemes.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `SumEmbedConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.
    """

    name: ClassVar[str] = "sumembed"
    settings = SumEmbedConfig

    def _shown(self, raw: Float32) -> Float32:
        return raw
