"""While it plays, `lanista play` tells how far it is."""

import io
import logging

from lanista.trainers.cli.play.progress import BETWEEN, Progress
from lanista.trainers.episodes.scores import EpisodeCounter, Scores
from rich.console import Console
from told_steps import asking, ending


class FakePlayer:
    episodes = 4

    def __init__(self, steps=0):
        self.steps = steps
        self.counter = EpisodeCounter([Scores("Ball", 4), Scores("Goal", 4)])

    def end(self, reward, name="Ball?team=0"):
        agent = self.counter.number
        self.counter.add({name: (asking((agent, 0)), ending())})
        self.counter.add({name: (asking(), ending((agent, reward)))})


def test_elsewhere_than_on_a_terminal_there_is_a_message_now_and_then(caplog):
    player, now = FakePlayer(), [0.0]
    progress = Progress(player, None, lambda: now[0])
    with caplog.at_level(logging.INFO), progress:
        for second in range(1, 26):
            now[0] = float(second)
            player.steps += 100
            if second in (3, 19):
                player.end(second)
            progress.step()
    assert BETWEEN == 10.0
    assert caplog.messages == [
        "1 of 4 episodes, mean reward 3.000, step 1,000, 100/s",
        "2 of 4 episodes, mean reward 11.000, step 2,000, 100/s",
    ]


def test_on_a_terminal_a_line_is_drawn_and_removed_at_the_end(caplog):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=40, _environ={"TERM": "xterm"})
    player = FakePlayer(steps=3)
    with caplog.at_level(logging.INFO), Progress(player, console, lambda: 1.0) as progress:
        progress.step()
    assert "0 of 4 episodes, step 3" in screen.getvalue() and not caplog.messages
    assert screen.getvalue().endswith("\x1b[2K"), "the line is erased"


def test_several_behaviors_and_teams_have_a_mean_each():
    player = FakePlayer(steps=7)
    player.end(1.0)
    player.end(2.0)
    player.end(-1.0, "Goal?team=1")
    text = Progress(player, None, lambda: 1.0).text()
    assert text == "1 of 4 episodes of each, mean rewards Ball?team=0 1.500, Goal?team=1 -1.000, step 7"


def test_teams_are_told_in_the_same_terms_also_where_groups_of_one_earn_nothing():
    player = FakePlayer(steps=7)
    for team, of_group in (0, 0.5), (1, 0.0):
        agent = player.counter.number
        name = f"Ball?team={team}"
        player.counter.add({name: (asking((agent, 0, 7)), ending())})
        player.counter.add({name: (asking(), ending((agent, -9, 7, of_group)))})
    text = Progress(player, None, lambda: 1.0).text()
    assert "mean rewards Ball?team=0 0.500, Ball?team=1 0.000, step 7" in text
