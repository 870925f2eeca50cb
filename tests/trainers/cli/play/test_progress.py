"""While it plays, `lanista play` tells how far it is."""

import io
import logging
from dataclasses import dataclass, field

from lanista.trainers.cli.play.player import BehaviorResult, Episode
from lanista.trainers.cli.play.progress import BETWEEN, Progress
from rich.console import Console


@dataclass
class FakePlayer:
    episodes: int = 4
    steps: int = 0
    finished: dict = field(default_factory=dict)

    def end(self, reward):
        self.finished.setdefault("Ball", BehaviorResult()).add(Episode(True, reward, 3))


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
