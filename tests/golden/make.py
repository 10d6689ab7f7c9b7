"""Add a golden folder of a new model: python tests/golden/make.py lm-NAME, NAME being one of robustness/specimens.py.

The word before the model's name says how it predicts (`golden_uses`). The folders that are here were written by
3843cd73, the last code with this layout of models: they show that it stays readable, and are never rewritten.
"""

from __future__ import annotations

import json
import sys
import warnings

from golden_uses import HERE, golden, predictions

sys.path.insert(0, str(HERE.parent / "robustness"))
from specimens import specimens


def main() -> None:
    """Write the folders that are named, and what is predicted from them."""
    warnings.simplefilter("ignore")
    found = golden()
    for name in sys.argv[1:]:
        if name in found:
            raise SystemExit(f"{name} is there already, and is to stay as it is.")
        specimens()[name.partition("-")[2]].fit().save(HERE / name)
        found[name] = predictions(name)
    lines = ",\n".join(f'"{name}": {json.dumps(found[name])}' for name in sorted(found))
    (HERE / "predictions.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
