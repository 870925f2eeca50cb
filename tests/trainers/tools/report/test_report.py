"""`lanista report`: one page that holds everything, loads nothing and runs nothing but its own script."""

import base64
import hashlib
import json
import re
from array import array
from html.parser import HTMLParser
from pathlib import Path

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import REWARD, read_run
from lanista.trainers.stats.event_files import Curve
from lanista.trainers.tools.card.markdown import MARK
from lanista.trainers.tools.report.contents import Group, RunResult, differing, group_runs
from lanista.trainers.tools.report.curves import Chart, points_each
from lanista.trainers.tools.report.page import make_page
from made_runs import make_run, write


def page_of(tmp_path, *names):
    output = tmp_path / "page.html"
    assert run(["report", *names, "--results-dir", str(tmp_path), "-o", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def curves_in(page):
    return json.loads(re.search(r'id="curves">(.*?)</script>', page, re.DOTALL)[1])


class Tags(HTMLParser):
    """The elements of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_a_report_replaces_a_report_and_nothing_else(tmp_path, capsys):
    make_run(tmp_path, "ball")
    first = page_of(tmp_path, "ball")
    make_run(tmp_path, "slow")
    assert page_of(tmp_path, "slow") != first
    (tmp_path / "page.html").write_text("<title>My game</title>")
    arguments = ["report", "ball", "--results-dir", str(tmp_path), "-o", str(tmp_path / "page.html")]
    assert run(arguments) == 1
    assert "page.html is there and is not a report. Name another" in capsys.readouterr().err
    assert (tmp_path / "page.html").read_text() == "<title>My game</title>"


def test_runs_that_differ_only_in_their_seed_are_one_line_with_a_band(tmp_path):
    for seed, rewards in enumerate([(1.0, 2.0), (3.0, 6.0), (2.0, 4.0)]):
        make_run(tmp_path, f"ball-{seed}", seed=seed, rewards=rewards)
    make_run(tmp_path, "slow", rate=0.01, rewards=(0.5,))
    page = page_of(tmp_path, "ball-0", "ball-1", "ball-2", "slow")
    reward, _ = curves_in(page)["charts"]
    assert reward["tag"] == REWARD and reward["x"] == [100, 200]
    assert reward["lines"] == [
        {"group": 0, "mean": [2.0, 4.0], "low": [1.0, 2.0], "high": [3.0, 6.0]},
        {"group": 1, "mean": [0.5, None]},
    ]
    assert "ball (3 runs)" in page and "4 ± 2" in page
    setting = "behaviors.Ball.hyperparameters.learning_rate"
    assert f"<td>{setting}</td><td>0.1</td><td>0.01</td>" in page
    assert "base_port" not in page and "run_id" not in page


def test_the_page_loads_nothing_and_runs_only_its_script(tmp_path):
    make_run(tmp_path, "ball")
    page = page_of(tmp_path, "ball")
    tags = Tags(page).found
    for tag, attributes in tags:
        for name in ("src", "href", "action", "poster", "srcset"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] for t, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "connect-src" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(digests) == 1 and f"'sha256-{digests[0]}'" in policy


def test_hostile_names_are_shown_and_not_executed(tmp_path):
    name = "<img src=x onerror=alert(1)>\"'\x1b[31m"
    make_run(
        tmp_path,
        name,
        behavior="<script>'\"",
        timers={"metadata": {"command_line_arguments": "a </pre><i>"}},
    )
    (tmp_path / name / "run_logs" / "warnings.log").write_text("</pre><script>alert(2)</script>\x1b[0m")
    page = page_of(tmp_path, name)
    plain = Tags(page_of_harmless(tmp_path)).found
    assert [t for t, _ in Tags(page).found].count("script") == [t for t, _ in plain].count("script") == 2
    assert "img" not in {tag for tag, _ in Tags(page).found}
    assert "\x1b" not in page
    assert "\\x1b[31m" in page and "&lt;script&gt;&#x27;&quot;" in page


def page_of_harmless(tmp_path):
    make_run(tmp_path, "harmless")
    return page_of(tmp_path, "harmless")


@pytest.mark.parametrize("program", ["/x/lanista-learn", r"C:\x\lanista-learn", "/x/y/trainers/learn.py"])
def test_restarts_warnings_damage_memory_and_the_command_are_shown(tmp_path, program):
    timers = {"metadata": {"command_line_arguments": program + " a.yaml", "peak_memory_bytes": "512000000"}}
    folder = make_run(tmp_path, "ball", timers=timers)
    write(folder, "Ball", {200: 9.0})
    (folder / "run_logs" / "warnings.log").write_text("engine 3 was restarted\n")
    (folder / "run_logs" / "training_status.json").write_text("{")
    page = page_of(tmp_path, "ball")
    shown = ("Resumed 1 time.", "engine 3 was restarted", "Damaged: training_status.json", "512 MB")
    assert all(text in page for text in (*shown, "<pre>lanista-learn a.yaml</pre>"))
    assert curves_in(page)["charts"][0]["lines"][0]["mean"] == [1.0, 9.0]


def test_errors_of_engines_are_shown_with_links_to_logs_of_the_run_alone(tmp_path):
    folder = make_run(tmp_path, "a ball")
    (folder / "run_logs" / "Player-0.log").write_text("")
    (tmp_path / "secret.log").write_text("")
    kind = {
        "engine": "Unity",
        "environment": "environment 0",
        "text": "<b>Oh",
        "place": "A.cs:1",
        "count": 6800,
    }
    logs = ["run_logs/Player-0.log", "run_logs/gone.log", "../secret.log", str(tmp_path / "secret.log"), None]
    kinds = [{**kind, "place": f"A.cs:{number}", "log": log} for number, log in enumerate(logs)]
    record = json.dumps({"total": 34001, "kinds": kinds})
    (folder / "run_logs" / "engine_errors.json").write_text(record)
    page = page_of(tmp_path, "a ball")
    assert "<h3>a ball: 34,001</h3>" in page and "&lt;b&gt;Oh" in page and page.count("6,800") == 5
    assert [link for tag, link in Tags(page).found if tag == "a" and "log" in link["href"]] == [
        {"href": "a%20ball/run_logs/Player-0.log"}
    ]
    served = make_page(group_runs([RunResult.read(read_run(folder))]), refresh=5.0)
    assert "Player-0.log" in served and 'href="a%20ball' not in served, "it serves the page alone"
    make_run(tmp_path, "good")
    assert "Errors that engines have printed" not in page_of(tmp_path, "good")


def test_the_film_of_the_best_run_is_in_the_page(tmp_path):
    for name, reward in (("good", 5.0), ("bad", 1.0), ("best without a film", 7.0)):
        folder = make_run(tmp_path, name, rewards=(reward,), rate=reward)
        if reward < 6:
            (folder / "Ball" / "videos").mkdir()
            (folder / "Ball" / "videos" / "Ball-100.gif").write_bytes(name.encode())
    page = page_of(tmp_path, "good", "bad", "best without a film")
    assert base64.b64encode(b"good").decode() in page and base64.b64encode(b"bad").decode() not in page


def test_the_model_card_of_each_run_is_in_the_page(tmp_path):
    folder = make_run(tmp_path, "ball", seed=5)
    page = page_of(tmp_path, "ball")
    assert "lanista card ball plays 100 episodes" in page and "Schulman et al. 2017" in page
    assert "<td>behaviors.Ball.hyperparameters.learning_rate</td><td>0.1</td>" in page
    text = (
        "lanista: {score: {actions: sampled, seed: 3, behaviors: {Ball: {groups: 9, mean: 0.5, std: <i>}}}}"
    )
    (folder / "README.md").write_text(f"---\n{text}\n---\n{MARK}\n")
    assert "<td>0.5 ± &lt;i&gt; in 9 groups, sampled actions, seed 3</td>" in page_of(tmp_path, "ball")
    for damaged in ("lanista: {score: {behaviors: {Ball: 3}}}", "lanista: {score: 3}", "lanista: ["):
        (folder / "README.md").write_text(f"---\n{damaged}\n---\n{MARK}\n")
        assert "Model card" in page_of(tmp_path, "ball")


@pytest.mark.posix("links need a right there")
def test_a_model_and_a_film_that_lead_out_of_the_run_are_told_and_not_shown(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = make_run(tmp_path, "r")
    (folder / "Ball.onnx").symlink_to(victim)
    (folder / "Ball" / "videos").mkdir(parents=True)
    (folder / "Ball" / "videos" / "a.gif").symlink_to(victim)
    page = page_of(tmp_path, "r")
    assert f"<td>cannot be read: it leads to {victim}, outside of" in page
    assert f"(a.gif) is not shown: it leads to {victim}, outside of" in page
    assert base64.b64encode(b"precious").decode() not in page
    assert hashlib.sha256(b"precious").hexdigest() not in page


def test_an_empty_run_and_a_bare_folder_make_a_page(tmp_path):
    make_run(tmp_path, "empty", rewards=())
    (tmp_path / "bare" / "run_logs").mkdir(parents=True)
    assert "There is no summary yet." in page_of(tmp_path, "empty", "bare")


def test_rewards_of_zero_have_a_best_one(tmp_path):
    make_run(tmp_path, "a", rewards=(0.0, 0.0))
    assert "<td class=n>0</td><td class=n>0</td><td class=n>100</td>" in page_of(tmp_path, "a")


@pytest.mark.slow
def test_long_curves_of_many_runs_stay_small():
    steps = 20_000
    curve = Curve(
        array("q", range(0, 500 * steps, 500)), array("d", [0.123456789] * steps), array("d", [0.0] * steps)
    )
    drawn = [Chart("Ball", f"T{k}", [(g, [curve] * 3) for g in range(20)]) for k in range(40)]
    points = points_each(drawn)
    assert len(json.dumps([chart.as_dict(points) for chart in drawn])) < 3_500_000


def test_thinning_keeps_the_means_and_the_ends():
    steps = 10_000
    values = array("d", [k % 2 for k in range(steps)])
    curve = Curve(array("q", range(steps)), values, array("d", bytes(8 * steps)))
    thin = Chart("Ball", "T", [(0, [curve])]).as_dict(100)
    assert thin["x"][0] == 0 and thin["x"][-1] == steps - 1 and len(thin["x"]) == 100
    assert all(abs(value - 0.5) < 0.02 for value in thin["lines"][0]["mean"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_gaps(tmp_path, value):
    make_run(tmp_path, "ball", rewards=(1.0, value, 3.0))
    page = page_of(tmp_path, "ball")
    assert curves_in(page)["charts"][0]["lines"][0]["mean"] == [1.0, 2.0, 3.0]
    assert ">3<" in page  # the best


def test_runs_without_settings_are_groups_of_their_own(tmp_path):
    for name in ("a", "b"):
        (make_run(tmp_path, name) / "configuration.yaml").unlink()
    groups = group_runs([RunResult.read(read_run(tmp_path / name)) for name in ("a", "b")])
    assert [group.name for group in groups] == ["a", "b"] and differing(groups) == {}
    assert "No setting that is known differs" in make_page(groups)


def test_groups_whose_names_begin_alike_are_told_apart(tmp_path):
    for number, rate in enumerate((0.1, 0.1, 0.2, 0.2)):
        make_run(tmp_path, f"run-{number}", seed=number, rate=rate)
    groups = group_runs([RunResult.read(read_run(path)) for path in sorted(tmp_path.iterdir())])
    assert [group.name for group in groups] == ["run-0, run-1", "run-2, run-3"]
    assert all(isinstance(group, Group) for group in groups)


def test_a_group_has_a_mean_of_the_behaviors_that_its_runs_have(tmp_path):
    for seed in range(2):
        make_run(tmp_path, f"ball-{seed}", seed=seed)
    make_run(tmp_path, "cart", behavior="Cart")
    page = page_of(tmp_path, "ball-0", "ball-1", "cart")
    means = re.findall(r'<tr class="sum"><td>.*?</td><td>(.*?)</td>', page)
    assert means == ["Ball"]


def test_what_is_not_there_is_named(tmp_path, capsys):
    make_run(tmp_path, "first")
    assert run(["report", "frist", "--results-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "there is no run frist" in said and "Did you mean first?" in said
    assert (
        run(["report", "first", "--results-dir", str(tmp_path), "-o", str(tmp_path / "no" / "x.html")]) == 1
    )
    assert "cannot be written" in capsys.readouterr().err


def test_the_script_and_styles_are_packaged():
    import lanista.trainers.tools.report as package

    setup = (Path(package.__file__).parents[3] / "setup.py").read_text()
    assert '"lanista.trainers.tools.report": ["*.css", "*.js"]' in setup
