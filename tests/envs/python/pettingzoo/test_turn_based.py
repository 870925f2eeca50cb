"""A seat's transition lasts from its turn to its next turn, and earns all rewards in between."""

from collections import defaultdict
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import EnvContractError, UnsupportedSpaceError
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityEnvironmentException
from scripted_turns import Move, ScriptedGame

SEATS = 3
REWARD = st.sampled_from([0, 0, 0, 1, -2, 5])
MOVE = st.builds(
    Move,
    st.lists(REWARD, min_size=SEATS, max_size=SEATS),
    st.dictionaries(st.integers(0, SEATS - 1), st.booleans(), max_size=2),
    st.integers(0, SEATS - 1),
)
EPISODES = st.lists(st.lists(MOVE, min_size=1, max_size=9), min_size=1, max_size=3)


def game_of(episodes, first=0):
    return ScriptedGame(episodes, SEATS, first)


def plain_transitions(episodes, first, max_steps, actions, turns):
    """The same loop in plain words: per episode and seat its (seen, action, reward, ended, interrupted)."""
    dones, reports = [], []
    number = 0
    while turns:
        moves = episodes[number % len(episodes)]
        number += 1
        alive, acting = list(range(SEATS)), first
        open_turn, done = {}, defaultdict(list)
        rewards, lengths = [0] * SEATS, [0] * SEATS
        for time, move in enumerate(moves):
            if not turns:
                break
            turns -= 1
            if acting in open_turn:
                done[acting].append((*open_turn[acting], False, False))
            open_turn[acting] = (time, actions(acting, time), 0)
            lengths[acting] += 1
            for seat in alive:
                rewards[seat] += move.rewards[seat]
                if seat in open_turn:
                    seen, action, earned = open_turn[seat]
                    open_turn[seat] = (seen, action, earned + move.rewards[seat])
            ends = {seat: cut for seat, cut in move.ends.items() if seat in alive}
            if time + 1 == len(moves):
                ends |= {seat: False for seat in alive if seat not in ends}
            for seat in sorted(ends):
                alive.remove(seat)
                if seat in open_turn:
                    done[seat].append((*open_turn.pop(seat), True, ends[seat]))
            if alive and max_steps and sum(lengths) >= max_steps:
                for seat in alive:
                    if seat in open_turn:
                        done[seat].append((*open_turn.pop(seat), True, True))
                alive = []
            if not alive:
                reports.append((rewards, lengths))
                break
            acting = alive[move.following % len(alive)]
        dones.append(done)
    return dones, reports


class Players:
    """Plays an environment, and takes down the transitions of every life."""

    def __init__(self, env):
        self.env, self.open = env, {}
        self.transitions = defaultdict(list)
        env.reset()

    def step(self):
        for name in self.env.behavior_specs:
            decisions, terminals = self.env.get_steps(name)
            for steps, ended in ((terminals, True), (decisions, False)):
                for row, agent in enumerate(steps.agent_id.tolist()):
                    key = (name, agent)
                    if key in self.open:
                        cut = bool(ended and steps.interrupted[row])
                        self.transitions[key].append(
                            (*self.open.pop(key), float(steps.reward[row]), ended, cut)
                        )
                    else:
                        assert not ended and steps.reward[row] == 0, "nothing is reported before a first turn"
            chosen = [self.action(steps_obs) for steps_obs in decisions.obs[0][:, -2:]]
            for agent, seen, action in zip(decisions.agent_id.tolist(), decisions.obs[0][:, -2:], chosen):
                self.open[name, agent] = (int(seen[0]), action)
            discrete = np.array(chosen, np.int32).reshape(-1, 1)
            self.env.set_actions(name, ActionTuple(discrete=discrete))
        self.env.step()

    @staticmethod
    def action(seen):
        return int(seen[0] + seen[1]) % 3


@settings(max_examples=60, deadline=None)
@given(EPISODES, st.integers(0, SEATS - 1), st.integers(0, 6), st.booleans(), st.integers(1, 25))
def test_rewards_belong_to_the_turns_to_which_a_plain_loop_gives_them(
    episodes, first, max_steps, self_play, turns
):
    make = partial(game_of, episodes, first)
    env = TurnBasedEnvironment(make, self_play=self_play, max_steps_per_episode=max_steps)
    players = Players(env)
    reports = []
    for _ in range(turns):
        players.step()
        statistics = env.statistics()
        if statistics:
            reports.append((
                [statistics[f"Turns/Reward of player_{k}"][0][0] for k in range(SEATS)],
                [statistics[f"Turns/Length of player_{k}"][0][0] for k in range(SEATS)],
            ))  # fmt: skip
            assert statistics["Turns/Episode Length"][0][0] == sum(reports[-1][1])
    wanted, episodes_over = plain_transitions(
        episodes, first, max_steps, lambda seat, time: (time + seat) % 3, turns
    )
    players.step()  # reads what the last one has brought
    found = defaultdict(list)
    for (name, _), life in sorted(players.transitions.items(), key=lambda item: item[0][1]):
        found[name] += life
    expected = defaultdict(list)
    for done in wanted:
        for seat, transitions in done.items():
            name = f"player?team={seat}" if self_play else f"player_{seat}?team={seat}"
            expected[name] += transitions
    for name, transitions in expected.items():
        assert found[name][: len(transitions)] == transitions, name
    # A turn that has started ends the transition before it; the plain loop reports it when the seat acts.
    count = sum(map(len, found.values())) - sum(map(len, expected.values()))
    assert count in (0, 1)
    assert reports == [(rewards, lengths) for rewards, lengths in episodes_over]


ONE = [[Move([0, 0, 0], {}, 1), Move([1, 0, 0], {}, 2), Move([0, 3, 7], {}, 0), Move([2, 2, 2], {}, 0)]]


def test_rewards_before_a_first_turn_count_towards_the_episode_alone():
    env = TurnBasedEnvironment(lambda: game_of([[Move([1, 5, 0], {}, 1), Move([0, 1, 9], {}, 2)]]))
    players = Players(env)
    players.step()
    players.step()
    statistics = {key: values[0][0] for key, values in env.statistics().items()}
    assert statistics["Turns/Reward of player_1"] == 6 and statistics["Turns/Length of player_1"] == 1
    assert statistics["Turns/Reward of player_2"] == 9 and statistics["Turns/Length of player_2"] == 0
    players.step()
    assert players.transitions["player_1?team=1", 1] == [(1, 2, 1.0, True, False)]
    assert not [life for (name, _), life in players.transitions.items() if name == "player_2?team=2" and life]


def test_one_policy_sees_its_seat_and_its_own_stack():
    env = TurnBasedEnvironment(lambda: game_of(ONE), self_play=True, stack_size=2)
    names = [f"player?team={k}" for k in range(SEATS)]
    assert list(env.behavior_specs) == names and env.num_agents == SEATS
    observation, seat = env.behavior_specs[names[1]].observation_specs
    assert observation.shape == (4,) and observation.name == "StackingSensor_size2_observation"
    assert seat.shape == (SEATS,) and seat.name == "seat"
    seen = []
    env.reset()
    for _ in range(4):
        for name in names:
            decisions, _ = env.get_steps(name)
            seen += [(obs.tolist(), own.tolist()) for obs, own in zip(decisions.obs[0], decisions.obs[1])]
        env.step()
    assert seen == [
        ([0, 0, 0, 0], [1, 0, 0]),
        ([0, 0, 1, 1], [0, 1, 0]),
        ([0, 0, 2, 2], [0, 0, 1]),
        ([0, 0, 3, 0], [1, 0, 0]),
    ]
    assert env.get_steps(names[0])[0].obs[0].tolist() == [[0, 0, 0, 0]], "a new episode begins without a past"


class OfPlanes(ScriptedGame):
    """Shows a board of two rows, three columns and two planes, with the time in a corner of the second."""

    def observation_space(self, agent):
        from gymnasium.spaces import Box

        return Box(0, 9, (2, 3, 2), np.int8)

    def observe(self, agent):
        board = np.zeros((2, 3, 2), np.int8)
        board[1, 0, 1] = self.time
        return board


def test_boards_are_images_of_their_planes_on_request():
    env = TurnBasedEnvironment(lambda: OfPlanes(ONE), self_play=True, stack_size=2, boards=True)
    assert env.behavior_specs["player?team=0"].observation_specs[0].shape == (4, 2, 3)
    env.reset()
    for turn in range(3):
        decisions, _ = env.get_steps(f"player?team={turn}")
        planes = decisions.obs[0][0]
        assert planes[3, 1, 0] == turn == planes.sum()
        env.step()
    with pytest.raises(UnsupportedSpaceError, match=r"'player_0'.*boards is for observations of rows x col"):
        TurnBasedEnvironment(lambda: game_of(ONE), boards=True)


def test_masks_are_those_of_the_acting_seat():
    env = TurnBasedEnvironment(lambda: game_of(ONE), areas=2)
    env.reset()
    (mask,) = env.get_steps("player_0?team=0")[0].action_mask
    assert mask.tolist() == [[False, True, False]] * 2
    env.step()
    (mask,) = env.get_steps("player_1?team=1")[0].action_mask
    assert mask.tolist() == [[False, False, False]] * 2
    assert len(env.get_steps("player_0?team=0")[0]) == 0


def test_ids_are_new_for_every_life_and_areas_have_seeds_of_their_own():
    games = []

    def make():
        games.append(game_of(ONE))
        return games[-1]

    env = TurnBasedEnvironment(make, seed=5, areas=2)
    players = Players(env)
    for _ in range(9):
        players.step()
    assert games[0].seeds[0] == 5 and games[1].seeds[0] not in (5, None)
    assert games[0].seeds[1:] == [None, None]
    lives = [agent for _, agent in (*players.transitions, *players.open)]
    assert len(set(lives)) == len({*players.transitions, *players.open})
    env.close()
    assert all(game.closed for game in games)


def test_seats_of_different_spaces_cannot_be_played_by_one_policy():
    class Uneven(ScriptedGame):
        def action_space(self, agent):
            from gymnasium.spaces import Discrete

            return Discrete(2 if agent == "player_0" else 3)

    with pytest.raises(UnityEnvironmentException, match="cannot play all seats"):
        TurnBasedEnvironment(lambda: Uneven(ONE), self_play=True)
    assert len(TurnBasedEnvironment(lambda: Uneven(ONE), self_play=None).behavior_specs) == SEATS
    with pytest.raises(UnityEnvironmentException, match="stack_size 0; expected at least 1"):
        TurnBasedEnvironment(lambda: game_of(ONE), stack_size=0)


def test_an_unknown_agent_in_turn_is_an_error():
    class Stranger(ScriptedGame):
        def reset(self, seed=None):
            super().reset(seed)
            self.agent_selection = "somebody"

    with pytest.raises(EnvContractError, match=r"'somebody'.*not one of its possible_agents"):
        TurnBasedEnvironment(lambda: Stranger(ONE)).reset()


def test_an_invalid_reward_is_an_error_that_names_what_was_expected():
    env = TurnBasedEnvironment(lambda: game_of(ONE))
    env.reset()
    game = env._areas[0].loop.game
    agent = game.agent_selection

    def step(action):
        game.rewards = {agent: "one"}

    game.step = step
    with pytest.raises(EnvContractError, match=f"'{agent}'.*the reward is 'one' .*expected a number"):
        env.step()


def refused(kind, message, turns=100):
    """Play a game that breaks the rules, until that is said."""
    env = TurnBasedEnvironment(lambda: kind(ONE))
    with pytest.raises(EnvContractError, match=message):
        for _ in range(turns):
            env.step()


def test_an_agent_that_leaves_before_its_end_was_seen_is_refused():
    """Its last reward, that of the whole game, would be lost without a word."""

    class Leaving(ScriptedGame):
        def step(self, action):
            super().step(action)
            if any(self.terminations.values()):
                self.agents = []

    refused(Leaving, r"'player_0' of .*Leaving.* left `agents` before its end was seen.*until it is selected")


def test_an_agent_that_has_ended_and_is_never_selected_is_refused():
    class Ignoring(ScriptedGame):
        """Player 1 ends with the first turn, and the others play on."""

        def step(self, action):
            self.rewards = dict.fromkeys(self.agents, 0)
            self.terminations["player_1"] = True
            others = [agent for agent in self.agents if agent != "player_1"]
            self.agent_selection = others[others.index(self.agent_selection) - 1]

    refused(Ignoring, r"'player_1' of .* has ended, and others act on while it is not selected.*deads_step")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rewards", None, r"The rewards of .* are None \(NoneType\); expected a dict by agent"),
        ("infos", ["a"], r"The infos of .* are \['a'\] \(list\); expected a dict by agent"),
        ("terminations", {"player_1": "no"}, "'player_1'.*the termination is 'no' .str.; expected True or"),
        ("infos", AttributeError, "infos of .* raised AttributeError.*no attribute 'infos'"),
        ("agent_selection", AttributeError, "agent_selection of .* raised AttributeError"),
    ],
)
def test_what_a_game_tells_of_its_agents_is_checked(name, value, message):
    class Telling(ScriptedGame):
        def step(self, action):
            super().step(action)
            if value is AttributeError:
                delattr(self, name)
            else:
                setattr(self, name, value)

    refused(Telling, message)


def test_spaces_that_cannot_be_told_are_named():
    class Spaceless(ScriptedGame):
        def action_space(self, agent):
            return {}[agent]

    with pytest.raises(EnvContractError, match=r"action_space of .* raised KeyError: 'player_0'"):
        TurnBasedEnvironment(lambda: Spaceless(ONE))
