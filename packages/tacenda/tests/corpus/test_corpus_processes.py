import signal
import textwrap
import time
from pathlib import Path

import pytest

from support.processes import run_python
from tacenda.corpus import Corpus, lines
from tacenda.errors import CorpusError

LINES = [
    f"the {i % 13} word-{i % 7} isn't {chr(97 + i % 26) * (i % 5)} in line {i}" for i in range(400)
]


def test_two_workers_give_what_one_gives(write_file, tmp_path, monkeypatch):
    path = write_file("text.txt", "\n".join(LINES))
    monkeypatch.setattr(lines, "BLOCK_BYTES", 500)
    settings = {"tokenizer": "words", "digits": True, "max_vocabulary": 20, "oov": "classes"}
    one = Corpus.from_text(path, **settings)
    two = Corpus.from_text(path, processes=2, cache=tmp_path / "cache", **settings)
    assert two.ids.tolist() == one.ids.tolist()
    assert two.offsets.tolist() == one.offsets.tolist()
    assert two.vocabulary == one.vocabulary


def test_errors_of_a_worker_reach_the_caller():
    with pytest.raises(CorpusError, match="tokenizer returned a str"):
        Corpus.from_text(LINES, tokenizer=str.upper, processes=2)


def test_a_tokenizer_that_cannot_travel_is_refused():
    with pytest.raises(CorpusError, match=r"cannot be sent to other processes.*processes=1"):
        Corpus.from_text(LINES, tokenizer=lambda line: line.split(), processes=2)


def test_a_script_without_a_main_guard_is_told_so(write_file):
    script = write_file(
        "script.py", "from tacenda.corpus import Corpus\nCorpus.from_text(['a b'], processes=2)\n"
    )
    done = run_python(script)
    assert done.returncode == 1
    assert 'if __name__ == "__main__"' in done.stderr.splitlines()[-1]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_workers_end_with_a_killed_parent(write_file):
    script = write_file(
        "script.py",
        textwrap.dedent(
            """
            import itertools, multiprocessing, os, signal, sys, threading, time
            from tacenda.corpus import Corpus
            def lines():
                yield "a b"
                while len(multiprocessing.active_children()) < 2:
                    yield "a b " * 50_000
                print(*[child.pid for child in multiprocessing.active_children()], flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if __name__ == "__main__":
                Corpus.from_text(lines(), processes=2)
            """
        ),
    )
    done = run_python(script)
    assert done.returncode == -signal.SIGKILL
    workers = done.stdout.split()
    assert len(workers) == 2
    while any(_runs(pid) for pid in workers):
        time.sleep(0.05)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
