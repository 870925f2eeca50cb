"""Playing counts the episodes that start first, each to its end, and the rewards of their agents."""

import copy
import logging
from pathlib import Path

import numpy as np
import pytest
from lanista.trainers.cli.models import Model
from lanista.trainers.cli.play import player as playing
from lanista.trainers.cli.play.player import NoModelError, NothingToDecideError, Player, figures
from lanista.trainers.episodes import scores
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps
from specs import vector_spec


def spec(size=1):
    return vector_spec([size], continuous=1)


class Scripted(BaseEnv):
    """Agents whose episodes last a given number of decisions each, repeatedly; 1 reward per step."""

    def __init__(self, lasts, others=(), asking=True):
        self.lasts, self.asking = list(lasts), asking
        self._specs = {"Ball?team=0": spec(), **{name: spec(3) for name in others}}
        self.acted = []

    @property
    def behavior_specs(self):
        return self._specs

    def reset(self):
        self.left = list(self.lasts)
        self.ids = list(range(len(self.lasts)))
        self._tell(np.zeros(len(self.ids), bool))

    def step(self):
        self.left = [left - 1 for left in self.left]
        self._tell(np.array([left == 0 for left in self.left]))

    def _tell(self, ended):
        ended_ids = [agent for agent, end in zip(self.ids, ended) if end]
        for slot in np.flatnonzero(ended):
            self.left[slot] = self.lasts[slot]
            self.ids[slot] += 100
        n, e = len(self.ids), len(ended_ids)
        reward = np.where(ended, 0.0, 1.0).astype(np.float32)
        ids = np.array(self.ids, np.int32)
        zeros = np.zeros(n, np.float32)
        self.decisions = DecisionSteps([np.zeros((n, 1), np.float32)], reward, ids, None, ids * 0, zeros)
        self.terminals = TerminalSteps(
            [np.zeros((e, 1), np.float32)],
            np.ones(e, np.float32),
            np.zeros(e, bool),
            np.array(ended_ids, np.int32),
            np.zeros(e, np.int32),
            np.full(e, 0.5, np.float32),
        )

    def get_steps(self, name):
        if name == "Ball?team=0" and self.asking:
            return self.decisions, self.terminals
        return DecisionSteps.empty(self._specs[name]), TerminalSteps.empty(self._specs[name])

    def set_actions(self, name, action):
        self.acted.append((name, len(action.continuous)))

    def set_action_for_agent(self, name, agent_id, action):
        raise NotImplementedError

    def close(self):
        pass


class FakeBrain:
    continuous_size, branches, memory_size, has_deterministic = 1, (), 0, True

    def __init__(self, size=1):
        self.forgotten = []
        self.observations = {0: (size,)}
        self.acted = 0
        self.behaviors = set()

    def act(self, decisions, deterministic, behavior_id):
        self.acted += 1
        self.behaviors.add(behavior_id)
        return ActionTuple(np.zeros((len(decisions), 1), np.float32))

    def reset_agents(self, agents, behavior_id):
        self.forgotten += list(agents)


def files(*brains):
    """Brains in single files, whose names are no behavior's."""
    return [Model(Path(f"file{k}.onnx"), f"file{k}", brain, False) for k, brain in enumerate(brains)]


def run_of(**brains):
    """The brains of a run, by behavior."""
    return [Model(Path(f"r/{name}.onnx"), name, brain, True) for name, brain in brains.items()]


def test_the_reward_of_an_episode_is_the_sum_of_its_rewards():
    results = Player(Scripted([4, 4]), files(FakeBrain()), 2, True).play()
    # The reward that comes with the first observation belongs to no decision.
    assert results["Ball?team=0"].rewards == [4.0, 4.0]
    assert results["Ball?team=0"].decisions == [4, 4]


def test_the_episodes_that_start_first_count_not_those_that_end_first():
    results = Player(Scripted([2, 10]), files(FakeBrain()), 2, True).play()
    assert sorted(results["Ball?team=0"].decisions) == [2, 10]
    results = Player(Scripted([2, 10]), files(FakeBrain()), 4, True).play()
    assert sorted(results["Ball?team=0"].decisions) == [2, 2, 2, 10]


def test_recurrent_states_of_ended_episodes_are_dropped():
    brain = FakeBrain()
    Player(Scripted([3]), files(brain), 2, True).play()
    assert brain.forgotten == [0, 100]


def test_behaviors_that_the_brain_does_not_fit_do_nothing(caplog):
    env = Scripted([3], others=["Goalie?team=1"])
    with caplog.at_level(logging.WARNING):
        results = Player(env, files(FakeBrain()), 1, True).play()
    assert set(results) == {"Ball?team=0"}
    assert {name for name, _ in env.acted} == {"Ball?team=0"}
    assert caplog.text.count("Goalie?team=1") == 1


def test_a_model_of_two_behaviors_is_told_whose_agents_act():
    env, brain = Scripted([3], others=["Ball?team=1"]), FakeBrain()
    env._specs["Ball?team=1"] = spec()
    env.get_steps = lambda name: (env.decisions, env.terminals)
    Player(env, files(brain), 2, True).play()
    assert brain.behaviors == {"Ball?team=0", "Ball?team=1"}


def test_every_behavior_acts_with_the_model_of_its_name():
    env = Scripted([3])
    env._specs = {"Ball?team=0": spec(), "Small?team=0": spec()}
    env.get_steps = lambda name: (env.decisions, env.terminals)
    small, ball = FakeBrain(), FakeBrain()
    for models in (
        run_of(Small=small, Ball=ball),
        [
            Model(Path("Small-5.onnx"), "Small", small, False),
            Model(Path("Ball.onnx"), "Ball", ball, False),
        ],
    ):
        player = Player(env, models, 2, True)
        assert set(player.play()) == {"Ball?team=0", "Small?team=0"}
        assert {name: model.policy for name, model in player.model_of.items()} == {
            "Ball?team=0": ball,
            "Small?team=0": small,
        }


def test_the_models_of_a_run_act_for_no_behavior_of_another_name():
    with pytest.raises(NoModelError, match=r"r.Goalie.onnx is for Goalie\."):
        Player(Scripted([3]), run_of(Goalie=FakeBrain()), 1, True).play()
    with pytest.raises(NoModelError, match=r"r.Ball.onnx does not fit the behavior Ball"):
        Player(Scripted([3]), [*run_of(Ball=FakeBrain(3)), *files(FakeBrain())], 1, True).play()


def test_a_model_whose_behavior_appears_later_plays(caplog):
    """Engines describe a behavior only with its first agent."""

    class Late(Scripted):
        time = 0

        @property
        def behavior_specs(self):
            return dict(list(self._specs.items())[::-1][: 1 + (self.time > 2)])

        def step(self):
            self.time += 1
            super().step()

    with caplog.at_level(logging.WARNING):
        played = Player(Late([3], ["Goalie?team=1"]), run_of(Ball=FakeBrain()), 1, True).play()
    assert set(played) == {"Ball?team=0"}
    assert "Goalie?team=1: its agents stand still. r/Ball.onnx is for Ball." in caplog.text


@pytest.mark.parametrize("others", [[], ["Goalie?team=1"]], ids=["one behavior", "several behaviors"])
def test_a_brain_that_fits_no_behavior_is_an_error(others):
    env = Scripted([3], others)
    env._specs = dict.fromkeys(env._specs, spec(3))
    with pytest.raises(NoModelError, match=r"shape .1,., the agents. is .3,."):
        Player(env, files(FakeBrain()), 1, True).play()


def test_agents_that_never_request_decisions_are_an_error(monkeypatch):
    monkeypatch.setattr(playing, "MAX_IDLE_STEPS", 20)
    with pytest.raises(NothingToDecideError, match="no agent that a model is for asked for a decision"):
        Player(Scripted([3], asking=False), files(FakeBrain()), 1, True).play()


def test_the_statistics_of_a_report():
    results = Player(Scripted([2, 4]), files(FakeBrain()), 2, True).play()
    found = figures(results["Ball?team=0"])
    assert (found["episodes"], found["cut"]) == (2, 0)
    assert found["mean_reward"] == 3.0 and found["std_reward"] == 1.0
    assert (found["min_reward"], found["max_reward"], found["mean_length"]) == (2.0, 4.0, 3.0)
    assert "mean_group_reward" not in found


def test_an_episode_that_never_ends_is_cut_and_counted(caplog):
    player = Player(Scripted([10**9]), files(FakeBrain()), 2, True, max_decisions=7)
    with caplog.at_level(logging.WARNING):
        results = player.play()
    assert results["Ball?team=0"].decisions == [7, 7]
    assert figures(results["Ball?team=0"])["cut"] == 2
    assert "did not end within 7 decisions" in caplog.text


def test_a_group_that_never_ends_is_cut_with_its_agents():
    class Grouped(Scripted):
        def get_steps(self, name):
            decisions, terminals = super().get_steps(name)
            decisions.group_id[:] = 7
            decisions.group_reward[:] = 0.5
            return decisions, terminals

    player = Player(Grouped([10**9, 10**9]), files(FakeBrain()), 2, True, max_decisions=7)
    results = player.play()
    assert results["Ball?team=0"].decisions == [7, 7, 7, 7]
    assert results["Ball?team=0"].groups.finished == [3.5, 3.5]


def test_ctrl_c_leaves_the_episodes_that_have_ended():
    env, steps = Scripted([2, 10**9]), []

    def stop():
        steps.append(1)
        if len(steps) == 8:
            raise KeyboardInterrupt

    player = Player(env, files(FakeBrain()), 3, True)
    results = player.play(stop)
    assert player.interrupted and results["Ball?team=0"].decisions == [2, 2]
    assert player.steps == 7, "the first call follows the reset"


class Several(Scripted):
    """Behavior ids with agents of their own; those of `groups` are in groups of two."""

    def __init__(self, names, lasts, group=False):
        super().__init__(lasts)
        self._specs, self.group = {name: spec() for name in names}, group

    def get_steps(self, name):
        shift, steps = 1000 * list(self._specs).index(name), []
        for each in (self.decisions, self.terminals):
            each = copy.deepcopy(each)
            each.agent_id[:] += shift
            if self.group:
                each.group_id[:] = each.agent_id // 2 + 1
            steps.append(each)
        return tuple(steps)


@pytest.mark.parametrize(
    "names", [["A?team=0", "B?team=0"], ["A?team=0", "A?team=1"]], ids=["names", "teams"]
)
@pytest.mark.parametrize("episodes", [4, 6, 9])
@pytest.mark.parametrize("group", [False, True], ids=["agents", "groups"])
def test_so_many_episodes_of_every_behavior_id_are_counted(names, episodes, group, caplog):
    results = Player(Several(names, [3] * 8, group), files(FakeBrain()), episodes, True).play()
    each = 2 * episodes if group else episodes
    assert {name: len(seat.rewards) for name, seat in results.items()} == dict.fromkeys(names, each)
    assert {len(seat.groups.finished) for seat in results.values()} == {episodes if group else 0}
    assert not caplog.messages


def test_a_behavior_without_agents_is_not_awaited_for_ever(monkeypatch, caplog):
    monkeypatch.setattr(scores, "MAX_IDLE_STEPS", 20)
    env = Scripted([3], others=["Ball?team=1", "Late?team=0"])
    env._specs = dict.fromkeys(env._specs, spec())
    player = Player(env, files(FakeBrain()), 2, True)
    assert set(player.play()) == {"Ball?team=0"} and 20 <= player.steps < 30
    said = "{}: 0 episodes were counted instead of 2"
    assert [name for name in env._specs if said.format(name) in caplog.text] == ["Ball?team=1", "Late?team=0"]


class Recorder:
    """Notes of whom actions are recorded, and whose episodes are cut."""

    def __init__(self):
        self.wanted, self.cut = [], []

    def end(self, name, spec, terminals):
        pass

    def act(self, name, spec, decisions, action, *, wanted, cut):
        self.wanted.append(sorted(wanted))
        self.cut.append(sorted(cut))


def test_the_recorded_episodes_are_the_counted_ones():
    recorder = Recorder()
    Player(Scripted([2, 10**9, 2]), files(FakeBrain()), 2, True, max_decisions=4, recorder=recorder).play()
    assert recorder.wanted == [[0, 1], [0, 1], [1], [1], []]
    assert recorder.cut == [[], [], [], [], [1]]
