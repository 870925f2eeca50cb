"""Two players, one environment, a number of games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ....envs.base import BehaviorId, BehaviorName
from ...policies.onnx.runtime import Brain
from ...trainer.self_play.snapshots import DRAW, LOSS, WIN, result_of

PATIENCE = 10_000
"""Steps of the environment without a decision after which nobody waits for one any longer."""
MAX_DECISIONS = 5_000
"""Decisions after which a game that does not end is a draw."""


class MatchError(Exception):
    """A match that cannot be played; the message says why."""


class Policy(Protocol):
    """A brain, or whatever acts like one."""

    def act(self, steps: DecisionSteps, deterministic: bool = False) -> ActionTuple:
        """Decide for the n agents of `steps`."""
        ...

    def reset_agents(self, agent_ids: NDArray[np.int32]) -> None:
        """The episodes of these agents are over."""
        ...


class Player(Protocol):
    """Somebody who plays the agents of a team."""

    def policy(self, behavior: BehaviorName) -> Policy:
        """What acts for a behaviour; raises MatchError where it has nothing for it."""
        ...


class Result(NamedTuple):
    """Of one side's games."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """How many there were."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """The games that were won, draws counted half."""
        return self.wins + 0.5 * self.draws

    def plus(self, other: Result) -> Result:
        """Both together."""
        return Result(*(mine + theirs for mine, theirs in zip(self, other)))


@dataclass
class _Game:
    counted: bool
    members: set[int] = field(default_factory=set)
    """Living agents."""
    decisions: int = 0


class Games:
    """The games of one team's agents: a group's, or an agent's that is in none, from beginning to end.

    Counted are the first games that begin, each to its end: those that end first would be the short ones.
    """

    def __init__(self, wanted: int, max_decisions: int) -> None:
        """`wanted`: how many are counted; `max_decisions`: of a game, after which it is a draw."""
        self.results: list[float] = []
        self._wanted = wanted
        self._max_decisions = max_decisions
        self._begun = 0
        self._games: dict[tuple[str, int], _Game] = {}
        self._of_agent: dict[int, tuple[str, int]] = {}

    @property
    def over(self) -> bool:
        """All counted games have ended."""
        return len(self.results) >= self._wanted

    def take(self, decisions: DecisionSteps, terminals: TerminalSteps) -> None:
        """What the team's agents say."""
        earned = (terminals.reward + terminals.group_reward).tolist()
        for agent, reward, cut in zip(terminals.agent_id.tolist(), earned, terminals.interrupted.tolist()):
            key = self._of_agent.pop(agent, None)
            game = None if key is None else self._games[key]
            if key is not None and game is not None:
                game.members.discard(agent)
                if not game.members:
                    del self._games[key]
                    self._end(game, DRAW if cut else result_of(reward))
        asked = set()
        for agent, group in zip(decisions.agent_id.tolist(), decisions.group_id.tolist()):
            key = ("group", group) if group > 0 else ("agent", agent)
            if key not in self._games:
                self._games[key] = _Game(self._begun < self._wanted)
                self._begun += 1
            self._games[key].members.add(agent)
            self._of_agent[agent] = key
            asked.add(key)
        for key in asked:
            game = self._games[key]
            game.decisions += 1
            if game.decisions > self._max_decisions:
                self._end(game, DRAW)

    def _end(self, game: _Game, result: float) -> None:
        if game.counted:
            game.counted = False
            self.results.append(result)

    def result(self) -> Result:
        """Of the counted games."""
        return Result(*(self.results.count(kind) for kind in (WIN, DRAW, LOSS)))


def teams_of(env: BaseEnv) -> list[int]:
    """The teams that an environment has shown, which has to be two at least.

    Raises:
        MatchError: There are fewer.
    """
    teams = sorted({BehaviorName.parse(name).team_id for name in env.behavior_specs})
    if len(teams) < 2:
        shown = ", ".join(env.behavior_specs) or "none"
        raise MatchError(
            f"A match needs two teams, and the environment has shown these behaviors: {shown}. Teams are "
            "told apart by their Team Id, as in Soccer?team=0 and Soccer?team=1."
        )
    return teams


def play_match(
    env: BaseEnv,
    sides: Mapping[int, Player],
    team: int,
    games: int,
    *,
    deterministic: bool = False,
    max_decisions: int = MAX_DECISIONS,
) -> Result:
    """Play games from a reset of the environment on.

    Args:
        env: the environment.
        sides: who plays each team.
        team: whose games are counted.
        games: how many.
        deterministic: the likeliest actions instead of drawn ones.
        max_decisions: of a game, after which it is a draw.

    Returns:
        Won, drawn and lost by the team, by the sign of what its last step earned. Interrupted games are
        drawn.

    Raises:
        MatchError: a side has no policy, or nobody asks for decisions.
        BrainError: a brain does not fit its behaviour.
    """
    env.reset()
    names = {name: BehaviorName.parse(name) for name in env.behavior_specs}
    policies = {name: sides[parsed.team_id].policy(parsed) for name, parsed in names.items()}
    for name, policy in policies.items():
        if isinstance(policy, Brain):
            policy.check(env.behavior_specs[name])
    counted = min(name for name, parsed in names.items() if parsed.team_id == team)
    tally = Games(games, max_decisions)
    known: dict[BehaviorId, set[int]] = {name: set() for name in names}
    silent = 0
    while True:
        silent += 1
        for name, policy in policies.items():
            decisions, terminals = env.get_steps(name)
            if name == counted:
                tally.take(decisions, terminals)
            if len(terminals):
                policy.reset_agents(terminals.agent_id)
            if len(decisions):
                silent = 0
                known[name].update(decisions.agent_id.tolist())
                env.set_actions(name, policy.act(decisions, deterministic))
        if tally.over:
            break
        if silent > PATIENCE:
            raise MatchError(f"In {PATIENCE} steps of the environment no agent asked for a decision.")
        env.step()
    for name, policy in policies.items():
        policy.reset_agents(np.array(sorted(known[name]), np.int32))
    return tally.result()


def play_all_sides(
    env: BaseEnv, first: Player, second: Player, games: int, *, deterministic: bool = False
) -> Result:
    """Games between two players, who take every team in turn, of the first one's view; as `play_match`.

    Where there are more than two teams, one is the one player's and all others are the other's.
    """
    teams = teams_of(env)
    whole = Result(0, 0, 0)
    for k, team in enumerate(teams):
        share = games // len(teams) + (k < games % len(teams))
        if share:
            sides = {other: first if other == team else second for other in teams}
            whole = whole.plus(play_match(env, sides, team, share, deterministic=deterministic))
    return whole
