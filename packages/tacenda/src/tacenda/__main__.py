"""``python -m tacenda`` is the command ``tacenda``."""

from tacenda.cli.main import main

if __name__ == "__main__":
    main()
