"""Any BaseEnv can be driven as one that answers later."""

import numpy as np
import pytest
from fake_engine import BALL, FakeEngine, ball_spec, ball_steps, decide
from lanista.envs.manager.async_env import SyncAdapter, as_async_env
from lanista.envs.manager.manager import EnvManager
from mlagents_envs.base_env import BaseEnv


class Counter(BaseEnv):
    """Counts its steps, and refuses to step while actions are missing."""

    def __init__(self):
        self.count = 0
        self.set: dict[str, np.ndarray] = {}
        self.parameters = None
        self.closed = False

    @property
    def behavior_specs(self):
        return {BALL: ball_spec()}

    def reset(self):
        self.count = 0

    def step(self):
        assert BALL in self.set
        self.count += 1
        self.last = self.set.pop(BALL)

    def get_steps(self, behavior_name):
        return ball_steps(7, self.count, 0.0)

    def set_actions(self, behavior_name, action):
        self.set[behavior_name] = action.continuous

    def set_action_for_agent(self, behavior_name, agent_id, action):
        raise NotImplementedError

    def close(self):
        self.closed = True


class Steered(Counter):
    def set_parameters(self, parameters):
        self.parameters = parameters

    def statistics(self):
        return {"hits": [(1.0, None)]}


def count(step):
    return step.steps[BALL][0].obs[0][0, 0]


def test_plain_environments_run_side_by_side():
    made = [Counter(), Counter()]
    with EnvManager(made.__getitem__, 2, ordered=True) as manager:
        manager.start()
        assert [count(step) for step in manager.reset()] == [0, 0]
        manager.send(0, {BALL: decide(0.9)})
        manager.send(1, {})
        assert [count(step) for step in manager.wait(20)] == [1, 1]
        assert made[0].last == pytest.approx(0.3)
        manager.send(0, {})
        manager.wait(20)
    assert made[0].last.tolist() == [[0.0]]
    assert made[1].last.tolist() == [[0.0]], "agents without a decision do zeros"
    assert all(env.closed for env in made)


def test_a_synchronous_step_happens_when_its_answer_is_received():
    env = Counter()
    driven = as_async_env(env)
    assert isinstance(driven, SyncAdapter)
    announced = []
    driven.on_arrival = lambda: announced.append(True)
    driven.send_reset()
    driven.receive()
    driven.send_step()
    assert announced == [True, True]
    assert driven.poll()
    assert env.count == 0
    driven.receive()
    assert env.count == 1
    assert not driven.poll()
    with pytest.raises(RuntimeError, match="send_step"):
        driven.receive()


def test_an_asynchronous_environment_is_driven_as_it_is():
    engine = FakeEngine()
    assert as_async_env(engine) is engine


def test_parameters_and_statistics_where_the_environment_has_them():
    env = Steered()
    driven = SyncAdapter(env)
    driven.set_parameters({"mass": 1.0})
    assert env.parameters == {"mass": 1.0}
    assert driven.statistics()["hits"][0][0] == 1.0
    assert SyncAdapter(Counter()).statistics() == {}
    SyncAdapter(Counter()).set_parameters({})
    with pytest.raises(TypeError, match=r"Counter has no method set_parameters.*mass"):
        SyncAdapter(Counter()).set_parameters({"mass": 1.0})
