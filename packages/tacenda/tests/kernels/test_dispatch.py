import contextvars
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from support.processes import output_of
from tacenda import kernels, plugins
from tacenda.arrays import Array, Int, Int32, Offsets
from tacenda.errors import KernelError, PluginUnavailableError
from tacenda.kernels import backends, dispatch
from tacenda.kernels.sequences import unit_rows


@pytest.fixture
def install(monkeypatch):
    """Install backends for one test; forget what was warned of."""
    monkeypatch.delenv(dispatch.ENVIRONMENT, raising=False)
    monkeypatch.setattr(dispatch, "_warned", set())
    installed = []

    def add(name, priority=100, distribution="theirs", devices=frozenset({"cpu"}), **operations):
        backend = kernels.Backend(priority=priority, devices=devices, **operations)
        add_backend(name, backend, distribution)

    def add_backend(name, backend, distribution="theirs"):
        plugins.register("kernels", name, backend, distribution=distribution)
        installed.append((name, distribution))

    add.backend = add_backend
    yield add
    for name, distribution in installed:
        plugins.unregister("kernels", name, distribution=distribution)


@pytest.fixture
def low_and_high(install):
    """Two backends with an operation ``op``, of priorities 10 and 20."""
    install("low", 10, op=answer("low"))
    install("high", 20, op=answer("high"))


@pytest.fixture
def define():
    """`kernels.operation`, whose operations are forgotten after the test."""
    known = set(dispatch.OPERATIONS)
    yield kernels.operation
    for name in dispatch.OPERATIONS.keys() - known:
        del dispatch.OPERATIONS[name]


@pytest.fixture
def slow_reference(monkeypatch):
    """A reference that has one operation, ``op``."""
    slow = kernels.Backend(priority=0, op=answer("slow"))
    with monkeypatch.context() as patch:
        patch.setattr(backends, "reference", slow)
        plugins.refresh()
        yield slow
    plugins.refresh()


def answer(text):
    return lambda *args, **kwargs: text


def decline(*args):
    raise kernels.UnsupportedShape("a width of 3 is not served")


def test_importing_the_package_imports_neither_numba_nor_torch():
    code = "import sys, tacenda.kernels; print({'numba', 'torch', 'triton'} & set(sys.modules))"
    assert output_of("-c", code).strip() == "set()"


def test_the_highest_priority_that_fits_the_device_runs(install, low_and_high):
    install("gpu", 99, devices=frozenset({"cuda"}), op=answer("gpu"))
    assert kernels.resolve("op")() == "high"
    assert kernels.resolve("op", "cuda:1")() == "gpu"
    assert kernels.operations()["op"] == ["gpu", "high", "low"]


def test_operations_are_in_the_order_of_their_modules(monkeypatch):
    expected = list(kernels.operations())
    assert expected.index("hmm_block") < expected.index("rating_sgd") < expected.index("adam")
    others = dict(reversed(dispatch.OPERATIONS.items()))
    monkeypatch.setattr(dispatch, "OPERATIONS", others)
    modules = [others[name].__module__ for name in kernels.operations() if name in others]
    assert modules == sorted(modules)


def test_use_chooses_in_this_thread_only_and_ends_with_its_block(low_and_high):
    with kernels.use("low"):
        assert kernels.resolve("op")() == "low"
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(contextvars.Context().run, lambda: kernels.resolve("op")())
        with kernels.use("high"):
            assert kernels.resolve("op")() == "high"
        assert kernels.resolve("op")() == "low"
    assert kernels.resolve("op")() == "high"
    assert elsewhere.result() == "high"


def test_use_ends_when_its_block_raises(low_and_high):
    with pytest.raises(ZeroDivisionError), kernels.use("low"):
        raise ZeroDivisionError
    assert kernels.resolve("op")() == "high"


def test_the_environment_chooses_and_use_overrules_it(low_and_high, monkeypatch):
    monkeypatch.setenv(dispatch.ENVIRONMENT, "low")
    assert kernels.resolve("op")() == "low"
    with kernels.use("high"):
        assert kernels.resolve("op")() == "high"


def test_a_declined_shape_falls_to_the_next_backend(install):
    install("high", 20, op=decline)
    install("low", 10, op=answer("low"))
    assert kernels.resolve("op")(1) == "low"


@pytest.mark.parametrize(("choice", "asked"), [("high", [1, 0]), ("high,low", [1, 1])])
def test_a_declined_shape_with_nobody_left_says_who_declined_and_why(install, choice, asked):
    calls = [0, 0]

    def decline(place):
        def run(X):
            calls[place] += 1
            raise kernels.UnsupportedShape(f"{calls[place]} is not served")

        return run

    install("high", 20, unit_rows=decline(0))
    install("low", 10, unit_rows=decline(1))
    reasons = "; ".join(f"{name}: 1 is not served" for name in choice.split(","))
    message = rf"chooses runs 'unit_rows' on cpu \({reasons}\): add one that does, of .*reference"
    for run in (unit_rows, lambda X: kernels.resolve("unit_rows")(X)):
        with kernels.use(choice), pytest.raises(kernels.UnsupportedShape, match=message):
            run(np.ones((2, 3)))
        assert calls == asked
        calls[:] = 0, 0


def test_other_errors_of_a_backend_are_not_hidden(install):
    def broken():
        return [][0]

    install("high", 20, op=broken)
    install("low", 10, op=answer("low"))
    with pytest.raises(IndexError):
        kernels.resolve("op")()


class Broken:
    """A backend one of whose operations is imported when it is asked for, and cannot be."""

    kind, priority = "kernels", 20

    def __getattr__(self, name):
        if name == "op":
            raise ImportError("no_such_module")
        if name == "other":
            return answer("other")
        raise AttributeError(name)


@pytest.mark.parametrize(
    ("fast", "reason"),
    [
        (kernels.Backend(priority=20, op=decline), "a width of 3"),
        (Broken(), "no_such_module"),
        (kernels.Backend(), "no other backend"),
    ],
)
def test_the_reference_warns_once_with_the_reason(install, slow_reference, fast, reason):
    install.backend("fast", fast)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kernels.resolve("op")() == "slow"
        assert kernels.resolve("op")() == "slow"
    assert len(caught) == 1
    assert reason in str(caught[0].message)


def test_the_reference_asked_for_by_name_does_not_warn(install, slow_reference):
    with warnings.catch_warnings(), kernels.use("reference"):
        warnings.simplefilter("error")
        assert kernels.resolve("op")() == "slow"


def test_a_broken_backend_disturbs_no_other(install):
    install("low", 10, op=answer("low"))
    install.backend("not-a-backend", object())
    install.backend("old", kernels.Backend(api_version=999, priority=200, op=answer("old")))
    with pytest.warns(RuntimeWarning, match="does not load") as caught:
        assert [kernels.resolve("op")() for _ in range(2)] == ["low", "low"]
    assert len(caught) == 2, "one for each broken backend"
    with pytest.raises(KernelError, match=r"'old' is ready here .*api_version"), kernels.use("old"):
        kernels.resolve("op")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"priority": "high"}, "priority"),
        ({"priority": float("nan")}, "priority"),
        ({"devices": "cpu"}, "set of names"),
    ],
)
def test_a_backend_that_cannot_be_compared_is_left_out_with_the_reason(install, wrong, reason):
    install("low", 10, op=answer("low"))
    install.backend("odd", kernels.Backend(op=answer("odd"), **wrong))
    with pytest.warns(RuntimeWarning, match=reason):
        assert kernels.resolve("op")() == "low"


@dataclass(frozen=True)
class Frozen:
    op: Any
    kind: str = "kernels"
    priority: int = 20


@dataclass(slots=True)
class Slotted:
    op: Any
    kind: str = "kernels"
    priority: int = 20


@pytest.mark.parametrize("backend", [Frozen, Slotted])
def test_a_backend_may_be_an_object_that_cannot_be_changed(install, backend):
    install("low", 10, op=answer("low"))
    install.backend("fixed", backend(answer("fixed")))
    assert kernels.resolve("op")() == "fixed"
    assert kernels.operations()["op"] == ["fixed", "low"]
    with pytest.raises(KernelError, match="fixed does not serve cuda"):
        kernels.resolve("op", "cuda")


def test_a_broken_operation_leaves_the_backend_s_others_alone(install):
    install("low", 10, op=answer("low"))
    install.backend("broken", Broken())
    assert kernels.resolve("op")() == "low"
    assert kernels.resolve("other")() == "other"
    assert kernels.operations()["op"] == ["low"]
    with kernels.use("broken"), pytest.raises(KernelError, match="no_such_module"):
        kernels.resolve("op")


def test_an_unknown_name_lists_the_known(install):
    with pytest.raises(KernelError, match=r"'nonsense'.*cpu, reference"), kernels.use("nonsense"):
        kernels.resolve("merge_counts")


@pytest.mark.parametrize("name", [3, None, ["cpu"], "", " , "])
def test_a_choice_without_a_name_is_refused(name):
    with pytest.raises(KernelError, match="chooses no backend: give a name"), kernels.use(name):
        pass


def test_tensors_of_the_host_are_refused_unless_a_backend_serves_them(install):
    torch = pytest.importorskip("torch")
    with pytest.raises(KernelError, match=r"'unit_rows' on torch tensors of the CPU: give NumPy"):
        unit_rows(torch.ones(2, 2))
    install("theirs", devices={"cpu:0"}, unit_rows=answer("theirs"))
    assert unit_rows(torch.ones(2, 2)) == "theirs"


def test_a_choice_without_the_operation_says_who_chose_and_which_backends_have_it(
    low_and_high, monkeypatch
):
    monkeypatch.setenv(dispatch.ENVIRONMENT, "cpu")
    with pytest.raises(
        KernelError, match=r"TACENDA_KERNELS=cpu chooses runs 'op' on cpu: add .* of high, low$"
    ):
        kernels.resolve("op")
    with (
        kernels.use("cpu"),
        pytest.raises(KernelError, match=r"kernels.use\('cpu'\) chooses .* no installed one does"),
    ):
        kernels.resolve("knitting")
    monkeypatch.setenv(dispatch.ENVIRONMENT, "cpu,hihg")
    message = r"'hihg' is ready here, as TACENDA_KERNELS=cpu,hihg asks for: choose"
    with pytest.raises(KernelError, match=message):
        kernels.resolve("op")


def test_what_prepares_arguments_names_some_of_them(define):
    def check(x, rows):
        return None

    with pytest.raises(
        KernelError,
        match=r"operation knit has the arguments x, row, and its prepare takes rows: name",
    ):

        @define(prepare=check)
        def knit(x, row):
            return None

    assert "knit" not in dispatch.OPERATIONS

    for sound, expected in (
        (lambda: None, ("wool", 2)),
        (lambda row: {"row": row + 1}, ("wool", 3)),
        (lambda row, x, more=2: {"x": x * row * more}, ("wool" * 4, 2)),
    ):
        assert define(prepare=sound)(knit_well)("wool", 2) == expected


def knit_well(x, row):
    """Return the arguments."""
    return x, row


def test_an_operation_that_is_defined_again_replaces_the_first(define):
    def define_pick(answer):
        def pick():
            return answer

        return define(pick)

    with kernels.use("reference"):
        assert [define_pick("first")(), define_pick("second")()] == ["first", "second"]


def test_an_operation_of_another_module_is_not_replaced(define):
    def unit_rows(X):
        return X

    message = f"^tacenda.kernels.sequences and {__name__} both define .* unit_rows: rename one"
    with pytest.raises(KernelError, match=message):
        define(unit_rows)


def test_integers_are_not_converted_to_others(define):
    @define
    def pick(rows: Int32[Array, "n"]):
        return rows

    with kernels.use("reference"):
        found = pick(np.array([1, 2]))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, [1, 2])
        for wide, dtype in ((2**32 + 1, "i8"), (-(2**31) - 1, "i8"), (2**63, "u8")):
            with pytest.raises(KernelError, match=f"rows holds {wide}, which int32 cannot hold"):
                pick(np.array([1, wide], dtype))


class Cut(NamedTuple):
    rows: Int32[Array, "n"]
    offsets: Offsets[Array, "pieces n"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (Cut([0.5], [0, 1]), "second.rows must be integers"),
        (Cut([2**32], [0, 1]), "second.rows holds 4294967296"),
        (Cut([1], [0, 2]), "second.offsets must ascend from 0 to 1"),
    ],
)
def test_an_error_names_a_field_with_its_argument(define, second, said):
    @define
    def pick(rows: Int32[Array, "m"], second: Cut):
        return rows

    rows = np.zeros(1, np.int32)
    with kernels.use("reference"), pytest.raises(KernelError, match=f"^pick: {said}"):
        pick(rows, second)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_integers_are_brought_into_c_order(define, library):
    @define
    def pick(rows: Int[Array, "n"], places: Int32[Array, "n 2"]):
        return rows, places

    make = pytest.importorskip(library).asarray
    wide = make(np.arange(16).reshape(4, 4))
    for rows, places in ((wide[:, 1], wide[:, ::2]), (wide[0], make(np.zeros((2, 4), "i4")).T)):
        with kernels.use("reference"):
            found = pick(rows, places)
        for array, given in zip(found, (rows, places), strict=True):
            assert np.asarray(array).flags.c_contiguous
            np.testing.assert_array_equal(array, given)


def test_a_backend_says_what_it_offers_before_an_operation_was_called():
    asked = "from tacenda.kernels.backends import cpu; print(cpu.offers('context_sum'), cpu.offers('op'))"
    assert output_of("-c", asked).split() == ["True", "False"]


def test_an_error_names_an_operation_nobody_offers_and_who_was_asked_for_a_device_nobody_serves():
    with pytest.raises(KernelError, match="'knitting' on cpu"):
        kernels.resolve("knitting")
    with pytest.raises(KernelError, match="cpu does not serve abacus"):
        kernels.resolve("merge_counts", "abacus")


def test_a_name_of_two_distributions_is_an_error_until_one_is_chosen(install):
    install("twin", 10, distribution="first", op=answer("first"))
    install("twin", 20, distribution="second", op=answer("second"))
    assert kernels.resolve("op")() == "second"
    with pytest.raises(KernelError, match="twin@"), kernels.use("twin"):
        kernels.resolve("op")
    with kernels.use("twin@first"):
        assert kernels.resolve("op")() == "first"


def test_triton_says_why_it_is_not_there(monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(PluginUnavailableError, match=r"tacenda\[gpu\]"):
        backends.triton  # noqa: B018
    monkeypatch.setattr(backends, "find_spec", lambda name: object())
    assert backends.triton.file == "triton"


class Speeds(NamedTuple):
    first: float
    second: float = 0.0


@pytest.mark.parametrize("wrong", [None, "1", (1.0, 2.0), True, 1j, np.ones(1)])
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("rate", "pick: rate must be a number"),
        ("n", "pick: n must be a whole number"),
        ("speeds", "pick: speeds.first must be a number"),
    ],
)
def test_an_argument_that_is_no_number_is_refused(define, place, said, wrong):
    @define
    def pick(rows: Int[Array, "m"], rate: float, n: int, speeds: Speeds):
        return rows

    given = {"rows": np.zeros(1, int), "rate": 1.0, "n": 1, "speeds": Speeds(1.0)}
    changed = Speeds(wrong) if place == "speeds" else wrong
    with kernels.use("reference"), pytest.raises(KernelError, match=f"^{said}, not "):
        pick(**given | {place: changed})


def test_numbers_become_those_of_python_and_tuples_become_named(define):
    @define
    def pick(rate: float, n: int, speeds: Speeds):
        return rate, n, speeds

    with kernels.use("reference"):
        for given in ((1.0, 2, Speeds(1.0, 2.0)), (np.float32(1), np.int64(2), (1, Fraction(2)))):
            found = pick(*given)
            assert found == (1.0, 2, Speeds(1.0, 2.0))
            assert list(map(type, found)) == [float, int, Speeds]
            assert list(map(type, found[2])) == [float, float]
        with pytest.raises(KernelError, match=r"^pick: speeds must be a Speeds of first, second"):
            pick(1.0, 2, (1.0,))
