"""Missing demonstrations are reported before anything starts."""

from pathlib import Path

import pytest
from lanista.trainers.learn import run
from lanista.trainers.runner.preflight import check_demonstrations
from lanista.trainers.settings import RunOptions, TrainerConfigError

DEMO = Path(__file__).parents[3] / "real" / "demos" / "Realbasic.demo"
YAML = """\
behaviors:
  Ball:
    trainer_type: ppo
    reward_signals: {{extrinsic: {{}}, gail: {{demo_path: {gail}}}}}
    behavioral_cloning: {{demo_path: {cloning}}}
"""
REPLAY = "    demonstrations: {demo_path: lost.demo}\n"


def test_each_key_is_named(tmp_path):
    text = YAML.format(gail="gone.demo", cloning=tmp_path) + REPLAY
    options = RunOptions.from_text(text.replace("ppo", "sac"), "ball.yaml")
    with pytest.raises(TrainerConfigError) as caught:
        check_demonstrations(options)
    text = str(caught.value)
    assert "ball.yaml, line 4: behaviors.Ball.reward_signals.gail.demo_path: found 'gone.demo'." in text
    assert "gone.demo: the demonstration file or directory does not exist" in text
    assert "behaviors.Ball.behavioral_cloning.demo_path" in text and "no '.demo' files" in text
    assert "ball.yaml, line 6: behaviors.Ball.demonstrations.demo_path: found 'lost.demo'." in text


def test_files_and_folders_that_are_there_will_do():
    check_demonstrations(RunOptions.from_text(YAML.format(gail=DEMO, cloning=DEMO.parent)))


def test_an_inference_clones_nothing():
    options = RunOptions.from_text(
        YAML.format(gail=DEMO, cloning="gone.demo").replace("ppo", "sac")
        + REPLAY
        + "checkpoint_settings: {inference: true}\n"
    )
    check_demonstrations(options)


def test_a_run_does_not_start_without_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("ball.yaml").write_text(YAML.format(gail="gone.demo", cloning=DEMO))
    assert run(["ball.yaml", "--env", "scene:ball3d"]) == 1
    assert "behaviors.Ball.reward_signals.gail.demo_path: found 'gone.demo'" in capsys.readouterr().err
    assert not Path("results").exists()
