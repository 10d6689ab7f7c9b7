"""`check_estimator`: the promises of every model of the registry, whatever its kind, as one call.

The kits of each kind call it: ``tacenda_embeddings.testing``, ``tacenda_lm.testing``, ``tacenda_surprise.testing``.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import tempfile
import threading
import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from tacenda import plugins
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, NotFittedError, PluginError, TacendaError, describe
from tacenda.plugins import canonical

Sentences = list[list[str]]

#: Tokens that no training text holds, and that hosts do pass on.
STRANGE = ["", " ", "\n\t", "\x00", "🙂🏽‍♀️", "e\u0301", "שלום", "中文", "</s>", "<unk>", "x" * 5000]

#: The names of arrays that cut another array into pieces end in one of these.
_OFFSETS = ("offsets", "indptr", "word_codes", "code_steps", "starts", "first")


def check_estimator(
    make_model: Callable[[], Any],
    data: Any,
    apply: Callable[[Any], list[Any]],
    *,
    atol: float = 0.0,
    may_hold_nan: Container[str] = (),
    fork_seconds: float = 60.0,
) -> Any:
    """Fit a model to ``data`` and check the promises that every model of the registry makes.

    It is not saved before its ``fit``, which returns it. It names its entry point, may be shared by threads and by
    forked processes, comes back from disk and from bytes bit for bit, has a stable compact form or refuses one, and
    refuses damaged arrays.

    Parameters
    ----------
    make_model
        Returns a new unfitted model, small enough to fit in a second.
    data
        The argument of its ``fit``.
    apply
        Returns arrays with everything that a host needs from a fitted model; it must not change the model.
    atol
        How far results may differ in a forked process.
    may_hold_nan
        Names of saved arrays in which NaN is legitimate.
    fork_seconds
        How long ``apply`` may take in a forked process before this counts as a deadlock.

    Returns
    -------
    The fitted model.

    Raises
    ------
    AssertionError
        A promise is broken; the message names it.
    """
    unfitted = make_model()
    for name in ("kind", "name", "distribution", "fit", "save", "to_artifact"):
        assert getattr(unfitted, name, None) is not None, (
            f"{type(unfitted).__name__} has no {name}: derive it from tacenda.estimator.Estimator, and set kind, name "
            "and distribution as in its entry point"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        assert_refuses(lambda: unfitted.save(path), NotFittedError, "save before fit")
        assert not path.exists(), "save before fit leaves a folder"
    model = unfitted.fit(data)
    assert model is unfitted, "fit does not return the model"
    with registered(type(model)):
        _check_entry_point(model)
        _check_threads(model, apply)
        if "fork" in multiprocessing.get_all_start_methods():
            found = in_forked_process(partial(apply, model), fork_seconds)
            assert_equal(found, apply(model), "in a fork", atol)
        with tempfile.TemporaryDirectory() as folder:
            _check_saving(model, apply, Path(folder))
        _check_damage(model, may_hold_nan)
    return model


@contextmanager
def registered(cls: Any) -> Iterator[None]:
    """Put a class where `tacenda.load` looks, unless it is installed."""
    if _claims(cls):
        yield
        return
    plugins.register(cls.kind, cls.name, cls, distribution=cls.distribution)
    try:
        yield
    finally:
        plugins.unregister(cls.kind, cls.name, distribution=cls.distribution)


def _check_entry_point(model: Any) -> None:
    """Kind, name and distribution lead to this class, and no other distribution installs it."""
    cls = type(model)
    assert model.name, "it has no name"
    api = getattr(model, "api_version", 1)
    assert api == plugins.API_VERSION, f"its api_version is {api}, not {plugins.API_VERSION}"
    installs = any(claim.version for claim in _claims(cls))
    assert installs or not plugins.version_of(model.distribution), (
        f"{model.distribution} is installed and names no {model.name!r} under tacenda.{model.kind}: add it to "
        "the entry points and install the package again"
    )
    found = plugins.get(model.kind, model.name, distribution=model.distribution)
    assert found is cls, "the entry point leads to another class"
    for record in plugins.available(model.kind):
        own = canonical(record.distribution) == canonical(model.distribution)
        if record.name == model.name and not own:
            with suppress(PluginError):  # it is somebody else's, and does not load
                rival = plugins.get(model.kind, model.name, distribution=record.distribution)
                assert rival is not cls, (
                    f"{record.distribution} installs it, and its distribution is {model.distribution!r}: "
                    "a saved model would not find its class"
                )
    config = model.config_dict()
    assert json.loads(json.dumps(config, allow_nan=False)) == config, "its settings are not JSON"


def _check_threads(model: Any, apply: Callable[[Any], list[Any]]) -> None:
    """Two threads at once get what one gets."""
    expected = apply(model)
    found: list[Any] = []
    work = [
        threading.Thread(target=lambda: found.extend(apply(model) for _ in range(5)))
        for _ in range(2)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(found) == 10, "a thread failed"
    for result in found:
        assert_equal(result, expected, "two threads at once get other results than one")


def _check_saving(model: Any, apply: Callable[[Any], list[Any]], folder: Path) -> None:
    """A model comes back as it was, and saves the same bytes again; rounding happens once."""
    expected = apply(model)

    def check_same(other: Any) -> None:
        assert type(other) is type(model), f"a {type(other).__name__} comes back"
        assert other.config_dict() == model.config_dict(), "other settings come back"
        for name in ("figures", "fitted_on"):
            same = getattr(other, name, None) == getattr(model, name, None)
            assert same, f"a loaded model has other {name}"
        try:
            found = apply(other)
        except NotFittedError as error:
            raise AssertionError(
                f"a loaded {type(model).__name__} lacks something that fit sets: put it into `learned`, or name it in "
                "`indexes`"
            ) from error
        assert_equal(found, expected, "a loaded model gives other results")

    model.save(folder / "model")
    loaded = tacenda.load(folder / "model")
    check_same(loaded)
    loaded.save(folder / "again")
    first, again = (
        {path.name: path.read_bytes() for path in (folder / name).iterdir() if path.is_file()}
        for name in ("model", "again")
    )
    assert first == again, "a loaded model saves other bytes than it was loaded from"
    check_same(type(model).from_artifact(Artifact.from_bytes(model.to_artifact().to_bytes())))
    for precision in ("float16", "int8"):
        save = partial(model.save, folder / precision, precision=precision)
        if not model.can_be_compact():
            assert_refuses(save, ArtifactError, f"saving in {precision}")
            continue
        save()
        small = tacenda.load(folder / precision)
        assert small.precision == precision, f"saved in {precision}, it has {small.precision}"
        apply(small)
        same = small.to_artifact().to_bytes() == model.to_artifact(precision).to_bytes()
        assert same, f"a model loaded in {precision} saves other bytes than the model it is of"


def _check_damage(model: Any, may_hold_nan: Container[str]) -> None:
    """An array that is missing, of another rank, NaN, or offsets that fall, raise ArtifactError."""
    artifact = model.to_artifact()
    for name, array in artifact.arrays.items():
        others = {key: value for key, value in artifact.arrays.items() if key != name}
        damaged: dict[str, Any] = {"missing": {}, "of another rank": {name: array[None]}}
        if array.dtype.kind == "f" and array.size and name not in may_hold_nan:
            bad = array.copy()
            bad.flat[0] = np.nan
            damaged["holding NaN"] = {name: bad}
        is_offsets = array.dtype == np.int64 and array.ndim == 1 and name.endswith(_OFFSETS)
        if is_offsets and len(array) >= 4:
            bad = array.copy()
            bad[1:3] = 2**63 - 1, -2  # their difference wraps around to a small positive one
            damaged["falling"] = {name: bad}
        for damage, change in damaged.items():
            spoilt = dataclasses.replace(artifact, arrays={**others, **change})
            action = f"loading with the array {name!r} {damage}"
            assert_refuses(partial(type(model).from_artifact, spoilt), ArtifactError, action)


def assert_equal(found: Any, expected: Any, fault: str, atol: float = 0.0) -> None:
    """Compare lists of arrays, which may differ by ``atol``; bit for bit if it is zero."""
    found, expected = list(found), list(expected)
    assert len(found) == len(expected), f"{fault}: {len(found)} arrays, not {len(expected)}"
    for array, other in zip(found, expected, strict=True):
        if atol:
            np.testing.assert_allclose(array, other, rtol=0, atol=atol, err_msg=fault)
        else:
            np.testing.assert_array_equal(array, other, err_msg=fault)


def in_forked_process(act: Callable[[], Any], seconds: float) -> Any:
    """Return what ``act`` returns in a forked copy of this process.

    Raises AssertionError if it fails there, dies, or takes more than ``seconds``.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send((act(), None))
        except BaseException:
            sender.send((None, traceback.format_exc()))

    process = context.Process(target=work, daemon=True)
    process.start()
    sender.close()  # so that the death of the child, which has the other copy, ends the wait
    try:
        assert receiver.poll(seconds), f"it hangs: no result in a forked process in {seconds:g} s"
        try:
            found, failure = receiver.recv()
        except EOFError:
            process.join()
            raise AssertionError(
                f"the forked process died with exit code {process.exitcode}"
            ) from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    assert failure is None, f"in a forked process:\n{failure}"
    return found


def _claims(cls: Any) -> list[plugins.PluginRecord]:
    """The plugins with the name and the distribution of a class."""
    owner = canonical(cls.distribution)
    return [
        record
        for record in plugins.available(cls.kind)
        if record.name == cls.name and canonical(record.distribution) == owner
    ]


def assert_refuses(act: Callable[[], Any], error: type[TacendaError], action: str) -> None:
    """Fail unless ``act`` raises an error of this type, whose message is one line."""
    assert refusal_of(act, error, action) is not None, f"{action} raises no {error.__name__}"


def refusal_of(act: Callable[[], Any], error: type[TacendaError], action: str) -> str | None:
    """Return the message with which ``act`` raises an error of this type, None if it raises none."""
    try:
        act()
    except error as caught:
        message = str(caught).strip()
    except Exception as caught:
        raise AssertionError(
            f"{action} raises {describe(caught)}, not {error.__name__}"
        ) from caught
    else:
        return None
    assert message, f"{action} raises {error.__name__} without a message"
    assert "\n" not in message, f"{action}: the message is longer than a sentence"
    return message


def sample_sentences(n_sentences: int = 300, seed: int = 0) -> Sentences:
    """Return sentences of 3 to 12 words out of 48, where each word class calls for the next."""
    rng = np.random.default_rng(seed)
    sentences = []
    for length in rng.integers(3, 13, n_sentences):
        classes = (rng.integers(6) + np.arange(length) + (rng.random(length) < 0.2)) % 6
        words = np.minimum(rng.geometric(0.3, length) - 1, 7)
        sentences.append([f"{'abcdef'[c]}{w}" for c, w in zip(classes, words, strict=True)])
    return sentences
