"""examples/movie_ratings: its one command, on a small scale, with made-up ratings and with files."""

import json
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.processes import output_of
from tacenda.datasets import synthetic_ratings

SCRIPT = Path(__file__).parents[1] / "examples" / "movie_ratings" / "movie_ratings.py"
PLOTS = {"comparison.png", "certainty.png", "recommendations.png"}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the script in this process, in an empty folder; what it prints, and what it exits with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TACENDA_DATA", raising=False)
    monkeypatch.setenv("TACENDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(SCRIPT.parent))

    def call(*arguments):
        given = ["--quick", "--output", "output", *arguments]
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *given])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return capsys.readouterr().out

    return call


@pytest.fixture
def movielens(tmp_path):
    """A copy of MovieLens-100K's layout: invented ratings, two titles that are not ASCII."""
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    ratings = synthetic_ratings.generate(80, 40, 900, seed=1).ratings
    rows = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    lines = [f"{user + 1}\t{item + 1}\t{value:.0f}\t0\n" for user, item, value in rows]
    (folder / "u.data").write_text("".join(lines))
    titles = [f"{n}|Film {n}, Él (1980)|01-Jan-1980||address|0\n" for n in range(1, 41)]
    (folder / "u.item").write_text("".join(titles), encoding="latin-1")
    return folder


def test_made_up_ratings_are_compared_and_recommended_by_one_command(tmp_path):
    variables = {"TACENDA_DATA": None, "OMP_NUM_THREADS": "1"}
    said = output_of(SCRIPT, "--quick", "--output", "output", cwd=tmp_path, **variables)
    rows = json.loads((tmp_path / "output" / "comparison.json").read_text())
    assert len(rows) == 6
    assert all(0.5 < rmse < 1.5 for row in rows for rmse in row["rmse"])
    assert len(re.findall(r"[\d.]+ ± [\d.]+ item i\d+", said)) == 10
    made = {path.name for path in (tmp_path / "output").glob("*.png")}
    assert made == (PLOTS if find_spec("matplotlib") else set())


def test_movies_are_called_by_their_titles(movielens, run, monkeypatch):
    monkeypatch.setenv("TACENDA_DATA", str(movielens.parent))
    rated, recommended = run("--only", "pmf", "--rate", "film 7,=5", "--rate", "3=1").split(
        "  recommendations\n"
    )
    assert "ml-100k, 60 users: " in rated
    assert "Film 7, Él (1980)" in rated
    assert "Film 3, Él (1980)" in rated
    assert recommended.count("Él (1980)") == 10
    assert "Film 7," not in recommended


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "there is no file nowhere.csv"),
        (["ml-100k"], "the dataset ml-100k is not in"),
        (["{}/u.data", "--titles", "gone.csv"], "the titles gone.csv cannot be read"),
        (["{}/u.data", "--columns", "0,2"], "--columns takes three numbers"),
        (["{}/u.item"], "line 1, byte offset"),
        (["{}/u.data", "--rate", "Film 1=5"], "'Film 1' may be any of 1"),
        (["{}/u.data", "--rate", "Vertigo=5"], "no movie that anybody has rated"),
        (["{}/u.data", "--rate", "3=6"], "--rate takes MOVIE=RATING with 1 to 5"),
        (["{}/u.data", "--only", "neural"], "--only finds none of"),
    ],
)
def test_what_is_wrong_is_one_line(movielens, run, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        run(*(argument.format(movielens) for argument in arguments))
    found = str(stopped.value)
    assert found.startswith("error: ")
    assert message in found
    assert "\n" not in found
