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
    optimizer = Adam(weight_decay={"W": decay, "b": decay})
    peer = torch.optim.Adam(t.values(), lr=0.0, weight_decay=decay)
    for step in range(20):
        rate = 0.1 / (1 + step)
        gradients = {name: rng.normal(size=array.shape).astype(dtype) for name, array in w.items()}
        optimizer.update(w, gradients, rate)
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
    optimizer = Adam()
    for g in gradients:
        optimizer.update(straight, g, 0.1)
    first, second = Adam(), Adam()
    for g in gradients[:3]:
        first.update(broken, g, 0.1)
    second.load_state(first.state())
    for g in gradients[3:]:
        second.update(broken, g, 0.1)
    assert broken["w"].tobytes() == straight["w"].tobytes()


def test_weights_decay_by_name_and_only_those_with_a_gradient():
    w = {name: np.ones(2) for name in "abc"}
    zero = {name: np.zeros(2) for name in "ab"}
    Adam(weight_decay={"a": 1.0, "c": 1.0}).update(w, zero, 0.1)
    np.testing.assert_allclose(w["a"], 0.9)
    for name in "bc":
        np.testing.assert_array_equal(w[name], 1.0)


def test_a_gradient_of_no_parameter_is_refused():
    with pytest.raises(ConfigurationError, match="'v' has no parameter; there are: w"):
        Adam().update({"w": np.ones(3)}, {"v": np.ones(3)}, 0.1)


def test_a_gradient_that_would_broadcast_is_refused():
    with pytest.raises(ConfigurationError, match="'w' has shape"):
        Adam().update({"w": np.ones((2, 3))}, {"w": np.ones(3)}, 0.1)


def test_the_means_of_a_scalar_parameter_are_put_back_on_its_device(monkeypatch):
    placed = {}
    saved = Adam()
    saved.update({"scale": np.ones(())}, {"scale": np.ones(())}, 0.1)
    state = saved.state()
    monkeypatch.setattr(
        "tacenda.fitting.trainer.to_device",
        lambda array, device: placed.setdefault(device, []).append(array),
    )
    Adam(device="elsewhere").load_state(state)
    assert (len(placed["elsewhere"]), len(placed["cpu"])) == (2, 1)
