"""`lanista check` says what lanista-learn would say, without an engine and without torch."""

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"good": GOOD, "bad": BAD, "later": LATER}.items():
        Path(f"{name}.yaml").write_text(text)
    return tmp_path


def checked(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    status = run(["check", *argv])
    captured = capsys.readouterr()
    assert not captured.err
    return status, captured.out.splitlines()


def test_a_good_file_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys, "good.yaml") == (0, ["good.yaml: ok (Ball: ppo)"])


def test_all_that_is_wrong_is_told_and_the_status_is_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = checked(capsys, "bad.yaml")
    assert status == 1
    assert lines[0] == "bad.yaml: 2 problems"
    assert lines[1].startswith("  bad.yaml, line 3: env_setings: unknown key. Did you mean `env_settings`?")
    assert lines[2].startswith("  bad.yaml, line 2: behaviors.Ball.max_step: unknown key.")


def test_what_is_right_and_cannot_be_trained_yet_ends_with_3(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = checked(capsys, "later.yaml", "good.yaml")
    assert status == 3
    assert lines[0] == "later.yaml: valid, but not trainable yet"
    assert lines[1].startswith("  later.yaml, line 4: behaviors.Ball.network_settings.memory: this ver")
    assert lines[2] == "  warning: max_steps: 12.5 is not a whole number; 12 is used."
    assert lines[3] == "good.yaml: ok (Ball: ppo)"


def test_each_file_is_told_of_and_the_worst_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = checked(capsys, "good.yaml", "absent.yaml", "later.yaml")
    assert status == 1
    assert [line for line in lines if not line.startswith(" ")] == [
        "good.yaml: ok (Ball: ppo)",
        "absent.yaml: 1 problem",
        "later.yaml: valid, but not trainable yet",
    ]


def test_parts_are_right_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("part.yaml").write_text("behaviors: {Ball: {hyperparameters: {batch_size: 64}}}\n")
    assert checked(capsys, "part.yaml")[0] == 1
    assert checked(capsys, "--together", "good.yaml", "part.yaml") == (
        0,
        ["good.yaml + part.yaml: ok (Ball: ppo)"],
    )


def test_presets_lie_under_each_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_what_trains_nothing_is_wrong(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.yaml").write_text(text)
    status, lines = checked(capsys, "odd.yaml")
    assert status == 1 and lines[0] == "odd.yaml: 1 problem" and len(lines) == 2


def test_nothing_to_check_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(["check"])
    assert stop.value.code == 2
    assert "give a file to check" in capsys.readouterr().err


def test_the_schema_can_be_had_from_an_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_neither_torch_nor_an_engine_is_loaded(folder: Path) -> None:
    code = (
        "import sys; from lanista.trainers.cli.main import run; run(['check', 'good.yaml']); "
        "print([m for m in ('torch', 'onnx', 'grpc', 'mlagents_envs', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["good.yaml: ok (Ball: ppo)", "[]"]


def test_names_that_a_pipe_cannot_write_do_not_stop_it(folder: Path) -> None:
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


def test_the_verdict_counts_every_line_below_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "behaviors: {A: {trainer_type: td3, network_settings: {memory: {}}}, B: {reward_signals: {}}}"
    Path("both.yaml").write_text(text)
    status, lines = checked(capsys, "both.yaml")
    assert (status, lines[0], len(lines)) == (1, "both.yaml: 2 problems", 3)
