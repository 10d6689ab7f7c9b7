"""``python -m tacenda`` is the command ``tacenda``."""

from tacenda.cli import start

if __name__ == "__main__":
    start()
