"""`lanista card`: what a model is, what made it and how well it plays; names are shown and never markup."""

import hashlib
import json
import signal
import subprocess
import sys

import psutil
import pytest
import yaml
from console_runs import PATIENCE, until
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.learn import run as learn
from lanista.trainers.networks.actor import Actor
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.stats.timers import Timers
from lanista.trainers.tools.card.contents import PAPERS, Card, ModelFile, Score, Training
from lanista.trainers.tools.card.markdown import make_markdown, read_front
from lanista.trainers.utils.text import typed
from line_runs import Restored
from made_runs import make_run
from specs import vector_spec

YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, learning_rate: 0.01}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 64
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with the run `walk`."""
    folder = tmp_path_factory.mktemp("card")
    (folder / "c.yaml").write_text(YAML)
    with Restored():
        arguments = ["--env", "scene:basic?areas=8", "--seed", "7", "--run-id", "walk"]
        assert learn([str(folder / "c.yaml"), *arguments, "--results-dir", str(folder / "results")]) == 0
    return folder / "results"


def front(text):
    """The YAML at the top of a card, as hubs read it."""
    return yaml.safe_load(text.split("---\n")[1])


@pytest.mark.slow
def test_the_card_of_a_run_tells_what_it_is_what_made_it_and_how_well_it_plays(results):
    """Through the console script's module: the score is that of `lanista play`, in a process of its own."""
    program = [sys.executable, "-m", "lanista.trainers.cli.main"]
    words = ["--results-dir", str(results), "--episodes", "12", "--seed", "3"]
    done = subprocess.run(
        [*program, "card", "walk", "--sampled", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = (results / "walk" / "README.md").read_text(encoding="utf-8")
    data = (results / "walk" / "Basic.onnx").read_bytes()
    own = read_front(text)
    score = own["score"]
    assert (score["actions"], score["seed"], list(score["behaviors"])) == ("sampled", 3, ["Basic?team=0"])
    returns = score["behaviors"]["Basic?team=0"]
    assert returns["episodes"] == 12 and -50 < returns["mean"] <= 0.93
    assert own["environment"] == ["scene:basic?areas=8"]
    assert own["models"] == [
        {
            "behavior": "Basic",
            "file": "Basic.onnx",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    ]
    assert own["trained_by"][0]["seed"] == 7
    metric = front(text)["model-index"][0]["results"][0]["metrics"][0]
    assert metric["value"] == f"{returns['mean']:.2f} +/- {returns['std']:.2f}"
    assert "license" not in front(text) and "# license: choose one" in text
    assert f"| Basic.onnx | Basic | 20 | discrete, one of 3 | {len(data) / 1000:.1f} kB |" in text
    assert "behaviors.Basic.hyperparameters.learning_rate | 0.01 |" in text and "num_epoch" not in text
    assert "](https://arxiv.org/abs/1707.06347)" in text
    assert "lanista play Basic.onnx --sampled --env" in text
    assert "What is not known" not in text


@pytest.mark.slow
@pytest.mark.posix("signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_what_plays_ends_with_the_command(results, name):
    """Also if it is suspended."""
    program = [sys.executable, "-m", "lanista.trainers.cli.main"]
    words = ["--results-dir", str(results), "--episodes", "100000000", "-o", str(results / "endless.md")]
    with subprocess.Popen([*program, "card", "walk", *words], stderr=subprocess.PIPE, text=True) as command:
        playing: list[psutil.Process] = []

        def has_engine():
            playing[:] = psutil.Process(command.pid).children(recursive=True)
            return any("lanista.envs.scenes" in process.cmdline() for process in playing)

        assert until(has_engine)
        (player,) = (process for process in playing if "play" in process.cmdline())
        player.suspend()
        command.send_signal(getattr(signal, name))
        said = command.communicate()[1]
    assert "Traceback" not in said
    gone, alive = psutil.wait_procs(playing, PATIENCE)
    assert not alive and len(gone) >= 3
    assert not (results / "endless.md").exists()


def test_agents_that_earn_as_groups_have_the_score_of_their_groups():
    own = {"episodes": 6, "mean_reward": -1.0, "std_reward": 0.5}
    groups = {"group_episodes": 2, "mean_group_reward": 3.0, "std_group_reward": 0.25}
    alone = {"group_episodes": 2, "mean_group_reward": 0.0, "std_group_reward": 0.0}
    report = {"actions": "deterministic", "behaviors": {"a": own | groups, "b": own | alone, "c": own}}
    report["behaviors"]["d"] = own | {"group_episodes": 2, "mean_group_reward": 0.0, "std_group_reward": 1.0}
    report["behaviors"] |= {"e?team=0": own | groups, "e?team=1": own | alone}
    score = Score(report, 0)
    assert score.actions == "likeliest"
    assert [tuple(row) for row in score.rows()] == [
        ("a", 2, True, 3.0, 0.25),
        ("b", 6, False, -1.0, 0.5),
        ("c", 6, False, -1.0, 0.5),
        ("d", 2, True, 0.0, 1.0),
        ("e?team=0", 2, True, 3.0, 0.25),
        ("e?team=1", 2, True, 0.0, 0.0),
    ]


def test_all_figures_of_a_card_are_roundings_of_one_number():
    """.125004 is .13, but .125, which the card has as a number, is .12: readers would see two scores."""
    row = {"episodes": 3, "mean_reward": 0.125004, "std_reward": 0.0}
    score = Score({"actions": "deterministic", "behaviors": {"Walker": row}}, 0)
    text = make_markdown(Card("walk", (), score=score))
    assert front(text)["model-index"][0]["results"][0]["metrics"][0]["value"] == "0.12 +/- 0.00"
    assert read_front(text)["score"]["behaviors"]["Walker"]["mean"] == 0.125


def test_the_command_of_a_resumed_run_makes_it_anew(tmp_path):
    """Others have no run that could be resumed or overwritten, nor this machine's folders and ports."""
    words = (
        "lanista-learn c.yaml --resume --run-id walk --results-dir /home/me --force --base-port 5010 --seed 1"
    )
    folder = make_run(tmp_path, "walk", timers={"metadata": {"command_line_arguments": words}})
    assert Training(read_run(folder)).command == "lanista-learn c.yaml --run-id walk --seed 1"


@pytest.mark.parametrize(
    "words",
    [
        [
            "lanista-learn",
            "c.yaml",
            "--run-id",
            "ü x.y",
            "--set",
            "behaviors.A.reward_signals={extrinsic: {gamma: 0.9}}",
        ],
        ["lanista-learn", "it's.yaml", "--env-args", "", 'a "b"'],
    ],
)
def test_arguments_with_spaces_and_quotes_stay_whole(tmp_path, monkeypatch, words):
    monkeypatch.setattr("sys.argv", words)
    Timers().save(tmp_path / "timers.json")
    timers = json.loads((tmp_path / "timers.json").read_text(encoding="utf-8"))
    record = read_run(make_run(tmp_path, "walk", timers=timers))
    assert record.command == words
    assert Training(record).command == typed(words)


def test_a_command_without_quotes_of_an_older_version_is_what_spaces_part(tmp_path):
    words = r"C:\x\lanista-learn it's.yaml --run-id walk"
    folder = make_run(tmp_path, "walk", timers={"metadata": {"command_line_arguments": words}})
    assert read_run(folder).command == ["lanista-learn", "it's.yaml", "--run-id", "walk"]


@pytest.mark.parametrize("words", ["", " ", None, 3])
def test_a_command_that_is_not_known_is_empty(tmp_path, words):
    folder = make_run(tmp_path, "walk", timers={"metadata": {"command_line_arguments": words}})
    assert read_run(folder).command == []


@pytest.mark.slow
def test_what_is_not_known_of_a_model_without_a_run_is_said(results, tmp_path, capsys):
    model = tmp_path / "Basic.onnx"
    model.write_bytes((results / "walk" / "Basic.onnx").read_bytes())
    assert run(["card", str(model)]) == 0
    text = (tmp_path / "Basic.md").read_text(encoding="utf-8")
    assert "- What made it: the trainer, its settings and seed" in text
    assert "- How well it plays: the environment is not known" in text
    assert "score" not in read_front(text) and "model-index" not in text
    assert run(["card", str(model), "--env", "scene:basic", "--episodes", "3"]) == 0
    text = (tmp_path / "Basic.md").read_text(encoding="utf-8")
    assert "How well it plays" not in text and read_front(text)["environment"] == ["scene:basic"]


@pytest.mark.slow
def test_arguments_of_the_environment_follow_those_of_the_run(results, capfd):
    arguments = ["card", "walk", "--results-dir", str(results), "--episodes", "1", "--env-args", "--nonsense"]
    assert run(arguments) == 1
    assert "nonsense" in capfd.readouterr().err


def test_a_file_in_the_folder_of_a_run_has_the_runs_training(results, tmp_path):
    model = results / "walk" / "Basic.onnx"
    assert run(["card", str(model), "-o", str(tmp_path / "c.md"), "--episodes", "0", "--name", "mine"]) == 0
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert "\n# mine\n" in text and "| Seed | 7 |" in text
    assert "no episode was played (--episodes 0)" in text


def test_a_file_of_someone_else_stays(results, tmp_path, capsys):
    mine = tmp_path / "README.md"
    mine.write_text("my own words")
    arguments = ["card", str(results / "walk"), "-o", str(mine), "--episodes", "0"]
    assert run(arguments) == 1
    assert "lanista card did not make it. Give another place with -o" in capsys.readouterr().err
    assert mine.read_text() == "my own words"
    mine.unlink()
    assert run(arguments) == run(arguments) == 0, "its own card is made again"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["walc"], "Did you mean walk?"),
        (["walk", "--env", "scene:ball3d", "--episodes", "1"], "lanista play failed (above)"),
        (["walk", "-o", "nowhere/card.md", "--episodes", "0"], "Give another place with -o"),
    ],
)
def test_what_cannot_be_done_is_told(results, given, says, capsys, monkeypatch):
    monkeypatch.chdir(results)
    assert run(["card", *given, "--results-dir", "."]) == 1
    assert says in capsys.readouterr().err


HOSTILE = "<script>alert(1)</script> \"'`|[x](javascript:alert(2))\x1b[31m\n# head ---\n"


def test_hostile_names_are_shown_and_are_no_markup(tmp_path):
    folder = tmp_path / "r"
    (folder / "run_logs").mkdir(parents=True)
    settings = {
        "behaviors": {HOSTILE: {"trainer_type": HOSTILE, "time_horizon": 1}},
        "env_settings": {"env_path": HOSTILE, "env_args": [HOSTILE], "seed": 1},
    }
    (folder / "configuration.yaml").write_text(yaml.safe_dump(settings))
    timers = {"metadata": {"command_line_arguments": f"a {HOSTILE}", "pytorch_version": HOSTILE}}
    (folder / "run_logs" / "timers.json").write_text(json.dumps(timers))
    (folder / "m.onnx").write_bytes(b"model")
    training = Training(read_run(folder, HOSTILE))
    model = ModelFile.read(folder / "m.onnx", HOSTILE)
    text = make_markdown(Card(HOSTILE, [model], [training], training.environment, unknown=[HOSTILE]))
    assert [x for x in text if not x.isprintable() and x != "\n"] == []
    assert read_front(text)["models"][0]["behavior"] == HOSTILE, "the YAML holds the name itself"
    body = text.split("---\n", 2)[2] if text.count("---\n") == 2 else text[text.index("<!-- Made by") :]
    lines = [
        line
        for line in body.splitlines()
        if not line.startswith("    ") and "`" not in line.replace("\\`", "")
    ]
    prose = "\n".join(lines).replace("<!-- Made by", "")
    for markup in ("<", "|[", "[x]"):
        assert f"\\{markup[0]}" in prose
    assert "<script" not in prose.replace("\\<", "") and "[x](" not in prose.replace("\\[x\\](", "")
    assert not any(line.startswith("# head") for line in body.splitlines())


@pytest.mark.parametrize(
    "settings", [{"behaviors": 3}, {"behaviors": {"Ball": {"trainer_type": "none"}}}, {}]
)
def test_settings_that_cannot_be_read_leave_their_table_out(tmp_path, settings):
    (tmp_path / "run_logs").mkdir()
    (tmp_path / "configuration.yaml").write_text(yaml.safe_dump(settings))
    training = Training(read_run(tmp_path, "r"))
    assert training.settings() == {}
    assert "not at their defaults" not in make_markdown(Card("r", [], [training]))


def test_a_damaged_card_is_none():
    for text in ("", "---\na: [\n---\n", "# words", "---\nlanista: 3\n---\n<!-- Made by lanista card: what"):
        assert read_front(text) == {}


def test_every_trainer_has_its_paper():
    assert set(PAPERS) == set(trainer_types)


def test_checkpoints_have_a_card(tmp_path):
    settings = NetworkSettings(hidden_units=8, num_layers=1)
    network = Actor(vector_spec([3], continuous=2), settings)
    brain = describe_network("Ball", network.spec, settings, [], None)
    save_checkpoint(tmp_path / "Ball.pt", {"Policy": network.state_dict(), "step": 12, "brain": brain})
    assert run(["card", str(tmp_path / "Ball.pt")]) == 0
    assert "| Ball.pt | Ball | 3 | 2 continuous, -1 to 1 |" in (tmp_path / "Ball.md").read_text("utf-8")
