"""``tacenda ratings``: evaluate, fit, recommend, and what a mistake looks like."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import tacenda
from tacenda import artifact
from tacenda.artifact import folder as artifact_folder
from tacenda.ratings import read_ratings, split_last
from tacenda_surprise import BiasOnly, ConditionalPMF, ImplicitMF
from tacenda_surprise.cli import read_times
from tacenda_surprise.factorization import SGD

FAST = ["--set", "n_factors=3", "--set", "n_epochs=4"]


def unframed(err):
    """A message of the command line without the frame around it, on one line."""
    return " ".join(err.replace("│", " ").split())


@pytest.fixture
def saved(printed, file, tmp_path):
    printed("fit", file, "--output", tmp_path / "model", *FAST)
    return tmp_path / "model"


def test_fit_saves_a_model(saved):
    model = tacenda.load(saved)
    assert model.name == "conditional_pmf"
    assert model.settings.n_factors == 3


def test_recommend_to_users_and_to_somebody_new(printed, saved, file, triples):
    asked = ("--user", "user 1", "--rate", "item 3=5", "-n", 4, "--seen", file, "--json")
    found = json.loads(printed("recommend", saved, *asked))
    assert list(found) == ["user 1", "new user"]
    assert len(found["user 1"]) == 4
    rated = {item for user, item, _ in triples if user == "user 1"}
    assert not rated & {item for item, _ in found["user 1"]}
    assert "item 3" not in {item for item, _ in found["new user"]}
    out = printed("recommend", saved, "--user", "user 1", "-n", 2)
    assert out.startswith("user 1:\n")
    assert len(out.splitlines()) == 3


def test_a_user_called_new_user_keeps_the_list(printed, file, tmp_path):
    file.write_text(file.read_text("utf8").replace("user 1", "new user"), "utf8")
    printed("fit", file, "--output", tmp_path / "model", *FAST)
    asked = ("--user", "new user", "--rate", "item 3=5", "-n", 2, "--json")
    assert list(json.loads(printed("recommend", tmp_path / "model", *asked))) == [
        "new user",
        "the user of --rate",
    ]


@pytest.mark.parametrize("options", [[], ["--time", 3]])
def test_evaluate_refuses_a_file_of_which_nothing_can_be_held_out(options, refused, write_file):
    path = write_file("few.csv", "a,x,1,1\nb,x,2,2\nc,y,3,3\n")
    assert "no user has" in refused("evaluate", path, "--model", "bias", *options)


def test_evaluate_calls_a_time_that_is_no_number_a_time(refused, write_file):
    path = write_file("timed.csv", "a,x,1,1\nb,x,2,noon\n")
    said = refused("evaluate", path, "--model", "bias", "--time", 3)
    assert "line 2: the time 'noon' is not a number" in said


@pytest.mark.parametrize("column", [0, 1, 2])
def test_evaluate_refuses_a_column_of_the_ratings_as_the_time(refused, file, column):
    said = unframed(refused("evaluate", file, "--model", "bias", "--time", column, status=2))
    assert f"--time {column} is the column of users, items or ratings" in said


def test_evaluate_refuses_wrong_options_before_it_reads_the_file(refused, tmp_path):
    err = refused("evaluate", tmp_path / "none", "--model", "pmf", "--set", "pmf=3", status=2)
    assert "pmf.NAME=VALUE" in unframed(err)


def test_recommend_reads_the_folder_once(printed, saved, monkeypatch):
    read, reads = artifact_folder._read_parts, []

    def counted(*arguments):
        reads.append(arguments[0])
        return read(*arguments)

    monkeypatch.setattr(artifact_folder, "_read_parts", counted)
    printed("recommend", saved, "--user", "user 1")
    assert reads == [saved]


def test_evaluate_compares_lists(printed, file, write_file, triples):
    rows = (f"{u},{i},{k},{r}\n" for k, (u, i, r) in enumerate(triples))
    timed = write_file("timed.csv", "user,item,time,rating\n" + "".join(rows))
    for more in ([], ["--time", 2]):
        options = "--columns", "0,1,3", *more, "--model", "pmf", "-n", 5, "--json", *FAST
        out = printed("evaluate", timed, *options)
        popularity, pmf = json.loads(out)["models"]
        assert (popularity["model"], pmf["model"]) == ("popularity", "pmf")
        assert 0 < pmf["mrr"] <= pmf["hit_rate"] <= 1
        assert pmf["recall"] <= pmf["hit_rate"]
    out = printed("evaluate", file, "--model", "bias", "--by", "rating")
    assert out.splitlines()[1].split() == ["model", "HR", "NDCG", "MRR", "recall"]


def test_lists_are_no_longer_than_there_are_items(run, file, triples):
    asked = ("evaluate", file, "--model", "bias", "--json", "-n")
    every = run(*asked, len({item for _, item, _ in triples}))
    assert every[0] == 0
    for n in (10**11, 10**30):
        assert run(*asked, n) == every


def test_settings_in_the_words_of_surprise_and_of_one_model(run, printed, file, tmp_path):
    status, _, err = run(
        "evaluate", file, "--model", "pmf", "--model", "bias",
        "--set", "pmf.n_factors=2", "--set", "pmf.n_epochs=3", "--set", "bias.biases=items",
    )  # fmt: skip
    assert (status, err) == (0, "")
    words = ["--set", "n_epochs=3", "--set", "lr_all=0.01", "--set", "n_factors=2"]
    printed("fit", file, "-o", tmp_path / "words", "--model", "pmf", *words)
    settings = tacenda.load(tmp_path / "words").settings
    assert (settings.n_epochs, settings.lr_all, settings.n_factors) == (3, 0.01, 2)


def test_lists_leave_out_what_they_are_told_to(printed, saved, triples):
    asked = ("recommend", saved, "--user", "user 1", "-n", 1000, "--json")

    def listed(*options):
        return json.loads(printed(*asked, *options))["user 1"]

    every, counts = listed(), Counter(item for _, item, _ in triples)
    best = every[0][0]
    often = [[item, score] for item, score in every if counts[item] >= 16]
    assert 0 < len(often) < len(every)
    assert listed("--exclude", best) == every[1:]
    assert listed("--min-ratings", 16) == often
    by_rating = sorted(every, key=lambda one: one[1], reverse=True)
    assert by_rating != every
    assert [s for _, s in listed("--by", "rating")] == [s for _, s in by_rating]


def test_min_ratings_counts_ratings_and_not_side_information(printed, trainset, tmp_path):
    pairs = [(f"quiet {k}", f"item {k % 20}") for k in range(200)]
    algo = ConditionalPMF(n_factors=2, n_epochs=3, rated=pairs, random_state=0).fit(trainset)
    algo.save(tmp_path / "algo")
    often = {raw for raw, i in trainset._raw2inner_id_items.items() if len(trainset.ir[i]) >= 16}
    assert 0 < len(often) < trainset.n_items
    asked = ("--user", "user 1", "--include-rated", "-n", 1000, "--min-ratings", 16, "--json")
    listed = json.loads(printed("recommend", tmp_path / "algo", *asked))["user 1"]
    assert {item for item, _ in listed} == often
    best = algo.top_n(1000, ["user 1"], exclude_seen=False, min_ratings=16)["user 1"]
    assert [item for item, _ in listed] == [item for item, _ in best]


def test_evaluate_compares_all_models_if_none_is_named(printed, write_file):
    rows = "".join(f"{u} {i} {(u * i) % 5 + 1}\n" for u in range(8) for i in range(8))
    out = printed("evaluate", write_file("ratings.txt", rows), "--json", "-n", 3)
    found = {row["model"] for row in json.loads(out)["models"]}
    assert {"popularity", "bias", "pmf", "conditional_pmf", "rbm", "conditional_rbm"} <= found


def test_a_file_that_is_not_utf8(printed, refused, tmp_path):
    path, model = tmp_path / "ratings.csv", tmp_path / "model"
    path.write_bytes("\n".join(f"ann,caf\xe9 {k},{k % 5 + 1}" for k in range(9)).encode("latin-1"))
    err = refused("evaluate", path, "--model", "bias")
    assert err.startswith(f"tacenda: {path} is not utf-8 at line 1")
    assert err.endswith("; name its encoding\n")
    latin = ("--encoding", "latin-1")
    printed("fit", path, "-o", model, "--model", "bias", *latin)
    out = printed("recommend", model, "--user", "ann", "--seen", path, *latin, "--json")
    assert json.loads(out) == {"ann": []}
    out = printed("recommend", model, "--user", "ann", "-n", 1, "--include-rated")
    assert "caf\xe9" in out


def test_an_id_that_cannot_be_saved_is_refused_before_the_fit(
    refused, write_file, tmp_path, monkeypatch
):
    path = write_file("ratings.csv", "+2AA-,x,3\nann,y,4\n")  # a lone surrogate in UTF-7
    monkeypatch.setattr(BiasOnly, "fit", lambda *_, **__: pytest.fail("it is fitted"))
    options = ("-o", tmp_path / "model", "--model", "bias", "--encoding", "utf-7")
    err = refused("fit", path, *options)
    assert "the user id '\\ud800' holds half of a surrogate pair" in err


def test_lists_leave_out_what_is_rated_unless_told_otherwise(
    run, refused, saved, write_file, triples
):
    rated = {item for user, item, _ in triples if user == "user 1"}
    asked = ("recommend", saved, "--user", "user 1", "-n", 1000, "--json")

    def listed(*options):
        status, out, err = run(*asked, *options)
        assert (status, err) == (0, "")
        return {item for item, _ in json.loads(out)["user 1"]}

    without = listed()
    assert without
    assert not rated & without
    assert listed("--include-rated") == without | rated
    newer = write_file("newer.csv", "".join(f"user 1,{item},3\n" for item in sorted(without)[:2]))
    assert listed("--seen", newer) == without - set(sorted(without)[:2])
    new = ("recommend", saved, "--rate", "item 3=5", "-n", 1000, "--json")
    assert '"item 3"' not in run(*new)[1]
    assert '"item 3"' in run(*new, "--include-rated")[1]
    err = refused(*asked, "--include-rated", "--seen", newer, status=2)
    assert "give one of them" in unframed(err)


def test_fit_takes_a_seed_as_set_does(printed, refused, file, tmp_path):
    small = ("--model", "pmf", *FAST)
    seed = 1764000000000000000  # as a time in nanoseconds
    given = {"seed": ["--seed", seed], "set": ["--set", f"random_state={seed}"], "none": []}
    for name, options in given.items():
        printed("fit", file, "-o", tmp_path / name, *small, *options)
    found = {name: tacenda.load(tmp_path / name) for name in given}
    assert found["seed"].settings == found["set"].settings
    assert found["seed"].settings.random_state == seed
    assert found["none"].settings.random_state == 0
    for options, message in (
        (("--seed", 3, "--set", "random_state=3"), "leave out one of the two"),
        (("--seed", 3, "--set", "pmf.random_state=3"), "leave out one of the two"),
        (("--set", "pmf.n_epochs=2", "--seed", -1), "'--seed'"),
    ):
        err = refused("fit", file, "-o", tmp_path / "new", *small, *options, status=2)
        assert message in unframed(err)
    err = refused("fit", file, "-o", tmp_path / "new", "--model", "bias", "--seed", 3)
    assert "BiasOnly has no option 'random_state'" in err
    assert "Default: 0." in unframed(printed("fit", "--help"))


def test_a_model_named_with_its_distribution_takes_the_options_of_its_name(printed, file, tmp_path):
    model = "pmf@tacenda-surprise"
    options = ("--model", model, "--set", "n_epochs=2", "--set", "pmf.n_factors=3")
    printed("fit", file, "-o", tmp_path / "model", *options)
    settings = tacenda.load(tmp_path / "model").settings
    assert (settings.n_epochs, settings.n_factors) == (2, 3)
    # so that two with one name are told apart
    assert f"{model} " in printed("evaluate", file, *options)


def test_an_interrupted_fit_goes_on_from_its_checkpoints(printed, file, tmp_path, monkeypatch):
    small = ("fit", file, "--model", "pmf", *FAST, "--checkpoints", tmp_path / "progress")
    printed(*small, "-o", tmp_path / "one")
    assert (tmp_path / "progress" / "checkpoint.json").exists()
    monkeypatch.setattr(SGD, "step", lambda *_: pytest.fail("nothing is left to train"))
    printed(*small, "-o", tmp_path / "other")
    one, other = (tacenda.load(tmp_path / name) for name in ("one", "other"))
    pairs = np.array([0, 1, 2]), np.array([3, 4, 5])
    np.testing.assert_array_equal(one.score_pairs(*pairs), other.score_pairs(*pairs))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["evaluate", "nowhere.csv"], 1, "nowhere.csv"),
        (["evaluate", "FILE", "--model", "nobody"], 1, "nobody"),
        (["evaluate", "FILE", "--set", "n_factor=3", "--model", "pmf"], 1, "n_factor"),
        (["evaluate", "FILE", "--scale", "1;5"], 2, "scale"),
        (["evaluate", "FILE", "--scale", "1,inf"], 2, "at most 1e+15, not 1,inf"),
        (["evaluate", "FILE", "--scale", "nan,5"], 2, "at most 1e+15, not nan,5"),
        (["evaluate", "FILE", "--scale", "1,1e30"], 2, "at most 1e+15, not 1,1e30"),
        (["evaluate", "FILE", "--encoding", "utf-16"], 1, "FILE"),
        (["recommend", "MODEL"], 2, "--user"),
        (["recommend", "MODEL", "--user", "nobody"], 1, "nobody"),
        (["recommend", "MODEL", "--rate", "item 3=great"], 1, "ITEM=RATING"),
        (["recommend", "MODEL", "--rate", "item 3=9"], 1, "off the scale"),
        (["recommend", "MODEL", "--rate", "318"], 1, "--rate takes ITEM=RATING, not 318"),
        (
            ["recommend", "MODEL", "--rate", "item 3=5", "--rate", "item 3=1"],
            1,
            "item 3 two ratings; give one",
        ),
        (["evaluate", "FILE", "--model", "pmf", "--set", "pmf.n_factor=3"], 1, "n_factor"),
        (["recommend", "FILE"], 2, "--user"),
        (
            ["fit", "FILE", "-o", "NEW", "--model", "pmf", "--set", "rbm.n_hidden=5"],
            2,
            "not asked for",
        ),
        (["fit", "FILE", "-o", "NEW", "--model", "pmf", "--set", "pmf=3"], 2, "pmf.NAME=VALUE"),
        (["fit", "FILE", "--output", "FILE"], 1, "not a folder"),
        (
            ["recommend", "MODEL", "--rate", "a=3", "--seen", "FILE"],
            2,
            "no effect without --user; leave it out",
        ),
        (["recommend", "MODEL", "--user", "b", "--columns", "0,1,2"], 2, "effect without --seen"),
        (["recommend", "MODEL", "--user", "b", "--separator", "tab"], 2, "effect without --seen"),
        (["recommend", "MODEL", "--user", "b", "--encoding", "utf-8"], 2, "effect without --seen"),
    ],
)
def test_a_mistake_is_one_sentence(refused, saved, file, arguments, status, message):
    places = {"FILE": str(file), "MODEL": str(saved)}
    err = refused(*(places.get(word, word) for word in arguments), status=status)
    assert places.get(message, message) in (unframed(err) if status == 2 else err)


def test_a_model_is_not_overwritten_unless_told_to(printed, refused, file, saved):
    before = (saved / "model.json").read_bytes()
    assert "--force" in refused("fit", file, "--output", saved, "--model", "bias")
    assert (saved / "model.json").read_bytes() == before
    printed("fit", file, "--output", saved, "--model", "bias", "--force")
    assert (saved / "model.json").read_bytes() != before


def test_a_device_that_is_not_there_is_missed_before_any_work(refused, file, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted = ("--output", tmp_path / "model", *FAST, "--set", "device=cuda")
    said = refused("fit", file, *wanted)
    assert "device is 'cuda'" in said
    assert "finds no CUDA device" in said
    assert not (tmp_path / "model").exists()


def save_without_ratings(algo, folder):
    """As older versions saved it."""
    found, more = algo.to_artifact(), ("surprise.", "choices.", "rated.")
    arrays = {name: array for name, array in found.arrays.items() if not name.startswith(more)}
    config = {name: value for name, value in found.config.items() if name != "surprise"}
    artifact.write(folder, replace(found, config=config, arrays=arrays))


def test_a_model_of_choices_ranks_by_choice_also_without_its_ratings(printed, file, tmp_path):
    algo = ImplicitMF(n_factors=3, random_state=0).fit(read_ratings(file))
    save_without_ratings(algo, tmp_path / "bare")
    algo.save(tmp_path / "whole")
    asked = ("--user", "user 1", "--include-rated", "--json")
    bare, whole = (printed("recommend", tmp_path / name, *asked) for name in ("bare", "whole"))
    assert json.loads(bare) == json.loads(whole)


def test_what_a_folder_without_choices_cannot_tell_is_refused(run, refused, file, tmp_path):
    folder = tmp_path / "bare"
    save_without_ratings(BiasOnly().fit(read_ratings(file)), folder)
    asked = ("recommend", folder, "--user", "user 1", "--json")
    status, out, err = run(*asked)
    assert status == 0
    assert json.loads(out) == json.loads(run(*asked, "--by", "rating")[1])
    assert "does not say who has rated what" in err
    assert "--seen FILE" in err
    for options in (["--seen", file], ["--include-rated"]):
        assert run(*asked, *options)[2] == ""
    for options in (["--by", "both"], ["--by", "choice"], ["--min-ratings", 3]):
        err = refused(*asked, *options, status=2)
        assert options[0] in err
        assert "tacenda ratings fit" in unframed(err)


def test_times_that_differ_by_a_second_tell_what_came_last(write_file):
    start = 1_700_000_000
    rows = "".join(f"ann,film {k},{1 + k % 5},{start + 9 - k}\n" for k in range(10))
    path = write_file("timed.csv", rows)
    ratings = read_ratings(path)
    times = read_times(path, ratings, None, (0, 1, 3), "utf-8")
    assert (times - start).tolist() == [9 - k for k in range(10)]
    _, last = split_last(ratings, times)
    assert last.items.raw[last.item_ids].tolist() == ["film 0", "film 1"]
    path = write_file("timed.csv", rows + "ann,film 3,4,99\n")
    again = read_times(path, read_ratings(path, duplicates="last"), None, (0, 1, 3), "utf-8")
    assert again[3] == 99


@pytest.mark.parametrize("separator", ["\t", "\\t", "tab"])
def test_a_tab_may_be_typed_in_words(printed, file, write_file, separator):
    tabs = write_file("tabs.txt", file.read_text().replace(",", "\t"))
    given = ["--model", "bias", "--json"]
    found, expected = (
        json.loads(printed("evaluate", *arguments, *given))["models"][1]["mrr"]
        for arguments in ((tabs, "--separator", separator), (file,))
    )
    assert found == expected


def test_a_model_of_another_kind_recommends_nothing(refused):
    pytest.importorskip("tacenda_en_lds")
    said = refused("recommend", "en-lds-small", "--user", "1")
    assert "en-lds-small holds the model LDS, which rates nothing" in said


def test_checkpoints_inside_the_output_are_refused_before_the_fit(refused, write_file, tmp_path):
    file, out = write_file("ratings.tsv", "u1\ti1\t3\nu2\ti1\t4\nu2\ti2\t1\n"), tmp_path / "out"
    err = refused("fit", file, "-o", out, "--checkpoints", out / "inner", status=2)
    assert "name another folder" in err
    assert not out.exists()
