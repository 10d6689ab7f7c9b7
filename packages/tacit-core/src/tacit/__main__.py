"""``python -m tacit`` is the command ``tacit``."""

from tacit.cli.main import main

if __name__ == "__main__":
    main()
