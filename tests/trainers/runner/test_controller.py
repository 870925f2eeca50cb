"""The loop of a run: what engines report reaches the agent processors, whichever behavior acts."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from console_runs import learn
from fake_engine import ball_spec, ball_steps
from lanista.agent_processor.processor import AgentManager
from lanista.envs.base import Decision, EnvironmentStep, StatsAggregationMethod
from lanista.envs.manager.manager import EnvManager
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.policies.joint import ActRequest
from lanista.trainers.policies.policy import ActContext
from lanista.trainers.runner.controller import TrainerController
from lanista.trainers.stats.display import SilentDisplay
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.trainer.context import RunContext
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps
from mlagents_envs.exception import UnityCommunicatorStoppedException
from scripted_engine import executable

SPEC = ball_spec(1)
CAT, DOG = "Cat?team=0", "Dog?team=0"
HORIZON = 5


class TurnBased(BaseEnv):
    """One agent of each behavior; in message n the n-th asker requests a decision, with reward n."""

    def __init__(self, askers):
        self._askers = askers

    @property
    def behavior_specs(self):
        return {CAT: SPEC, DOG: SPEC}

    def reset(self):
        self._message = 0

    def step(self):
        self._message += 1
        if self._message == len(self._askers):
            raise UnityCommunicatorStoppedException("The game is over.")

    def get_steps(self, behavior_name):
        if self._askers[self._message] != behavior_name:
            return DecisionSteps.empty(SPEC), TerminalSteps.empty(SPEC)
        return ball_steps([CAT, DOG].index(behavior_name), 1.0, reward=self.reward(self._message))

    def reward(self, message):
        return float(message)

    def set_actions(self, behavior_name, action):
        pass

    def set_action_for_agent(self, behavior_name, agent_id, action):
        pass

    def close(self):
        pass


class Sink:
    """A StatsSink that discards everything."""

    def add_stat(self, *args):
        pass

    add_stats = set_stat = add_stat


class FakeLearner:
    """Acts, and leaves the trajectories in their queues."""

    restart_due = False
    should_continue = True
    in_thread = False
    self_play = None
    inference = SimpleNamespace(acts_by_slot=False, remembers_agents=False)
    checkpointer = SimpleNamespace(newly_saved=False)

    def __init__(self, name, spec):
        self.name = name
        self.managers = {}
        self.reset = []
        self.trainer = SimpleNamespace(step=0)

    def load_rest(self):
        pass

    def add_team(self, behavior_id):
        self.managers[behavior_id] = AgentManager(behavior_id, SPEC, HORIZON, Sink())

    def reset_agents(self, env, behavior_id=None, agent_ids=None):
        if behavior_id is not None:
            self.managers[behavior_id].reset_agents(env, agent_ids)
            self.reset.append((env, agent_ids.tolist()))

    def act_requests(self, batches, sources):
        return [ActRequest(self, batches, ActContext(sources))]

    def kind(self):
        return None

    def act(self, batches, context):
        zeros = [np.zeros((len(batch), 1), np.float32) for batch in batches]
        actions = [ActionTuple(zero) for zero in zeros]
        return [
            Decision(batch.agent_id, action, action, zero, zero[:, 0])
            for batch, action, zero in zip(batches, actions, zeros)
        ]

    def advance(self):
        pass

    def conclude(self):
        pass

    def close(self):
        pass


def run_context(training=True):
    """A run that writes nothing."""
    folder = Path("not_written")
    status = TrainingStatus(folder / "status.json")
    return RunContext(folder, 0, status, writers=[], display=SilentDisplay(), training=training)


def play(env, **options):
    """A run of `env` until its game is over; the learners, by name."""

    def make_envs():
        return EnvManager(lambda index: env, 1, editor=True, **options)

    controller = TrainerController(run_context(training=False), make_envs, FakeLearner)
    controller.run()
    return controller.learners


def steps_collected(learner):
    (manager,) = learner.managers.values()
    return sum(len(trajectory) for trajectory in manager.trajectory_queue.drain())


@pytest.mark.parametrize(
    "askers",
    [[CAT, DOG] * 50, [CAT] * 2 + [CAT, DOG, DOG] * 33, [CAT] * 2 + [DOG] * 48 + [CAT] * 54],
    ids=["in turns", "now and then", "after a long wait"],
)
def test_no_step_is_lost_when_behaviors_request_decisions_in_different_messages(askers):
    learners = play(TurnBased(askers))
    for name, behavior in (("Cat", CAT), ("Dog", DOG)):
        finished = askers.count(behavior) - 1  # the last one asked has not been answered
        assert steps_collected(learners[name]) == finished // HORIZON * HORIZON


class Flawed(TurnBased):
    """One reward is NaN."""

    def reward(self, message):
        return float("nan") if message == 4 else 1.0


def test_an_agent_whose_episode_is_dropped_is_reset():
    learners = play(Flawed([CAT] * 6), non_finite=NonFinitePolicy.DROP)
    assert learners["Cat"].reset == [(0, [0])]
    assert not learners["Dog"].reset


@pytest.mark.slow
def test_teams_that_take_turns_are_trained(tmp_path):
    script = """
        greet()
        for i in range(10**6):
            ask(message(observation(i, i + 0.5, name=f"Ball?team={i % 2}", agent_id=i % 2)))
    """
    ended = learn(tmp_path, "--env", executable(tmp_path, script))
    assert ended.good and "Step: 400" in ended.out


class Saving(FakeLearner):
    """Records when it is saved; saving the cat fails unexpectedly."""

    def __init__(self, name, spec, saved, **settings):
        super().__init__(name, spec)
        self.saved = saved
        self.settings = SimpleNamespace(**settings)

    def process_remaining(self):
        """There is nothing left to process."""

    def finish(self):
        self.saved.append(self.name)
        if self.name == "Cat":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


def trained(make_learner, training=True):
    """A run of both behaviors, until the game is over."""

    def make_envs():
        return EnvManager(lambda index: TurnBased([CAT, DOG] * 5), 1, editor=True)

    return TrainerController(run_context(training), make_envs, make_learner)


def test_if_one_behavior_cannot_be_saved_the_others_are():
    saved = []
    with pytest.raises(RuntimeError, match="illegal memory"):
        trained(lambda name, spec: Saving(name, spec, saved)).run()
    assert saved == ["Cat", "Dog"]


def test_a_run_that_its_engine_ends_logs_ml_agents_line(caplog):
    caplog.set_level("INFO")
    with pytest.raises(RuntimeError):
        trained(lambda name, spec: Saving(name, spec, [])).run()
    assert "Learning was interrupted. Please wait while the graph is generated." in caplog.messages


def test_a_failure_in_a_learner_s_last_update_is_raised(monkeypatch):
    class Failed:
        error = ValueError("in the last update")

        def request_stop(self):
            pass

        def raise_error(self):
            pass

        def is_alive(self):
            return False

    controller = trained(FakeLearner, training=False)
    monkeypatch.setattr(controller, "_train", lambda: controller._threads.append(Failed()))
    with pytest.raises(ValueError, match="in the last update"):
        controller.run()


# Statistics of engines: once per behavior, however many teams and engines there are ----------------------

BEHAVIORS = ("Ball?team=0", "Ball?team=1", "Goal?team=0")


class Reporting(FakeLearner):
    """A learner that keeps statistics."""

    def __init__(self, name, spec):
        super().__init__(name, spec)
        self.reporter = StatsReporter(name)

    def add_team(self, behavior_id):
        self.managers[behavior_id] = AgentManager(behavior_id, SPEC, HORIZON, self.reporter)


@pytest.mark.parametrize(
    ("method", "reported", "values"),
    [
        ("SUM", [[2.0, 3.0]], [2.0, 3.0]),
        ("MOST_RECENT", [[1.0], [None, 9.0]], [1.0]),
        ("AVERAGE", [[0.0, 1.0, 2.0]], [0.0, 1.0, 2.0]),
    ],
    ids=["sums count a value once for two teams", "the first environment's is the most recent", "averages"],
)
def test_statistics_of_engines_reach_each_behavior_once(method, reported, values):
    """`reported`: at each tick, by environment."""
    envs = SimpleNamespace(behavior_specs=dict.fromkeys(BEHAVIORS, SPEC))
    controller = TrainerController(run_context(), lambda: envs, Reporting)
    for tick in reported:
        steps = [
            EnvironmentStep(
                env=env,
                steps={behavior: ball_steps(index, 1.0) for index, behavior in enumerate(BEHAVIORS)},
                decisions={},
                statistics={"goals": [(value, StatsAggregationMethod[method])]},
            )
            for env, value in enumerate(tick)
            if value is not None
        ]
        controller._add_new_behaviors(steps)
        controller._collect(steps)
    assert set(controller.learners) == {"Ball", "Goal"}
    for learner in controller.learners.values():
        assert learner.reporter.get_stats_summaries("goals").values.tolist() == values
