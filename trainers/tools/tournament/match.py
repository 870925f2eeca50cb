"""Matches: a number of games between two participants in one environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps
from numpy.typing import NDArray

from ....envs.base import MAX_IDLE_STEPS, BehaviorId, BehaviorName
from ...episodes import MAX_DECISIONS
from ...episodes.scores import EpisodeCounter, Scores
from ...policies.onnx.loaded_policy import PlayablePolicy, misfits
from ...trainer.self_play.snapshots import DRAW, LOSS, WIN, result_of

MAX_STEPS_ALONE = 1_000
"""Steps after a reset within which a second team has to appear: engines describe a behavior only with its
first agent."""


class MatchError(Exception):
    """A match that cannot be played; the message says why."""


class MatchPolicy(Protocol):
    """A brain, or anything else that acts for the agents of one behavior."""

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Actions for the n agents of `steps`, which are of one behavior."""

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the recurrent state of these agents, whose episodes are over."""


@dataclass(eq=False)
class Participant:
    """A player: one policy per behavior, under one name."""

    name: str
    policies: Mapping[str, MatchPolicy]
    """The policies by behavior name; a policy under "" serves every behavior."""
    elo: float | None = None
    """The rating from the participant's training, if it has one."""

    def policy(self, behavior: BehaviorName) -> MatchPolicy:
        """The policy for a behavior.

        Raises:
            MatchError: there is none.
        """
        policy = self.policies.get(behavior.name) or self.policies.get("")
        if policy is None:
            available = ", ".join(self.policies) or "none"
            raise MatchError(
                f"{self.name} has no brain for the behavior {behavior.name}; it has brains for: {available}."
            )
        return policy


class Result(NamedTuple):
    """The outcome of one side's games."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """The number of games that were played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Games won, with draws counting half."""
        return self.wins + 0.5 * self.draws

    def plus(self, other: Result) -> Result:
        """The sum of both results."""
        return Result(*(mine + theirs for mine, theirs in zip(self, other)))


def teams_of(env: BaseEnv) -> list[int]:
    """Reset an environment, and step it until two teams have appeared; return the IDs of its teams.

    Raises:
        MatchError: there are fewer than two.
    """
    env.reset()
    for _ in range(MAX_STEPS_ALONE):
        teams = sorted({BehaviorName.parse(name).team_id for name in env.behavior_specs})
        if len(teams) > 1:
            break
        env.step()
    else:
        shown = ", ".join(env.behavior_specs) or "none"
        raise MatchError(
            f"A match needs two teams, but the environment has these behaviors: {shown}. Teams differ in "
            "their Team Id, as in Soccer?team=0 and Soccer?team=1."
        )
    return teams


def play_match(
    env: BaseEnv,
    sides: Mapping[int, Participant],
    team: int,
    games: int,
    *,
    deterministic: bool = False,
    max_decisions: int = MAX_DECISIONS,
) -> Result:
    """Reset the environment and play games.

    Args:
        env: the environment.
        sides: the participant that plays each team.
        team: the team whose games are counted.
        games: how many games to count.
        deterministic: take the most likely actions instead of sampling.
        max_decisions: decisions after which a game is a draw.

    Returns:
        The games that the team won, drew and lost, by the sign of the reward of its last step. Interrupted
        games are draws.

    Raises:
        MatchError: a participant has no policy for a behavior, or one that does not fit, or no agent requests
            decisions.
    """
    env.reset()
    policies: dict[BehaviorId, MatchPolicy] = {}
    counted: BehaviorId | None = None
    counter = EpisodeCounter()
    known: dict[BehaviorId, set[int]] = {}
    while True:
        for name in env.behavior_specs:
            if name not in policies:
                policies[name], known[name] = _policy_for(env, sides, name), set()
        if counted is None:
            of_team = (name for name in policies if BehaviorName.parse(name).team_id == team)
            counted = min(of_team, default=None)
            if counted is not None:
                behavior = BehaviorName.parse(counted).name
                counter.scores[behavior] = Scores(behavior, games, max_decisions, env)
        counter.add({} if counted is None else {counted: env.get_steps(counted)})
        for name, policy in policies.items():
            decisions, terminals = env.get_steps(name)
            if len(terminals):
                policy.reset_agents(terminals.agent_id, name)
            if len(decisions):
                known[name].update(decisions.agent_id.tolist())
                env.set_actions(name, policy.act(decisions, deterministic, name))
        if counter.over:
            break
        if counter.idle_steps > MAX_IDLE_STEPS:
            raise MatchError(f"No agent of team {team} requested a decision in {MAX_IDLE_STEPS} steps.")
        env.step()
    for name, policy in policies.items():
        policy.reset_agents(np.array(sorted(known[name]), np.int32), name)
    results = [result_of(last) for seat in counter.seats.values() for last in seat.last_rewards]
    return Result(*(results.count(kind) for kind in (WIN, DRAW, LOSS)))


def _policy_for(env: BaseEnv, sides: Mapping[int, Participant], name: BehaviorId) -> MatchPolicy:
    """The policy of the participant who plays a behavior's team.

    Raises:
        MatchError: there is none, or it does not fit.
    """
    behavior = BehaviorName.parse(name)
    side = sides.get(behavior.team_id)
    if side is None:
        raise MatchError(
            f"The behavior {name} appeared only after the match had begun; nobody plays its team. "
            "Let an agent of every team ask for a decision at the start."
        )
    policy = side.policy(behavior)
    problems = misfits(policy, env.behavior_specs[name]) if isinstance(policy, PlayablePolicy) else []
    if problems:
        raise MatchError(f"{side.name} does not fit the behavior {name}: {'; '.join(problems)}.")
    return policy


def play_all_sides(
    env: BaseEnv, first: Participant, second: Participant, games: int, *, deterministic: bool = False
) -> Result:
    """Play games between two participants, each team in turn; the result is the first one's (`play_match`).

    With more than two teams, `first` plays one of them and `second` all others.
    """
    teams = teams_of(env)
    whole = Result(0, 0, 0)
    for k, team in enumerate(teams):
        share = games // len(teams) + (k < games % len(teams))
        if share:
            sides = {other: first if other == team else second for other in teams}
            whole = whole.plus(play_match(env, sides, team, share, deterministic=deterministic))
    return whole
