"""Self-play: one team learns, the others act with snapshots of earlier weights.

Bansal et al. 2018, Emergent complexity via multi-agent competition (arXiv 1710.03748): opponents are sampled
from the past, so that a policy does not only beat its newest self. The order of events is ML-Agents'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ....agent_processor.queues import StatsSink
from ....agent_processor.trajectory import AgentKey, EpisodesDropped, Trajectory
from ....envs.base import StatsAggregationMethod
from ...settings.models.behavior import OpponentSampling, SelfPlaySettings
from ...utils import distributed
from .snapshots import (
    NEWEST,
    Snapshot,
    SnapshotPool,
    prioritized_choice,
    records_of,
    restore_records,
    result_of,
    team_of,
)
from .team_rotation import TeamRotation

Item = Trajectory | EpisodesDropped


class NewestSteps:
    """Selects the trajectories in which the newest weights acted, whichever team's they are.

    A trajectory ends where its team gets other weights (`AgentProcessor`): it is wholly of the newest ones,
    as they were at each of its steps, or wholly of a snapshot.
    """

    def __init__(self) -> None:
        self._open: set[AgentKey] = set()
        """Opponents in episodes that go on, of whose trajectories so far none is missing at the end."""
        self._gaps: set[AgentKey] = set()
        """Opponents whose trajectories were learned from until a snapshot acted for them."""

    def select(self, trajectory: Trajectory, own: bool) -> list[Item]:
        """The trajectory if it is to be learned from; `own`: whether it is of the learning team.

        What a trainer keeps of an agent from one trajectory to the next (the state of a critic's memory, the
        return so far) is dropped where steps in between are missing.
        """
        agent = trajectory.agent
        if trajectory.by_snapshot:
            if agent in self._open:
                self._open.remove(agent)
                self._gaps.add(agent)
            return []
        if own:
            return [trajectory]
        trajectory.of_opponent = True
        dropped = self._close_gaps()
        if trajectory.done_reached:
            self._open.discard(agent)
        else:
            self._open.add(agent)
        return [*dropped, trajectory]

    def _close_gaps(self) -> list[EpisodesDropped]:
        """What is to be dropped now, together: trajectories are processed together in between."""
        gaps, self._gaps = sorted(self._gaps), set()
        return [
            EpisodesDropped(env, np.array([key.agent for key in keys], dtype=np.int32))
            for env, keys in groupby(gaps, key=attrgetter("env"))
        ]

    def on_dropped(self, dropped: EpisodesDropped) -> None:
        """These episodes will not go on."""
        for agents in (self._open, self._gaps):
            if dropped.env is None:
                agents.clear()
            elif dropped.agent_ids is None:
                agents -= {key for key in agents if key.env == dropped.env}
            else:
                agents -= {AgentKey(dropped.env, agent) for agent in dropped.agent_ids.tolist()}


AVERAGE = StatsAggregationMethod.AVERAGE
ELO = "Self-play/ELO"
WIN_RATE = "Self-play/Win Rate"
"""The statistic of the learner's win rate against the snapshot that was chosen, as estimated then."""
OPPONENT_SHARE = "Self-play/Opponent Share"
"""The statistic of the opponents' share of the steps that are learned from."""
_NEWEST_KEY = -1
"""The key of the newest weights among the numbers of teams, which are not negative."""


class WeightAssigner(Protocol):
    """Applies the choice of the weights with which a team acts from now on."""

    def learn(self, team: int) -> None:
        """The team acts with the weights that are being trained."""
        ...

    def assign(self, team: int, snapshot: Snapshot) -> None:
        """The team acts with the weights of a snapshot."""
        ...


class RandomSource(Protocol):
    """The random numbers by which opponents are chosen."""

    def uniform(self) -> float:
        """A random number from [0, 1)."""
        ...

    def below(self, n: int) -> int:
        """A random number from 0 to n - 1."""
        ...


class SeededRandom:
    """Random numbers from a generator of their own."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self) -> float:
        """A random number from [0, 1)."""
        return float(torch.rand((), generator=self.generator))

    def below(self, n: int) -> int:
        """A random number from 0 to n - 1."""
        return int(torch.randint(n, (), generator=self.generator))


class SelfPlay:
    """The self-play of one behavior: what it learns from, whom it plays against, and how it is rated.

    Used around a trainer: `split_by_team` what was collected, let the trainer advance, then `advance`.
    """

    def __init__(
        self,
        settings: SelfPlaySettings,
        rotation: TeamRotation,
        weights: Callable[[], Mapping[str, Tensor]],
        assigner: WeightAssigner,
        random: RandomSource,
        stats: StatsSink,
    ) -> None:
        """Start without any team.

        Args:
            settings: those of self-play.
            rotation: the rotation of all behaviors' teams.
            weights: returns a copy of the current weights.
            assigner: applies the choice of the teams' weights.
            random: chooses opponents.
            stats: gets the rating after every game that counts.
        """
        self.settings = settings
        self.rotation = rotation
        self.pool = SnapshotPool(settings.window, settings.initial_elo)
        self.teams: list[int] = []
        """The teams of this behavior, in the order in which they appeared."""
        self.learning: int | None = None
        """The team that learns, as of the last `advance`; it may be another behavior's."""
        self.opponent = 0
        """The pool's slot of the snapshot that plays against the learner; `NEWEST` for the newest weights."""
        self.opponents_step = 0
        """Steps of teams that did not learn, which no trainer counts."""
        self.last_save = self.last_swap = self.last_team_change = 0
        self.assigned: dict[int, Snapshot] = {}
        """The snapshots that teams act with; all others act with the newest weights."""
        self._newest_steps = NewestSteps() if settings.learn_from_both_sides else None
        self._weights = weights
        self._assigner = assigner
        self._random = random
        self._stats = stats
        self._newest: Snapshot | None = None

    @property
    def elo(self) -> float:
        """The learner's rating."""
        return self.pool.ratings[NEWEST]

    @property
    def opponent_rating(self) -> float:
        """The rating of the snapshot that plays against the learner."""
        return self.pool.ratings[self.opponent]

    def lower_opponent_rating(self, change: float) -> None:
        """Lower that snapshot's rating: the learner has gained `change` points in a game against it."""
        self.pool.ratings[self.opponent] -= change

    def add_result(self, team: int, result: float) -> None:
        """Record the learner's result, 0 to 1, of a game against the snapshot of this team."""
        if self.settings.opponent_sampling is OpponentSampling.PRIORITIZED and team in self.assigned:
            self.assigned[team].record.add(result)

    def join(self, team: int) -> None:
        """A team of this behavior has appeared; it learns, or acts with the initial weights."""
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
        """The current weights; the same snapshot as before if they have not changed since."""
        if self._newest is None:
            self._newest = Snapshot(self._weights())
        return self._newest

    def on_update(self) -> None:
        """The weights have changed."""
        self._newest = None

    # Trajectories ---------------------------------------------------------------------------------------

    def split_by_team(self, collected: Iterable[Item]) -> list[Item]:
        """The trajectories that are to be learned from. The learning team's games are rated here.

        They are the learning team's, and with `learn_from_both_sides` all that the newest weights acted in.
        """
        both_sides = None if self.learning not in self.teams else self._newest_steps
        kept: list[Item] = []
        for item in collected:
            if isinstance(item, EpisodesDropped):
                kept.append(item)
                if both_sides is not None:
                    both_sides.on_dropped(item)
                continue
            own = team_of(item.behavior_id) == self.learning
            if both_sides is not None:  # a team acts with a snapshot until it hears that it learns
                own = own and not item.by_snapshot
            if own:
                self._rate(item)
            else:
                self.opponents_step += len(item)
            if both_sides is not None:
                kept += both_sides.select(item, own)
            elif own:
                kept.append(item)
        if both_sides is not None:
            self._report_opponent_share(kept)
        return kept

    def _report_opponent_share(self, kept: Iterable[Item]) -> None:
        lengths = [(len(item), item.of_opponent) for item in kept if isinstance(item, Trajectory)]
        steps = sum(length for length, _ in lengths)
        if steps:
            share = sum(length for length, of_opponent in lengths if of_opponent) / steps
            self._stats.add_stat(OPPONENT_SHARE, share, AVERAGE)

    def _rate(self, trajectory: Trajectory) -> None:
        """Rate the game if the trajectory is its end, and the game was not interrupted."""
        over = trajectory.done_reached and not trajectory.life_lost
        if not over or not trajectory.all_group_dones_reached or trajectory.interrupted:
            return
        # First: a game against the newest weights themselves takes from the same rating what it gives.
        change = self.rotation.rate(self.elo, result_of(trajectory.last_reward))
        self.pool.ratings[NEWEST] += change
        self._stats.add_stat(ELO, self.elo, AVERAGE)

    # Changes that are due -------------------------------------------------------------------------------

    def detect_team_change(self, step: int) -> None:
        """Note, before the trainer advances, a change of the learning team that another behavior has made."""
        if self.rotation.learning != self.learning:
            self.last_team_change = step

    def follow_first_rank(self) -> None:
        """Take over the ratings, records and opponents' steps of rank 0, by which all choose opponents."""
        if distributed.world_size() > 1:
            snapshots = [*self.pool.snapshots, *self.assigned.values()]
            known = (self.opponents_step, self.pool.ratings, records_of(snapshots))
            self.opponents_step, self.pool.ratings, records = distributed.broadcast(known)
            restore_records(snapshots, records)

    def advance(self, step: int) -> None:
        """Change the team, save and swap snapshots as due, after the trainer has advanced to `step`."""
        settings = self.settings
        if self._is_team_change_due(step):
            self.rotation.change()
            self.last_team_change = step
        if step - self.last_save > settings.save_steps:
            self.pool.save(self.newest)
            self.last_save = step
        changed = self.rotation.learning != self.learning
        if changed or self.opponents_step - self.last_swap > settings.swap_steps:
            self._swap(changed)
            self.last_swap = self.opponents_step

    def _is_team_change_due(self, step: int) -> bool:
        return step - self.last_team_change > self.settings.team_change

    def _swap(self, changed: bool) -> None:
        """Assign another snapshot, or the newest weights, to every team that does not learn."""
        self.learning = self.rotation.learning
        if changed and self.learning in self.teams:
            self._let_learn(self.learning)
        for team in self.teams:
            if team == self.learning:
                continue
            if self._random.uniform() < 1 - self.settings.play_against_latest_model_ratio:
                self.opponent = self._choose_snapshot()
                self._assign(team, self.pool.snapshots[self.opponent])
            else:
                self.opponent = NEWEST
                if self._newest_steps is not None and self.learning in self.teams:
                    self._let_learn(team)
                else:
                    self._assign(team, self.newest)

    def _choose_snapshot(self) -> int:
        """The pool's slot of the next opponent."""
        snapshots = self.pool.snapshots
        if self.settings.opponent_sampling is not OpponentSampling.PRIORITIZED:
            return self._random.below(len(snapshots))
        rates = [snapshot.record.win_rate for snapshot in snapshots]
        chosen = prioritized_choice(rates, self._random.uniform())
        self._stats.add_stat(WIN_RATE, rates[chosen], AVERAGE)
        return chosen

    def _let_learn(self, team: int) -> None:
        """Let the team act with the weights that are being trained, whatever they become."""
        self.assigned.pop(team, None)
        self._assigner.learn(team)

    def _assign(self, team: int, snapshot: Snapshot) -> None:
        self.assigned[team] = snapshot
        self._assigner.assign(team, snapshot)

    # Files ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next games depend on, including the weights of all opponents, each stored once."""
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
            **(
                {"draws": self._random.generator.get_state()}
                if isinstance(self._random, SeededRandom)
                else {}
            ),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; a smaller `window` keeps the youngest snapshots."""
        self.rotation.load_state_dict(state["rotation"])
        known = self.pool.load_state_dict(state)
        self.teams = list(state["teams"])
        self.learning = state["learning"]
        self.opponent = int(state["opponent"])
        if self.opponent != NEWEST and len(state["ratings"]) != len(self.pool.ratings):
            # With another window it lies elsewhere.
            playing = known[state["slots"][self.opponent]]
            places = [place for place, one in enumerate(self.pool.snapshots) if one is playing]
            self.opponent = places[0] if places else 0
        self.opponents_step, self.last_save, self.last_swap, self.last_team_change = map(int, state["steps"])
        if isinstance(self._random, SeededRandom):
            self._random.generator.set_state(state["draws"])
        self._newest = None if state["newest"] is None else known[state["newest"]]
        assigned = {int(team): known[number] for team, number in state["assigned"].items()}
        for team in self.teams:
            if team in assigned:
                self._assign(team, assigned[team])
            else:
                self._let_learn(team)
