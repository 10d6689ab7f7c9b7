"""A script in several processes, as ``torchrun`` starts them, on the CPU.

run_together(SCRIPT, 2, folder, settings)       # sys.argv[1:] is [folder, settings]
"""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

__all__ = ["run_together"]

_SECONDS = 1200  # of little work, on a busy machine too


def run_together(script: str, size: int, *arguments: object) -> None:
    """Run a Python script ``size`` times, with the environment that torchrun gives to each; wait for all.

    Raises
    ------
    AssertionError
        A process failed; the message is what it said.
    """
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": "1", "TACENDA_PROGRESS": "0",
    }  # fmt: skip
    command = [sys.executable, "-c", script, *map(str, arguments)]
    running = [
        subprocess.Popen(
            command,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    with ThreadPoolExecutor(size) as waiting:
        try:
            for done in as_completed([waiting.submit(_outcome, process) for process in running]):
                status, said = done.result()
                assert status == 0, said
        finally:  # the others may wait for one that failed
            for process in running:
                process.kill()


def _outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status of a process, and what it said; waits for its end."""
    _, said = process.communicate(timeout=_SECONDS)
    return process.returncode, said
