"""A fit in a forked child of a process that has fitted with many threads."""

import os

import pytest

from support.processes import output_of

SCRIPT = """
import os, signal
import torch
from tacenda_embeddings import VarEmbed
text = ["walk walks walked talk talks talked look looks looked"] * 60
torch.set_num_threads(4)
model = VarEmbed(width=32, epochs=1).fit(text)
torch.ones(400, 400) @ torch.ones(400, 400)  # its threads are there
torch.arange(10 ** 6).float().exp().sum()
child = os.fork()
if child == 0:
    signal.alarm(60)  # or it would wait forever
    again = VarEmbed(width=32, epochs=1).fit(text)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0)
"""


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_it_ends():
    pytest.importorskip("torch", reason="fitting needs torch")
    output_of("-c", SCRIPT)
