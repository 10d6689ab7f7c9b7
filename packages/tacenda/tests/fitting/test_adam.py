import numpy as np
import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import Adam


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_equal_those_of_torch(decay, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start = {"W": rng.normal(size=(4, 3)).astype(dtype), "b": rng.normal(size=3).astype(dtype)}
    w = {name: array.copy() for name, array in start.items()}
    t = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in start.items()}
    optimizer = Adam(w, weight_decay={"W": decay, "b": decay})
    peer = torch.optim.Adam(t.values(), lr=0.0, weight_decay=decay)
    for step in range(20):
        rate = 0.1 / (1 + step)
        gradients = {name: rng.normal(size=array.shape).astype(dtype) for name, array in w.items()}
        optimizer.update(gradients, rate)
        peer.param_groups[0]["lr"] = rate
        for name, gradient in gradients.items():
            t[name].grad = torch.tensor(gradient)
        peer.step()
    for name, array in w.items():
        assert array.dtype == dtype
        np.testing.assert_allclose(array, t[name].detach().numpy(), rtol=1e-6, atol=1e-6)


def test_state_put_into_a_new_optimizer_continues_identically():
    rng = np.random.default_rng(0)
    gradients = [{"w": rng.normal(size=5)} for _ in range(6)]
    straight, broken = {"w": np.ones(5)}, {"w": np.ones(5)}
    optimizer = Adam(straight)
    for g in gradients:
        optimizer.update(g, 0.1)
    first, second = Adam(broken), Adam(broken)
    for g in gradients[:3]:
        first.update(g, 0.1)
    second.load_state(first.state())
    for g in gradients[3:]:
        second.update(g, 0.1)
    assert broken["w"].tobytes() == straight["w"].tobytes()


def test_weights_decay_by_name_and_only_those_with_a_gradient():
    w = {name: np.ones(2) for name in "abc"}
    zero = {name: np.zeros(2) for name in "ab"}
    Adam(w, weight_decay={"a": 1.0, "c": 1.0}).update(zero, 0.1)
    np.testing.assert_allclose(w["a"], 0.9)
    for name in "bc":
        np.testing.assert_array_equal(w[name], 1.0)


@pytest.mark.parametrize(
    ("name", "said"), [("v", "'v' has no parameter; there are: w"), ("w", "'w' has shape")]
)
def test_a_gradient_of_no_parameter_or_that_would_broadcast_is_refused(name, said):
    with pytest.raises(ConfigurationError, match=said):
        Adam({"w": np.ones((2, 3))}).update({name: np.ones(3)}, 0.1)
    with pytest.raises(ConfigurationError, match="weight_decay of 'v' has no parameter"):
        Adam({"w": np.zeros(2)}, weight_decay={"v": 0.1})


@pytest.mark.parametrize(
    "parameters",
    [
        {"v": np.ones(3)},
        {"w": np.ones(4)},
        {"w": np.ones(3, np.float32)},
        {"w": np.ones(3), "v": np.ones(3)},
        {},
    ],
)
def test_the_state_of_other_parameters_is_refused(parameters):
    with pytest.raises(ValueError, match=r"mean: (.*names differ|w: it is)"):
        Adam({"w": np.ones(3)}).load_state(Adam(parameters).state() or {"mean/w/x": np.ones(3)})
