"""Compare rating algorithms, and recommend movies to a new user.

    python examples/movie_ratings/movie_ratings.py [RATINGS] [--rate "Alien (1979)=5" ...]

RATINGS is ml-100k, ml-1m or any file with a user, an item and a rating on each line. The default is MovieLens-100K
in the folder TACENDA_DATA; if that is not set, the ratings are made up. All measurements are on random folds of the
ratings; plots and a table are written to the output folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import algorithms
import comparison
import newcomer
import ratings_file

from tacenda.errors import TacendaError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ratings", nargs="?", help="ml-100k, ml-1m or a file")
    parser.add_argument("--titles", type=Path, help="movies.dat, u.item or movies.csv")
    parser.add_argument("--columns", help="columns of user, item and rating; 0,1,2 by default")
    parser.add_argument("--output", type=Path, default=Path("movie-ratings-output"))
    parser.add_argument("--folds", type=int, default=5, help="number of folds")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of algorithms")
    parser.add_argument("--rate", action="append", default=[], metavar="MOVIE=RATING")
    parser.add_argument("--quick", action="store_true", help="few ratings and two folds")
    options = parser.parse_args()
    start = time.perf_counter()
    try:
        run(options)
    except TacendaError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
    print(f"\n{time.perf_counter() - start:.0f} seconds in total")


def run(options: argparse.Namespace) -> None:
    say("reading the ratings")
    material = ratings_file.find(
        options.ratings, options.titles, options.columns, quick=options.quick
    )
    ratings = material.ratings
    print(f"  {material.name}: {len(ratings):,} ratings of {ratings.n_items:,} items "
          f"by {ratings.n_users:,} users")  # fmt: skip
    given = newcomer.parsed(options.rate, material)  # fail early on a mistake
    chosen = algorithms.named(options.only, quick=options.quick)

    n_folds = 2 if options.quick else options.folds
    say(f"cross-validating {len(chosen)} algorithms in {n_folds} folds")
    data = ratings_file.dataset(ratings)
    rows = comparison.measured(data, chosen, n_folds)
    comparison.print_table(rows)

    say("measuring the uncertainty of predictions on a held-out fold")
    sure = comparison.certainty(data, algorithms.bayesian(quick=options.quick))
    comparison.print_certainty(sure)

    say("fitting all ratings, and recommending to a new user")
    everything = data.construct_trainset(data.raw_ratings)
    algo = algorithms.bayesian(quick=options.quick).fit(everything)
    found = newcomer.recommend(algo, given, n=10)
    newcomer.print_list(given, found, material)

    options.output.mkdir(parents=True, exist_ok=True)
    comparison.save(rows, options.output / "comparison.json")
    try:
        import plots
    except ImportError as error:
        print(f"\nno plots: {error}; pip install matplotlib")
        return
    plots.compare(rows, options.output / "comparison.png")
    plots.certainty(sure, options.output / "certainty.png")
    plots.distributions(found[:4], algo.levels, material, options.output / "recommendations.png")
    print(f"\ncomparison.png, certainty.png and recommendations.png are in {options.output}")


def say(step: str) -> None:
    print(f"* {step} ...", flush=True)


if __name__ == "__main__":
    main()
