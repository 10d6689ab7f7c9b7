"""The LDS keeps what every token-embedding model promises."""

import pytest

from tacenda_embeddings import LDS
from tacenda_embeddings.testing import check_embedder

OPTIONS = {
    "as by default": {},
    # as in the paper: the smoothed mean, from a filter that starts at zero
    "the paper's mean": {"output": "mean", "advanced": {"ends": "zero", "row_norm_power": 0.0}},
    "diagonal noise": {"output": "own_past_future", "advanced": {"noise": "diagonal"}},
    "spherical noise": {"output": "filtered", "advanced": {"noise": "spherical"}},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_lds_is_a_sound_embedder(options):
    check_embedder(lambda: LDS(n_states=5, subspace_iterations=4, full_iterations=1, **options))
