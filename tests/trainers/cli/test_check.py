"""`lanista check` reports what lanista-learn would report, without an engine and without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.settings.schema import json_schema

GOOD = "behaviors: {Ball: {trainer_type: ppo}}\n"
BAD = "behaviors:\n  Ball: {trainer_type: ppo, max_step: 3}\nenv_setings: {}\n"
LATER = (
    "behaviors:\n  Ball:\n    trainer_type: td3\n    network_settings: {memory: {}}\n    max_steps: 12.5\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"good": GOOD, "bad": BAD, "later": LATER}.items():
        Path(f"{name}.yaml").write_text(text)
    return tmp_path


def checked(capsys, *argv):
    status = run(["check", *argv])
    captured = capsys.readouterr()
    assert not captured.err
    return status, captured.out.splitlines()


@pytest.mark.parametrize(
    ("files", "status", "lines"),
    [
        (["good.yaml"], 0, ["good.yaml: ok (Ball: ppo)"]),
        (
            ["bad.yaml"],
            1,
            [
                "bad.yaml: 2 problems",
                "  bad.yaml, line 3: env_setings: unknown key. Did you mean `env_settings`?",
                "  bad.yaml, line 2: behaviors.Ball.max_step: unknown key.",
            ],
        ),
        (
            ["later.yaml", "good.yaml"],
            3,
            [
                "later.yaml: valid, but not trainable yet",
                "  later.yaml, line 4: behaviors.Ball.network_settings.memory: this ver",
                "  warning: later.yaml, line 5: behaviors.Ball.max_steps: 12.5 is not a whole number",
                "good.yaml: ok (Ball: ppo)",
            ],
        ),
    ],
)
def test_each_file_gets_a_verdict_and_a_line_for_each_problem(folder, capsys, files, status, lines):
    found, said = checked(capsys, *files)
    assert found == status and len(said) == len(lines)
    assert all(line.startswith(start) for line, start in zip(said, lines)), said


def test_the_worst_file_decides_the_status(folder, capsys):
    status, lines = checked(capsys, "good.yaml", "absent.yaml", "later.yaml")
    verdicts = [line.partition(": ")[2] for line in lines if not line.startswith(" ")]
    assert (status, verdicts) == (1, ["ok (Ball: ppo)", "1 problem", "valid, but not trainable yet"])


def test_parts_are_valid_together(folder, capsys):
    Path("part.yaml").write_text("behaviors: {Ball: {hyperparameters: {batch_size: 64}}}\n")
    assert checked(capsys, "part.yaml")[0] == 1
    assert checked(capsys, "--together", "good.yaml", "part.yaml") == (
        0,
        ["good.yaml + part.yaml: ok (Ball: ppo)"],
    )


def test_each_file_overrides_the_presets(folder, capsys):
    Path("part.yaml").write_text("behaviors: {3DBall: {hyperparameters: {batch_size: 1}}}\n")
    status, lines = checked(capsys, "part.yaml", "good.yaml", "--preset", "ppo/ball3d")
    assert status == 0
    assert lines == [
        "preset ppo/ball3d + part.yaml: ok (3DBall: ppo)",
        "preset ppo/ball3d + good.yaml: ok (3DBall: ppo, Ball: ppo)",
    ]
    assert checked(capsys, "--preset", "ppo/basic") == (0, ["preset ppo/basic: ok (Basic: ppo)"])
    assert checked(capsys, "--preset", "ppo/basics")[0] == 1


@pytest.mark.parametrize(
    "text", ["", "env_settings: {seed: 1}\n", "- a\n", "\tbehaviors:\n", "behaviors: [\n"]
)
def test_a_file_that_trains_nothing_is_wrong(text, folder, capsys):
    Path("odd.yaml").write_text(text)
    status, lines = checked(capsys, "odd.yaml")
    assert status == 1 and lines[0] == "odd.yaml: 1 problem" and len(lines) == 2


@pytest.mark.parametrize(
    ("word", "preset"),
    [
        ("ball3d", "ppo/ball3d"),
        ("scene:coop-push?size=small", "poca/coop-push-small"),
        ("config/sac/ball3d.yaml", "sac/ball3d"),
    ],
)
def test_settings_that_come_with_lanista_are_named_for_a_file_that_is_not_there(word, preset, folder, capsys):
    status, lines = checked(capsys, word)
    assert status == 1 and "could not be found" in lines[1]
    assert lines[2:] == [
        f"  Settings for {word} come with Lanista. Check them: lanista check --preset {preset}"
    ]
    assert run(["check", "--preset", preset]) == 0


def test_a_file_that_is_not_there_and_means_nothing_known_gets_no_advice(folder, capsys):
    status, lines = checked(capsys, "ball3d_mine.yaml")
    assert status == 1 and not any("come with Lanista" in line for line in lines)


def test_nothing_to_check_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        run(["check"])
    assert stop.value.code == 2
    assert "give a file to check" in capsys.readouterr().err


def test_the_schema_is_printed(capsys):
    assert run(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_neither_torch_nor_an_engine_is_loaded(folder):
    code = (
        "import sys; from lanista.trainers.cli.main import run; run(['check', 'good.yaml']); "
        "print([m for m in ('torch', 'onnx', 'grpc', 'mlagents_envs.base_env', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["good.yaml: ok (Ball: ppo)", "[]"]


def test_names_that_a_pipe_cannot_write_do_not_stop_it(folder):
    Path("bär.yaml").write_text("behaviors: {Bär: {trainer_type: ppo, Größe: 3}}\n", encoding="utf-8")
    code = "import sys; from lanista.trainers.cli.main import run; sys.exit(run(['check', 'bär.yaml']))"
    command = [sys.executable, "-X", "utf8=0", "-c", code]
    result = subprocess.run(
        command,
        capture_output=True,
        check=False,
        env={**__import__("os").environ, "PYTHONIOENCODING": "ascii"},
    )
    assert result.returncode == 1 and b"Traceback" not in result.stderr
    assert b"b\\xe4r.yaml: 1 problem" in result.stdout


def test_the_verdict_counts_every_line_below_it(folder, capsys):
    text = "behaviors: {A: {trainer_type: td3, network_settings: {memory: {}}}, B: {reward_signals: {}}}"
    Path("both.yaml").write_text(text)
    status, lines = checked(capsys, "both.yaml")
    assert (status, lines[0], len(lines)) == (1, "both.yaml: 2 problems", 3)
