"""The pages of results: which runs they rest on, their statistics, and what they say of the aims."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread

import algorithm_curves
import learning_field
import numpy as np
import pytest
import study as study_module
import yaml
from claims import not_behind, ordered, reached
from intervals import area, band, difference, estimate, steps_to
from lanista.trainers.cli.init.zoo import ActionFacts, translate
from products import LANISTA, ML_AGENTS, CommandFailedError, Outcome
from records import Records, Run, fingerprint
from results import ROOT
from study import Study, Task, Way

STEPS = 1000
PAGES = sorted(Path(study_module.__file__).parent.glob("learning*.py"))


class Fake:
    """A product whose runs score what it is told; it notes what it was asked to train."""

    variable = ""

    def __init__(self, scores=None):
        self.scores = scores or {}
        self.learned = []
        self.rate = 1

    def settings(self, task, way):
        return {"rate": self.rate}

    def measure(self, task, way, seed, folder, given):
        self.learned.append((task.name, way, seed))
        score = self.scores.get((way, seed), 1.0)
        if isinstance(score, Exception):
            raise score
        return Outcome(score, 0.0, [(STEPS // 2, 0.0), (STEPS, score)])


def study(folder, product, tasks=("near", "far"), ways=("ours", "theirs"), goal=None):
    each = {way: Way("", product=product) for way in ways}
    return Study("page", [Task(x, f"scene:{x}", "B", STEPS, each, goal=goal) for x in tasks], folder=folder)


def seeds(count):
    return ["--seeds", *map(str, range(count))]


# Which runs are made ------------------------------------------------------------------------------------


def test_all_tasks_and_ways_get_a_seed_before_the_next(tmp_path):
    product = Fake()
    study(tmp_path, product).run("", seeds(2))
    first = [(task, way, 0) for task in ("near", "far") for way in ("ours", "theirs")]
    assert product.learned == first + [(task, way, 1) for task, way, _ in first]


def test_what_is_there_is_not_run_again_and_what_is_missing_is(tmp_path):
    study(tmp_path, Fake()).run("", [*seeds(2), "--tasks", "near"])
    product = Fake()
    study(tmp_path, product).run("", seeds(2))
    assert {task for task, _, _ in product.learned} == {"far"} and len(product.learned) == 4


def test_a_run_with_other_settings_is_not_counted_and_is_made_again(tmp_path):
    study(tmp_path, Fake({("ours", 0): 5.0}), ["near"]).run("", seeds(1))
    product = Fake({("ours", 0): 7.0})
    product.rate = 2
    page = study(tmp_path, product, ["near"])
    assert page.scores(page.task("near"), "ours") == []
    assert "| ours, older settings | 1 | 5.000 |" in page.score_table(page.task("near"))
    page.run("", [*seeds(1), "--ways", "ours"])
    assert page.scores(page.task("near"), "ours") == [7.0]
    shown = page.score_table(page.task("near"))
    assert "| ours | 1 | 7.000 |" in shown and "ours, older" not in shown and "theirs, older" in shown
    assert page.records.curves()["near", "ours", 0] == [(500, 0.0), (1000, 7.0)], "the old curve is gone"


def test_another_budget_of_steps_makes_a_run_another_one(tmp_path):
    page = study(tmp_path, Fake(), ["near"])
    page.run("", seeds(1))
    page.tasks = [replace(page.tasks[0], max_steps=2 * STEPS)]
    assert page.groups(page.tasks[0]) == {}


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path, capsys):
    product = Fake(
        {("ours", 0): CommandFailedError("lanista-learn ended with 3"), ("ours", 1): ValueError("odd")}
    )
    page = study(tmp_path, product, ["near"])
    page.run("", seeds(2))
    assert page.scores(page.task("near"), "theirs") == [1.0, 1.0]
    assert page.failed == ["near, ours, seed 0", "near, ours, seed 1"]
    said = capsys.readouterr().err
    assert "near, ours, seed 0 FAILED: lanista-learn ended with 3" in said and "odd" in said
    again = Fake()
    study(tmp_path, again, ["near"]).run("", seeds(2))
    assert again.learned == [("near", "ours", 0), ("near", "ours", 1)]


def test_what_is_optional_is_run_only_where_it_is_asked_for(tmp_path):
    product = Fake()
    page = study(tmp_path, product)
    page.tasks = [page.tasks[0], replace(page.tasks[1], optional=True)]
    page.run("", seeds(1))
    assert {task for task, _, _ in product.learned} == {"near"}
    page.run("", [*seeds(1), "--tasks", "far"])
    assert product.learned[2:] == [("far", "ours", 0), ("far", "theirs", 0)]


def test_a_way_without_its_product_is_left_out(tmp_path, monkeypatch):
    product = Fake()
    product.variable = "LANISTA_PEER"
    monkeypatch.delenv("LANISTA_PEER", raising=False)
    study(tmp_path, product).run("", seeds(1))
    assert product.learned == []


# How they are kept --------------------------------------------------------------------------------------


def test_processes_that_add_to_one_page_lose_nothing(tmp_path):
    def add(way):
        records = Records("page", tmp_path)
        for seed in range(5):
            records.add(Run("near", way, seed, STEPS, "x", seed, 0.0), [(STEPS, seed)])

    threads = [Thread(target=add, args=(way,)) for way in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Records("page", tmp_path)
    wanted = {("near", way, seed) for way in "abcd" for seed in range(5)}
    assert {run.key for run in found.runs} == wanted == set(found.curves())


def test_a_fingerprint_tells_settings_apart_but_not_their_order():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


@pytest.fixture
def basic(tmp_path):
    """A task whose settings can be changed."""
    path = tmp_path / "basic.yaml"

    def task(options=(), environment="scene:basic", **hyperparameters):
        settings = {"batch_size": 32, "buffer_size": 256, **hyperparameters}
        behavior = {"trainer_type": "ppo", "hyperparameters": settings}
        path.write_text(yaml.safe_dump({"behaviors": {"Basic": behavior}}))
        ways = {"ours": Way(str(path), options, product=LANISTA), "theirs": Way(str(path), product=ML_AGENTS)}
        return Task("basic", environment, "Basic", STEPS, ways)

    return task


def test_what_decides_a_run_is_in_its_fingerprint(basic):
    found = {
        basic().fingerprint("ours"),
        basic(batch_size=64).fingerprint("ours"),
        basic(["--set", "behaviors.Basic.network_settings.num_layers=1"]).fingerprint("ours"),
        basic(environment="scene:grid").fingerprint("ours"),
    }
    assert len(found) == 4


def test_a_key_that_only_lanista_has_leaves_the_peers_runs_as_they_are(basic):
    before = {way: basic().fingerprint(way) for way in ("ours", "theirs")}
    task = basic(max_grad_norm=0.5)
    assert task.fingerprint("ours") != before["ours"]
    assert task.fingerprint("theirs") == before["theirs"]


def test_a_setting_written_at_its_default_is_the_same(basic):
    assert basic().fingerprint("ours") == basic(num_epoch=3, max_grad_norm=None).fingerprint("ours")


@pytest.mark.parametrize("page", PAGES, ids=lambda x: x.stem)
def test_the_pages_name_settings_that_exist(page):
    for task in getattr(import_module(page.stem), "TASKS", ()):
        if not isinstance(task, Task):  # a page with runs of its own kind
            continue
        assert len({task.fingerprint(way) for way in task.ways}) == len(task.ways), "each is another way"


# Statistics ---------------------------------------------------------------------------------------------


def test_estimates_are_interquartile_means_with_percentile_intervals():
    scores = np.random.default_rng(5).normal(size=10)

    def middle(values):
        return np.sort(values, axis=-1)[..., 2:8].mean(axis=-1)

    drawn = scores[np.random.default_rng(1).integers(0, 10, (100_000, 10))]
    low, high = np.percentile(middle(drawn), [2.5, 97.5])
    found = estimate(scores)
    assert found.iqm == pytest.approx(middle(scores))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)
    assert found == estimate(scores), "a page does not change by itself"


def test_one_run_has_no_interval_and_equal_runs_a_narrow_one():
    assert estimate([0.5]).text() == "0.500"
    assert estimate([1.0] * 5).text() == "1.000 [1.000, 1.000]"


def test_an_area_is_the_mean_of_the_curve_over_the_budget():
    assert area([(10, 1.0), (40, 2.0), (100, 3.0)], 100) == pytest.approx(0.1 * 1 + 0.3 * 2 + 0.6 * 3)
    assert area([(50, 1.0), (90, 2.0)], 100) == pytest.approx(0.5 * 1 + 0.5 * 2), "the last one lasts"
    assert area([(50, 1.0), (120, 2.0)], 100) == pytest.approx(1.5), "no step counts beyond the budget"
    assert np.isnan(area([], 100))


def test_a_level_is_reached_once_the_mean_of_a_window_is_there():
    curve = [(10, 0.0), (20, 9.0), (30, 1.0), (40, 5.0), (50, 9.0)]
    assert steps_to(curve, 5.0, 10) == 20, "a window of one point"
    assert steps_to(curve, 5.0, 20) == 30, "0 and 9 are 4.5, 9 and 1 are 5"
    assert steps_to([(10, 0.0), (90, 7.0)], 7.0, 20) == 90, "long episodes leave windows of one point"
    assert steps_to(curve, 10.0, 10) == np.inf
    assert steps_to([], 0.0, 10) == np.inf


def test_a_difference_has_an_interval_of_both_groups():
    found = difference([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert found.iqm == 2.0 and 1.0 <= found.low < 2.0 < found.high <= 3.0
    assert np.isnan(difference([1.0], [0.0, 1.0]).low), "one run leaves no interval"
    assert difference([0.0] * 5, [1.0] * 5).high == -1.0


def test_the_settings_of_the_field_are_those_that_the_zoo_has():
    facts = {"Pendulum-v1": ActionFacts(1, 2.0), "Swimmer-v5": ActionFacts(2, 1.0)}
    facts |= {"Hopper-v5": ActionFacts(3, 1.0), "MountainCarContinuous-v0": ActionFacts(1, 1.0)}
    for task in learning_field.TASKS:
        translation = translate(task.algorithm, task.entry, facts.get(task.behavior, ActionFacts()))
        written = yaml.safe_load((ROOT / task.ways["Lanista"].config).read_text(encoding="utf-8"))
        assert written == {"behaviors": {task.behavior: translation.settings}}, task.name
        assert (translation.copies, translation.left) == (task.areas, {}), task.name


def test_a_column_that_older_files_lack_has_its_default(tmp_path):
    (tmp_path / "page.csv").write_text("scene,product,seed,max_steps,settings,score,std\na,b,0,9,c,1.0,0.0\n")
    (run,) = Records("page", tmp_path).runs
    assert run.score == 1.0 and np.isnan(run.seconds)


def test_a_band_covers_the_steps_that_all_curves_have():
    found = band([[(10, 0.0), (100, 9.0)], [(20, 1.0), (90, 8.0)]], points=8)
    assert (found.steps[0], found.steps[-1]) == (20, 90)
    assert found.iqm == pytest.approx((found.steps - 10) / 10)
    assert (found.low <= found.iqm + 1e-9).all() and (found.iqm <= found.high + 1e-9).all()


# Aims ---------------------------------------------------------------------------------------------------


def aims(folder, ours, theirs, count=10):
    scores = {("ours", seed): score for seed, score in enumerate(ours)}
    scores |= {("theirs", seed): score for seed, score in enumerate(theirs)}
    page = study(folder, Fake(scores), ["near"])
    page.run("", [*seeds(len(ours)), "--ways", "ours"])
    page.run("", [*seeds(len(theirs)), "--ways", "theirs"])
    return page


def test_being_behind_means_that_the_intervals_do_not_touch(tmp_path):
    behind = aims(tmp_path / "1", [0.5, 0.6] * 5, [0.8, 0.9] * 5)
    assert not_behind(behind, "near", "ours", "theirs").row()[1] == "not met"
    beside = aims(tmp_path / "2", [0.5, 0.9] * 5, [0.8, 0.9] * 5)
    assert not_behind(beside, "near", "ours", "theirs").row()[1] == "met"


def test_too_few_runs_are_no_verdict(tmp_path):
    page = aims(tmp_path, [0.9] * 9, [0.8] * 3)
    verdict = not_behind(page, "near", "ours", "theirs").row()[1]
    assert verdict == "not enough runs: ours 9 of 10, theirs 3 of 5; so far met"
    assert ordered(page, "near", ["theirs", "ours"]).row()[1].endswith("so far not met")
    empty = study(tmp_path / "none", Fake(), ["near"])
    for judgement in (
        not_behind(empty, "near", "ours", "theirs"),
        ordered(empty, "near", ["ours", "theirs"]),
    ):
        assert re.fullmatch(r"not enough runs: ours 0 of 10, theirs 0 of (5|10)", judgement.row()[1])


def test_an_aim_of_eight_in_ten_allows_two(tmp_path):
    page = aims(tmp_path, [0.95] * 8 + [0.1] * 2, [0.95] * 5 + [0.1] * 3)
    assert reached(page, "near", "ours", 0.9, 8).row()[1:] == ["met", "8 of 10"]
    assert reached(page, "near", "ours", 0.9, 9).met is False
    assert not reached(page, "near", "theirs", 0.9, 8).met, "three have failed: it cannot be met any more"


def test_the_page_says_how_many_runs_each_figure_rests_on(tmp_path):
    page = study(tmp_path, Fake({("ours", 1): 0.0}), ["near"], goal=0.9)
    page.run("", [*seeds(2)])
    lines = page.score_table(page.task("near")).splitlines()
    assert lines[2].startswith("| ours | 2 | 0.500 [0.000, 1.000] | 0.250 [0.000, 0.500] | 0.000 | 1 of 2 |")
    page.draw()
    assert (tmp_path / "page.png").stat().st_size > 1000


def test_the_picture_of_an_algorithm_shows_what_its_own_settings_have_learned(tmp_path):
    product = Fake()
    page = study(tmp_path, product, ["near"])
    ours = {name: Way(f"config/{name}/near.yaml", product=product) for name in ("sac", "dqn")}
    theirs = {"SB3 DQN": Way("config/dqn/near.yaml", product=Fake())}
    other = {"dqn, bf16": Way("config/dqn/near.yaml", ["--precision", "bf16"], product=product)}
    page.tasks = [replace(page.tasks[0], ways=ours | theirs | other)]
    page.run("", seeds(2))
    (panel,) = algorithm_curves.panels("dqn", [page], product)
    assert panel.curves == {"near": [[(500, 0.0), (1000, 1.0)]] * 2}
    assert not list(algorithm_curves.panels("td3", [page], product))
