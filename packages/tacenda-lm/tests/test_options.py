"""Options that do not go together are refused by name. Bounds of single ones: tests/test_every_option.py."""

import pytest

import tacenda_lm as lm
from tacenda.errors import ConfigurationError
from tacenda_lm.hidden_markov import settings as vlhmm
from tacenda_lm.log_bilinear import hlbl

REFUSED = [
    (lm.VLHMM, {"advanced": {"n_features": 5}}, "n_features has no effect"),
    (lm.VLHMM, {"transitions": "features", "threads": 2}, "threads has no effect with transitions"),
    (lm.VLHMM, {"n_classes": 1, "advanced": {"word_classes": "brown"}}, "word_classes has no effect"),
    (lm.VLHMM, {"advanced": {"neural": False}, "width": 5}, "has no effect"),
    (lm.VLHMM, {"transitions": "flat", "advanced": {"neural": False}}, "transitions has no effect"),
    (lm.HLBL, {"tree": "random", "advanced": {"frequency_power": 0.0}}, "frequency_power has no"),
    (lm.HLBL, {"tree": "balanced", "advanced": {"overlap": 0.2}}, "overlap has no effect"),
    (lm.LBL, {"advanced": {"noise_words": 7}}, r"advanced\.noise_words has no effect"),
    (lm.FRBM, {"advanced": {"visible": "mean_field"}}, "no longer has the option advanced"),
    (lm.FRBM, {"gibbs_steps": 2}, "gibbs_steps has no effect"),
    (lm.TemporalFRBM, {"batch_words": 5, "piece_words": 6}, "piece_words must be at most"),
    (lm.TemporalFRBM, {"hiden": 5}, "did you mean 'hidden'"),
    (lm.StateSpaceLM, {"order": 1, "internal": 0}, "the state is empty"),
    (lm.StateSpaceLM, {"order": 1, "features": 3}, "features has no effect"),
    (lm.StateSpaceLM, {"training": "rules", "advanced": {"joint_order": 2}}, "learn no vectors of runs"),
    (lm.StateSpaceLM, {"training": "rules", "dropout": 0.3}, "dropout has no effect"),
    (lm.StateSpaceLM, {"advanced": {"norm_limit": 3.0}}, "norm_limit has no effect"),
    (lm.StateSpaceLM, {"advanced": {"joint_width": 3}}, "joint_width has no effect"),
    (lm.StateSpaceLM, {"internal": 0, "inference": "map"}, "inference has no effect without an"),
    (lm.StateSpaceLM, {"internal": 0, "advanced": {"variance": 5.0}}, "variance has no effect without"),
    (lm.HMM, {"device": "cuda"}, "has no option 'device'"),
    (lm.KneserNey, {"n": 3}, "has no option 'n'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "said"), REFUSED, ids=str)
def test_options_that_do_not_go_together_are_refused(kind, options, said):
    with pytest.raises(ConfigurationError, match=f"^{kind.__name__}.*{said}"):
        kind(**options)


@pytest.mark.parametrize(
    ("model", "n_tokens", "n_types", "epochs"),
    [
        (hlbl, 887_521, 10_000, 13), (hlbl, 100_000, 12_310, 2), (hlbl, 300_000, 20_002, 3),
        (hlbl, 26_000_000, 40_002, 13), (hlbl, 5, 9, 1),
        (vlhmm, 99_898, 5_943, 5), (vlhmm, 299_988, 12_219, 7), (vlhmm, 899_785, 20_002, 12),
        (vlhmm, 26_000_000, 40_002, 30),
    ],
)  # fmt: skip
def test_epochs_are_planned_by_the_tokens_that_a_word_has(model, n_tokens, n_types, epochs):
    """Thirteen of an HLBL for Penn Treebank, and as many as were best on mixed prose of two sizes."""
    assert model.PLAN.epochs(n_tokens, n_types) == epochs


@pytest.mark.parametrize(
    ("kind", "former", "settings"),
    [
        (lm.FRBM, {"visible": "mean_field", "gibbs_steps": 3}, {"learning": "mean_field", "gibbs_steps": 3}),
        (lm.TemporalFRBM, {"visible": "stochastic", "drawn_words": 9}, {"learning": "divergence"}),
        (lm.RecurrentLM, {"averaging": 0.0, "clip_norm": 5.0}, {"learning": "divergence", "averaging": 0.0}),
    ],
)  # fmt: skip
def test_a_saved_model_keeps_options_of_a_group_that_is_gone(kind, former, settings):
    saved = {"learning": "divergence", "advanced": former}
    assert kind.settings_class.without_retired(saved) == settings
