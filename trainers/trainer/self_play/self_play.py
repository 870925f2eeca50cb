"""Self-play: one team learns, the others act by snapshots of what was learnt before.

Bansal et al. 2018, Emergent complexity via multi-agent competition (arXiv 1710.03748): opponents are drawn
from the past, so that a policy is not good against its newest self alone. The order of events is ML-Agents'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor

from ....agent_processor.stats_sink import StatsSink
from ....agent_processor.trajectory import EpisodesForgotten, Trajectory
from ....envs.base import BehaviorName, StatsAggregationMethod
from ...settings.models.self_play import SelfPlaySettings
from .snapshots import NEWEST, Snapshot, SnapshotPool, result_of
from .team_rotation import TeamRotation

Item = Trajectory | EpisodesForgotten
ELO = "Self-play/ELO"
_NEWEST_KEY = -1
"""Among the numbers of teams, which are not negative."""


class Seats(Protocol):
    """Who is told by which weights a team acts from now on."""

    def learn(self, team: int) -> None:
        """By those that are being learnt."""
        ...

    def assign(self, team: int, snapshot: Snapshot) -> None:
        """By those of a snapshot."""
        ...


class Draws(Protocol):
    """The chance by which opponents are chosen."""

    def uniform(self) -> float:
        """From 0 to below 1."""
        ...

    def below(self, n: int) -> int:
        """One of 0 to n - 1."""
        ...


class SeededDraws:
    """Draws from a generator of their own."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self) -> float:
        """From 0 to below 1."""
        return float(torch.rand((), generator=self.generator))

    def below(self, n: int) -> int:
        """One of 0 to n - 1."""
        return int(torch.randint(n, (), generator=self.generator))


class SelfPlay:
    """The self-play of one behaviour: what it learns from, whom it plays against, and how it is rated.

    It stands in front of a trainer: `sift` what the agents bring, let the trainer learn, then `advance`.
    """

    def __init__(
        self,
        settings: SelfPlaySettings,
        rotation: TeamRotation,
        weights: Callable[[], Mapping[str, Tensor]],
        seats: Seats,
        draws: Draws,
        stats: StatsSink,
    ) -> None:
        """Begin before any team is there.

        Args:
            settings: of self-play.
            rotation: of the teams of all behaviours.
            weights: gives a copy of what is learnt as it is now.
            seats: is told by which weights the teams act.
            draws: the chance by which opponents are chosen.
            stats: is told the rating, with every game that counts.
        """
        self.settings = settings
        self.rotation = rotation
        self.pool = SnapshotPool(settings.window, settings.initial_elo)
        self.teams: list[int] = []
        """Of this behaviour, in the order in which they were seen."""
        self.learning: int | None = None
        """The team that learns, as far as it is known here; perhaps another behaviour's."""
        self.opponent = 0
        """The slot of the snapshot that plays against the learner, `NEWEST` for the newest weights."""
        self.opponents_step = 0
        """Steps of teams that did not learn; no trainer counts them."""
        self.last_save = self.last_swap = self.last_team_change = 0
        self.assigned: dict[int, Snapshot] = {}
        """By which snapshots the teams act that do not learn."""
        self._weights = weights
        self._seats = seats
        self._draws = draws
        self._stats = stats
        self._newest: Snapshot | None = None

    @property
    def elo(self) -> float:
        """The learner's rating."""
        return self.pool.ratings[NEWEST]

    @property
    def opponent_rating(self) -> float:
        """Of the snapshot that plays against the learner."""
        return self.pool.ratings[self.opponent]

    def lower_opponent(self, change: float) -> None:
        """The learner has gained so much from a game against that snapshot."""
        self.pool.ratings[self.opponent] -= change

    def join(self, team: int) -> None:
        """A team of this behaviour is there; it learns, or acts by what a beginner knows."""
        self.rotation.join(team, self)
        if team in self.teams:
            return
        self.teams.append(team)
        if not self.pool.snapshots:
            self.pool.save(self.newest)
            self.learning = self.rotation.learning
        if team != self.learning:
            self._assign(team, self.newest)

    @property
    def newest(self) -> Snapshot:
        """What has been learnt so far; the same snapshot as before if nothing was since."""
        if self._newest is None:
            self._newest = Snapshot(self._weights())
        return self._newest

    def learnt(self) -> None:
        """The weights have changed."""
        self._newest = None

    # What comes in --------------------------------------------------------------------------------------

    def sift(
        self, collected: Iterable[Trajectory | EpisodesForgotten]
    ) -> list[Trajectory | EpisodesForgotten]:
        """What of all this is to be learnt from: the learning team's. Its games are rated here."""
        kept: list[Item] = []
        for item in collected:
            if isinstance(item, EpisodesForgotten):
                kept.append(item)
            elif _team(item.behavior_id) == self.learning:
                kept.append(item)
                self._rate(item)
            else:
                self.opponents_step += len(item)
        return kept

    def _rate(self, trajectory: Trajectory) -> None:
        """Count the game if the trajectory is its end, and nobody broke it off."""
        over = trajectory.done_reached and not trajectory.life_lost
        if not over or not trajectory.all_group_dones_reached or trajectory.interrupted:
            return
        # First: a game against the newest weights themselves takes from the same rating what it gives.
        change = self.rotation.rate(self.elo, result_of(trajectory.last_reward))
        self.pool.ratings[NEWEST] += change
        self._stats.add_stat(ELO, self.elo, StatsAggregationMethod.AVERAGE)

    # What falls due -------------------------------------------------------------------------------------

    def notice(self, step: int) -> None:
        """Before the trainer learns: where another behaviour has changed the team, that is the change."""
        if self.rotation.learning != self.learning:
            self.last_team_change = step

    def advance(self, step: int) -> None:
        """After the trainer has learnt, at its `step`: change the team, save, and swap as they are due."""
        settings = self.settings
        if step - self.last_team_change > settings.team_change:
            self.rotation.change()
            self.last_team_change = step
        if step - self.last_save > settings.save_steps:
            self.pool.save(self.newest)
            self.last_save = step
        changed = self.rotation.learning != self.learning
        if changed or self.opponents_step - self.last_swap > settings.swap_steps:
            self._swap(changed)
            self.last_swap = self.opponents_step

    def _swap(self, changed: bool) -> None:
        """Give every team that does not learn another snapshot, or the newest weights."""
        self.learning = self.rotation.learning
        if changed and self.learning in self.teams:
            self.assigned.pop(self.learning, None)
            self._seats.learn(self.learning)
        for team in self.teams:
            if team == self.learning:
                continue
            if self._draws.uniform() < 1 - self.settings.play_against_latest_model_ratio:
                self.opponent = self._draws.below(len(self.pool.snapshots))
                self._assign(team, self.pool.snapshots[self.opponent])
            else:
                self.opponent = NEWEST
                self._assign(team, self.newest)

    def _assign(self, team: int, snapshot: Snapshot) -> None:
        self.assigned[team] = snapshot
        self._seats.assign(team, snapshot)

    # Files ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next games depend on, the weights of all opponents among it, each once."""
        newest = {} if self._newest is None else {_NEWEST_KEY: self._newest}
        whole, numbers = self.pool.state_dict({**self.assigned, **newest})
        return {
            **whole,
            "newest": numbers.pop(_NEWEST_KEY, None),
            "assigned": numbers,
            "rotation": self.rotation.state_dict(),
            "teams": list(self.teams),
            "learning": self.learning,
            "opponent": self.opponent,
            "steps": [self.opponents_step, self.last_save, self.last_swap, self.last_team_change],
            **({"draws": self._draws.generator.get_state()} if isinstance(self._draws, SeededDraws) else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; another `window` keeps what has room in it."""
        self.rotation.load_state_dict(state["rotation"])
        known = self.pool.load_state_dict(state)
        self.teams = list(state["teams"])
        self.learning = state["learning"]
        self.opponent = int(state["opponent"]) if int(state["opponent"]) < len(self.pool.snapshots) else 0
        self.opponents_step, self.last_save, self.last_swap, self.last_team_change = map(int, state["steps"])
        if isinstance(self._draws, SeededDraws):
            self._draws.generator.set_state(state["draws"])
        self._newest = None if state["newest"] is None else known[state["newest"]]
        for team, number in state["assigned"].items():
            self._assign(int(team), known[number])


@lru_cache(maxsize=256)
def _team(behavior_id: str) -> int:
    return BehaviorName.parse(behavior_id).team_id
