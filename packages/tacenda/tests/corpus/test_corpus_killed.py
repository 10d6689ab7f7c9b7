"""A build killed at any moment leaves the corpus that was there, or the new one, and nothing between."""

import os
import signal
import textwrap

import pytest

from support.processes import run_python
from tacenda.corpus import Corpus
from tacenda.errors import CorpusError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills a process by a POSIX signal")

KILLERS = {
    "reading": """
        def sentences():
            yield from [["new", "text"]] * 100_000
            kill()
    """,
    "saving": """
        os.fsync = lambda descriptor: kill()
    """,
    "committing": """
        Path.replace = lambda *arguments: kill()
    """,
    "cleaning": """
        real = Path.replace
        def replace_and_kill(*arguments):
            real(*arguments)
            kill()
        Path.replace = replace_and_kill
    """,
}


PREPARE = """
import os, signal, sys
from pathlib import Path
from tacenda.corpus import Corpus
def kill(): os.kill(os.getpid(), signal.SIGKILL)
def sentences(): yield ["new", "text"]
"""
BUILD = "\nCorpus.from_sentences(sentences(), cache=sys.argv[1])"


def build_and_die(folder, moment):
    script = PREPARE + textwrap.dedent(KILLERS[moment]) + BUILD
    assert run_python("-c", script, folder).returncode == -signal.SIGKILL


def words(corpus):
    return corpus.vocabulary.decode(corpus.ids)


@pytest.mark.parametrize("moment", KILLERS)
def test_the_old_corpus_or_the_new_one_survives(tmp_path, moment):
    Corpus.from_sentences([["old"]], cache=tmp_path)
    build_and_die(tmp_path, moment)
    assert words(Corpus.open(tmp_path)) == (["new", "text"] if moment == "cleaning" else ["old"])
    assert len(list(tmp_path.glob("build-*"))) == 2
    # the next build clears away what the killed one left
    assert words(Corpus.from_sentences([["next"]], cache=tmp_path)) == ["next"]
    assert words(Corpus.open(tmp_path)) == ["next"]
    assert len(list(tmp_path.glob("build-*"))) == 1


def test_a_killed_first_build_is_no_corpus(tmp_path):
    build_and_die(tmp_path, "committing")
    with pytest.raises(CorpusError, match="holds no corpus"):
        Corpus.open(tmp_path)
    assert words(Corpus.from_sentences([["next"]], cache=tmp_path)) == ["next"]


def test_a_build_that_is_still_running_is_left_alone(tmp_path):
    def sentences():
        yield ["outer"]
        Corpus.from_sentences([["inner"]], cache=tmp_path)

    assert words(Corpus.from_sentences(sentences(), cache=tmp_path)) == ["outer"]
    assert words(Corpus.open(tmp_path)) == ["outer"]
