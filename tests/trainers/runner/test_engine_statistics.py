"""What engines report reaches each behaviour's statistics once, however many teams and engines there are."""

from types import SimpleNamespace

import pytest
from fake_engine import ball_spec, ball_steps
from lanista.agent_processor.processor import AgentManager
from lanista.envs.base import EnvironmentStep
from lanista.envs.base import StatsAggregationMethod as Aggregation
from lanista.trainers.runner.controller import TrainerController
from lanista.trainers.stats.display import SilentDisplay
from lanista.trainers.stats.reporter import StatsReporter

SPEC = ball_spec(1)
BEHAVIORS = ("Ball?team=0", "Ball?team=1", "Goal?team=0")


class Reporting:
    """A learner that does nothing but collect."""

    settings = SimpleNamespace(threaded=False)
    inference = SimpleNamespace(acts_by_slot=False, keeps_agent_states=False)

    def __init__(self, name, spec):
        self.name = name
        self.reporter = StatsReporter(name)
        self.managers = {}

    def add_team(self, behavior_id):
        self.managers[behavior_id] = AgentManager(behavior_id, SPEC, 5, self.reporter)


@pytest.fixture
def controller():
    envs = SimpleNamespace(behavior_specs=dict.fromkeys(BEHAVIORS, SPEC))
    return TrainerController(lambda: envs, Reporting, SilentDisplay())


def collect(controller, *steps):
    controller._add_new_behaviors(steps)
    controller._collect(steps)


def answer(env, **statistics):
    steps = {behavior: ball_steps(index, 1.0) for index, behavior in enumerate(BEHAVIORS)}
    told = {key: [value] for key, value in statistics.items()}
    return EnvironmentStep(env=env, steps=steps, decisions={}, statistics=told)


def test_sums_count_an_engine_s_value_once_for_two_teams(controller):
    collect(controller, answer(0, goals=(2.0, Aggregation.SUM)), answer(1, goals=(3.0, Aggregation.SUM)))
    assert set(controller.learners) == {"Ball", "Goal"}
    for learner in controller.learners.values():
        assert learner.reporter.get_stats_summaries("goals").aggregated_value == 5.0


def test_the_most_recent_value_is_the_first_environment_s(controller):
    collect(controller, answer(0, level=(1.0, Aggregation.MOST_RECENT)))
    collect(controller, answer(1, level=(9.0, Aggregation.MOST_RECENT)))
    for learner in controller.learners.values():
        assert learner.reporter.get_stats_summaries("level").values.tolist() == [1.0]


def test_every_environment_counts_in_averages(controller):
    collect(controller, *(answer(env, speed=(float(env), Aggregation.AVERAGE)) for env in range(3)))
    for learner in controller.learners.values():
        assert learner.reporter.get_stats_summaries("speed").aggregated_value == 1.0
