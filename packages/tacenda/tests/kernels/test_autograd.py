"""The kernels' gradients as torch sees them."""

import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.dynamics import linear_recurrence, modal_recurrence
from tacenda.kernels.dynamics.linear_recurrence import cpu

torch = pytest.importorskip("torch")

from tacenda.kernels.machinery import autograd  # noqa: E402 - it imports torch

OFFSETS = [0, 3, 3, 4, 9]


def tensors(operation, dtype=torch.float64, device="cpu"):
    """F or real and complex; u; initial."""
    generator = torch.Generator().manual_seed(0)
    first = [(4, 4)] if operation == "linear_recurrence" else [(2,), (1, 2)]
    shapes = [*first, (9, 4), (4, 4)]
    made = [0.4 * torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return [tensor.to(device).requires_grad_() for tensor in made]


def run(operation, *given, offsets=OFFSETS, **options):
    *first, initial = given
    return getattr(autograd, operation)(*first, offsets, initial, **options)


both = pytest.mark.parametrize("operation", ["linear_recurrence", "modal_recurrence"])


@both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_gradients_are_finite_differences(operation, reverse, backend):
    with kernels.use(backend):
        assert torch.autograd.gradcheck(
            lambda *given: run(operation, *given, reverse=reverse), tensors(operation)
        )
        *first, _ = tensors(operation)
        assert torch.autograd.gradcheck(
            lambda *given: run(operation, *given, None, reverse=reverse), first
        )


@both
def test_the_result_is_the_kernel_s(operation):
    *matrices, u, initial = tensors(operation, torch.float32)
    found = run(operation, *matrices, u, initial, offsets=torch.tensor(OFFSETS))
    forward = {"linear_recurrence": linear_recurrence, "modal_recurrence": modal_recurrence}
    arrays = [tensor.detach().numpy() for tensor in (*matrices, u, initial)]
    expected = forward[operation].forward(*arrays[:-1], np.array(OFFSETS), arrays[-1])
    np.testing.assert_array_equal(found.detach().numpy(), expected)
    assert found.requires_grad


@both
def test_every_parameter_gets_a_gradient_of_its_own_kind(operation):
    *matrices, u, initial = tensors(operation, torch.float32)
    matrices[0] = matrices[0].detach().double().requires_grad_()
    run(operation, *matrices, u, initial).sum().backward()  # an expanded gradient, stride 0
    for tensor in (*matrices, u, initial):
        assert tensor.grad.shape == tensor.shape
        assert tensor.grad.dtype == tensor.dtype


@both
def test_no_token_gives_no_gradient(operation):
    *matrices, u, initial = tensors(operation)
    u, initial = u[:0].detach().requires_grad_(), initial[:1].detach().requires_grad_()
    run(operation, *matrices, u, initial, offsets=[0, 0]).sum().backward()
    assert u.grad.shape == (0, 4)
    assert not matrices[0].grad.any()
    assert not initial.grad.any()


def test_the_backend_chosen_around_the_forward_call_serves_the_backward_call(monkeypatch):
    def broken(*_):
        raise AssertionError("the wrong backend")

    given = tensors("linear_recurrence")
    with kernels.use("reference"):
        states = run("linear_recurrence", *given)
    monkeypatch.setattr(cpu, "backward", broken)
    monkeypatch.setattr("tacenda.kernels.dispatch._imported", {})
    monkeypatch.setattr("tacenda.kernels.dispatch._resolved", {})
    states.sum().backward()
    with pytest.raises(AssertionError, match="the wrong backend"):
        run("linear_recurrence", *given).sum().backward()


@both
def test_a_second_derivative_is_refused(operation):
    given = tensors(operation)
    loss = (run(operation, *given) ** 2).sum()
    (first,) = torch.autograd.grad(loss, given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@both
def test_states_changed_in_place_are_noticed(operation):
    states = run(operation, *tensors(operation))
    loss = (states**2).sum()
    with torch.no_grad():
        states.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@both
def test_tensors_that_no_kernel_takes_are_one_sentence(operation):
    *matrices, u, initial = tensors(operation)
    with pytest.raises(KernelError, match="u must be float32 or float64, not torch"):
        run(operation, *matrices, u.bfloat16(), initial)
    with pytest.raises(KernelError, match="initial is on meta and u on cpu"):
        run(operation, *matrices, u, initial.to("meta"))
    with pytest.raises(KernelError, match="meta"):
        run(operation, *(t.to("meta") for t in (*matrices, u, initial)))
    with pytest.raises(KernelError, match="offsets must ascend from 0 to the 9 tokens"):
        run(operation, *matrices, u, initial, offsets=[0, 8])


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_on_the_device_are_finite_differences(reverse):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    assert torch.autograd.gradcheck(
        lambda *given: run("modal_recurrence", *given, reverse=reverse),
        tensors("modal_recurrence", device="cuda"),
    )
