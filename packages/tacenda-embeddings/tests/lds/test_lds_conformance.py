"""The LDS keeps what every token-embedding model promises."""

from tacenda_embeddings import LDS
from tacenda_embeddings.testing import EmbedderTests

SETTINGS = {"n_states": 5, "subspace_iterations": 4, "full_iterations": 1}


class TestLDS(EmbedderTests):
    def make_model(self):
        return LDS(**SETTINGS)


class TestPapersMean(EmbedderTests):
    """As the paper has it: the smoothed mean, from a filter that starts at zero."""

    def make_model(self):
        return LDS(**SETTINGS, output="mean", advanced={"ends": "zero", "row_norm_power": 0.0})


class TestDiagonalNoise(EmbedderTests):
    def make_model(self):
        return LDS(**SETTINGS, output="own_past_future", advanced={"noise": "diagonal"})
