"""Matches: a number of games between two participants in one environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ....envs.base import MAX_IDLE_STEPS, BehaviorId, BehaviorName
from ...policies.onnx.loaded_policy import PlayablePolicy, misfits
from ...trainer.self_play.snapshots import DRAW, LOSS, WIN, result_of

MAX_STEPS_ALONE = 1_000
"""Steps after a reset within which a second team has to appear: engines describe a behavior only with its
first agent."""
MAX_DECISIONS = 5_000
"""Decisions after which a game that does not end is a draw."""


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


@dataclass
class _Game:
    counted: bool
    members: set[int] = field(default_factory=set)
    """The game's living agents."""
    decisions: int = 0


class Games:
    """Counts one team's games: a game is the episode of a group, or of an agent without a group.

    The first `wanted` games that start are counted, each to its end. Counting those that end first would
    favor short games.

    Args:
        wanted: how many games to count.
        max_decisions: decisions after which a game is a draw.
    """

    def __init__(self, wanted: int, max_decisions: int) -> None:
        self.results: list[float] = []
        self._wanted = wanted
        self._max_decisions = max_decisions
        self._started = 0
        self._games: dict[tuple[str, int], _Game] = {}
        self._of_agent: dict[int, tuple[str, int]] = {}

    @property
    def over(self) -> bool:
        """Whether all counted games have ended."""
        return len(self.results) >= self._wanted

    def add(self, decisions: DecisionSteps, terminals: TerminalSteps) -> None:
        """Process one step of the team's agents."""
        earned = (terminals.reward + terminals.group_reward).tolist()
        for agent, reward, cut in zip(terminals.agent_id.tolist(), earned, terminals.interrupted.tolist()):
            if agent in self._of_agent:
                self._leave(agent, DRAW if cut else result_of(reward))
        deciding = set()
        for agent, group in zip(decisions.agent_id.tolist(), decisions.group_id.tolist()):
            key = ("group", group) if group > 0 else ("agent", agent)
            if self._of_agent.get(agent, key) != key:
                self._leave(agent, DRAW)
            if key not in self._games:
                self._games[key] = _Game(self._started < self._wanted)
                self._started += 1
            self._games[key].members.add(agent)
            self._of_agent[agent] = key
            deciding.add(key)
        for key in deciding:
            game = self._games[key]
            game.decisions += 1
            if game.decisions > self._max_decisions:
                self._end(game, DRAW)

    def _leave(self, agent: int, result: float) -> None:
        """Let the agent leave its game, whose result this is if it was the last one in it."""
        key = self._of_agent.pop(agent)
        game = self._games[key]
        game.members.discard(agent)
        if not game.members:
            del self._games[key]
            self._end(game, result)

    def _end(self, game: _Game, result: float) -> None:
        if game.counted:
            game.counted = False
            self.results.append(result)

    def result(self) -> Result:
        """The result of the counted games."""
        return Result(*(self.results.count(kind) for kind in (WIN, DRAW, LOSS)))


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
    tally = Games(games, max_decisions)
    known: dict[BehaviorId, set[int]] = {}
    silent = 0
    while True:
        silent += 1
        for name in env.behavior_specs:
            if name not in policies:
                policies[name], known[name] = _policy_for(env, sides, name), set()
        if counted is None:
            of_team = (name for name in policies if BehaviorName.parse(name).team_id == team)
            counted = min(of_team, default=None)
        for name, policy in policies.items():
            decisions, terminals = env.get_steps(name)
            if name == counted:
                tally.add(decisions, terminals)
            if len(terminals):
                policy.reset_agents(terminals.agent_id, name)
            if len(decisions):
                silent = 0
                known[name].update(decisions.agent_id.tolist())
                env.set_actions(name, policy.act(decisions, deterministic, name))
        if tally.over:
            break
        if silent > MAX_IDLE_STEPS:
            raise MatchError(f"No agent requested a decision in {MAX_IDLE_STEPS} steps of the environment.")
        env.step()
    for name, policy in policies.items():
        policy.reset_agents(np.array(sorted(known[name]), np.int32), name)
    return tally.result()


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
