"""What the section self_play says, and what it warns of."""

import pytest
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions


def section(text):
    return RunOptions.from_text(f"behaviors: {{B: {{self_play: {{{text}}}}}}}").behaviors["B"].self_play


def test_the_team_changes_after_five_snapshots_unless_it_is_said():
    assert section("save_steps: 700").team_change == 3500
    assert section("save_steps: 700, team_change: 9").team_change == 9


@pytest.mark.parametrize(("ratio", "who"), [("1.5", "the newest policy"), ("-0.1", "a snapshot")])
def test_a_ratio_that_is_no_probability_is_warned_of(caplog, ratio, who):
    assert section(f"play_against_latest_model_ratio: {ratio}").play_against_latest_model_ratio == float(
        ratio
    )
    assert f"the opponent is always {who}" in caplog.text


def test_a_probability_is_not(caplog):
    for ratio in ("0", "1", "0.5"):
        section(f"play_against_latest_model_ratio: {ratio}")
    assert not caplog.text


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        (
            "learn_from_both_sides: true, play_against_latest_model_ratio: 0",
            "learn_from_both_sides",
            "never act",
        ),
        (
            "opponent_sampling: prioritized, play_against_latest_model_ratio: 1",
            "opponent_sampling",
            "no snapshot ever plays",
        ),
    ],
)
def test_keys_that_could_have_no_effect_are_refused(text, key, why):
    with pytest.raises(TrainerConfigError, match=why) as error:
        section(text)
    assert f"behaviors.B.self_play.{key}" in str(error.value)
