"""A script in several processes, as ``torchrun`` starts them, on the CPU.

run_together(SCRIPT, 2, folder, settings)       # sys.argv[1:] is [folder, settings]
"""

import os
import socket
import subprocess
import sys

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
    try:
        for process in running:
            _, said = process.communicate(timeout=_SECONDS)
            assert process.returncode == 0, said
    finally:
        for process in running:
            process.kill()
