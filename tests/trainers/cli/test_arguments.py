"""Arguments that several commands have in common say what they expect."""

import pytest
from lanista.trainers.cli.main import run


@pytest.mark.parametrize("text", ["abc", "0", "-1", "1.5", "²", "9" * 5000])
@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("play", "--episodes"),
        ("play", "--max-decisions"),
        ("play", "--render-steps"),
        ("play", "--num-areas"),
        ("tournament", "--games"),
        ("tournament", "--num-areas"),
        ("init", "--num-areas"),
        ("card", "--num-areas"),
    ],
)
def test_a_count_is_a_whole_number_from_1_up(command, flag, text, capsys):
    with pytest.raises(SystemExit):
        run([command, *(["walls"] if command != "init" else []), f"{flag}={text}"])
    assert f"argument {flag}: found {text!r}, expected a whole number from 1 up" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["abc", "-1", "1.5"])
def test_a_card_may_be_without_a_score_and_no_episodes_are_less(text, capsys):
    with pytest.raises(SystemExit):
        run(["card", "walls", f"--episodes={text}"])
    says = f"argument --episodes: found {text!r}, expected a whole number from 0 up"
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "abc", ""])
def test_a_reward_to_compare_with_is_a_finite_number(text, capsys):
    with pytest.raises(SystemExit):
        run(["runs", f"--min-reward={text}"])
    assert f"argument --min-reward: found {text!r}, expected a finite number" in capsys.readouterr().err
