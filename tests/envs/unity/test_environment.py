"""UnityEnvironment against live engines: it launches, steps, and leaves nothing behind."""

import logging
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack, closing
from selectors import DefaultSelector

import numpy as np
import psutil
import pytest
from console_runs import until
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.side_channels import (
    EnvironmentParametersChannel,
    OutgoingMessage,
    RawBytesChannel,
    SideChannelManager,
    StatsSideChannel,
)
from lanista.envs.unity import UnityEnvironment
from lanista.envs.validation import NonFiniteError
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import (
    UnityActionException,
    UnityCommunicationException,
    UnityEnvironmentException,
)
from scripted_engine import NOBODY, ScriptedEngine, executable, free_port, hello, observation

BALL = "Ball?team=0"


@pytest.fixture
def meet():
    """Meets scripted engines, as one meets the Editor, and closes what a test leaves open."""
    open_ones = []

    def meet(outputs, **options):
        port = free_port()
        engine = ScriptedEngine(port, [hello(), *outputs])
        env = UnityEnvironment(base_port=port, timeout_wait=20, **options)
        open_ones.append(env)
        return env, engine

    yield meet
    for env in open_ones:
        env._close(timeout=0.0)


def sent_continuous(engine, index):
    actions = engine.replies[index].unity_input.rl_input.agent_actions
    return [list(agent.continuous_actions) for agent in actions[BALL].value]


def test_launches_steps_and_closes_an_executable(tmp_path):
    game = executable(tmp_path, "greet(); steps(10**6)")
    env = UnityEnvironment(game, log_folder=tmp_path / "logs", no_graphics=True, timeout_wait=30)
    process = env._connection._process
    assert not env.behavior_specs, "an engine describes its behaviors with the first observations"
    env.reset()
    assert list(env.behavior_specs) == [BALL]
    env.step()
    decisions, terminals = env.get_steps(BALL)
    np.testing.assert_array_equal(decisions.obs[0], [[1.0, 1.5]])
    assert len(terminals) == 0
    env.close()
    assert process.returncode == 0
    assert (tmp_path / "logs" / "Player-0.log").read_text() == "told to quit\n"
    assert process.command[1:3] == ["-nographics", "-batchmode"]


def test_environments_of_one_machine_find_ports_of_their_own(tmp_path):
    game = executable(tmp_path, "greet(); steps(10**6)")
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(UnityEnvironment(game, timeout_wait=30))) for _ in range(2)]
        assert envs[0].port != envs[1].port


def test_the_first_step_is_a_reset_and_later_ones_send_what_was_set(meet):
    env, engine = meet([observation(i) for i in range(4)])
    env.step()
    env.set_actions(BALL, ActionTuple(np.array([[0.25]], dtype=np.float32)))
    env.step()
    env.step()
    env.set_action_for_agent(BALL, 1, ActionTuple(np.array([[-0.5]], dtype=np.float32)))
    env.step()
    reset = engine.replies[1].unity_input.rl_input
    assert reset.command == 1 and not reset.agent_actions
    assert [sent_continuous(engine, i) for i in (2, 3, 4)] == [[[0.25]], [[0.0]], [[-0.5]]]


def test_sending_returns_at_once_and_a_selector_reports_the_arrival(meet):
    env, _ = meet([observation(1), observation(2)])
    with DefaultSelector() as selector:
        env.watch(selector, "mine")
        for send in (env.send_reset, env.send_step):
            send()
            until_ready(env, selector)
            env.receive()
            assert not env.poll()
        env.watch(None)
        assert not selector.get_map()
    np.testing.assert_array_equal(env.get_steps(BALL)[0].obs[0], [[2.0]])


def until_ready(env, selector):
    """Poll only when the selector says so: nothing may arrive that it does not report."""
    while not env.poll():
        keys = selector.select(20)
        assert keys, "the selector has not reported it"
        assert {key.data for key, _ in keys} == {"mine"}


def test_nothing_can_be_sent_twice(meet):
    env, _ = meet([observation(1)])
    env.send_reset()
    with pytest.raises(UnityCommunicationException, match="has not answered"):
        env.send_step()


def test_a_behavior_without_agents_has_empty_steps(meet):
    env, engine = meet([observation(1), NOBODY, observation(2, name="Cat")])
    env.reset()
    env.step()
    assert [len(batch) for batch in env.get_steps(BALL)] == [0, 0]
    assert env.get_steps(BALL)[0].obs[0].shape == (0, 1)
    env.step()
    assert set(env.behavior_specs) == {BALL, "Cat"}
    assert not engine.replies[3].unity_input.rl_input.agent_actions, "nobody waited for an action"


def test_messages_travel_with_steps_both_ways(meet):
    parameters, stats = EnvironmentParametersChannel(), StatsSideChannel()
    report = OutgoingMessage()
    report.write_string("Goals")
    report.write_float32(2.0)
    report.write_int32(StatsAggregationMethod.SUM.value)
    engine_side = RawBytesChannel(stats.channel_id)
    engine_side.send_raw_data(report.buffer)
    given = [parameters, stats]
    side_channel = SideChannelManager([engine_side]).generate()
    env, engine = meet([observation(1, side_channel=side_channel), observation(2)], side_channels=given)
    env.set_parameters({"mass": 1.5})
    env.reset()
    assert env.statistics() == {"Goals": [(2.0, StatsAggregationMethod.SUM)]} and not env.statistics()
    env.step()
    expected = EnvironmentParametersChannel()
    expected.set_float_parameter("mass", 1.5)
    assert engine.replies[1].unity_input.rl_input.side_channel == SideChannelManager([expected]).generate()
    assert engine.replies[2].unity_input.rl_input.side_channel == b""
    assert given == [parameters, stats], "the caller's list stays as it was"


def test_parameters_need_their_channel(meet):
    env, _ = meet([])
    env.set_parameters({})
    with pytest.raises(UnityEnvironmentException, match=r"EnvironmentParametersChannel.*'mass'"):
        env.set_parameters({"mass": 1.0})


def test_actions_are_checked(meet):
    env, _ = meet([observation(1)])
    with pytest.raises(UnityActionException, match="not known before the first reset"):
        env.get_steps(BALL)
    env.reset()
    with pytest.raises(UnityActionException, match=r"continuous input of dimension \(1, 1\)"):
        env.set_actions(BALL, ActionTuple(np.zeros((2, 1))))
    with pytest.raises(UnityActionException, match="received input of dimension None"):
        env.set_actions(BALL, ActionTuple())
    with pytest.raises(IndexError, match="agent_id 7"):
        env.set_action_for_agent(BALL, 7, ActionTuple(np.zeros((1, 1))))


def test_values_that_are_not_finite_stop_the_run_or_pass(meet):
    env, _ = meet([observation(float("nan"))], engine_name="environment 3")
    with pytest.raises(NonFiniteError, match=r"environment 3.*Ball.*VectorSensor"):
        env.reset()
    env, _ = meet([observation(float("inf"))], non_finite=None)
    env.reset()
    assert np.isinf(env.get_steps(BALL)[0].obs[0]).all()
    env, _ = meet([observation(float("nan"))], non_finite="zero")
    env.reset()
    assert env.get_steps(BALL)[0].obs[0] == 0.0


def test_dropping_trajectories_needs_a_manager():
    with pytest.raises(ValueError, match=r"non_finite='drop'.*EnvManager"):
        UnityEnvironment(non_finite="drop")


def test_a_closed_environment_says_so(meet):
    env, engine = meet([observation(1)])
    env.reset()
    env.close()
    engine.join(20)
    assert engine.was_told_to_quit
    for use in (env.close, env.step, env.reset, env.receive, env.poll):
        with pytest.raises(UnityEnvironmentException, match="No Unity environment is loaded"):
            use()


def test_closing_waits_for_a_pending_answer(meet):
    env, engine = meet([observation(1)])
    env.send_reset()
    env.close()
    engine.join(20)
    assert engine.was_told_to_quit


def test_the_editor_is_waited_for_on_its_port(caplog, meet):
    with caplog.at_level(logging.INFO):
        env, _ = meet([])
    logged = [record.getMessage() for record in caplog.records]
    assert f"Listening on port {env.port}. Start training by pressing the Play button" in logged[0]
    assert (
        "Connected to Unity environment with package version 4.0.0 and communication version 1.5.0" in logged
    )


def test_the_editor_has_no_workers():
    with pytest.raises(UnityEnvironmentException, match="worker-id must be 0"):
        UnityEnvironment(worker_id=1)


@pytest.mark.slow
def test_ctrl_c_in_a_wait_leaves_no_engine(tmp_path):
    game = executable(tmp_path, "greet(); steps(1); time.sleep(600)")
    script = f"""
        from lanista.envs.unity import UnityEnvironment
        env = UnityEnvironment({game!r}, timeout_wait=30)
        env.reset()
        env.send_step()
        print(env._connection._process.pid, flush=True)
        try:
            env.receive()
        finally:
            env.close(1.0)
    """
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    engine = int(trainer.stdout.readline())
    trainer.send_signal(signal.SIGINT)
    _, printed = trainer.communicate(timeout=60)
    assert "KeyboardInterrupt" in printed and until(lambda: not psutil.pid_exists(engine))


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise RuntimeError('oops')", "env.send_step()"])
def test_a_script_that_does_not_close_exits_and_leaves_no_engine(tmp_path, ending):
    game = executable(tmp_path, "greet(); steps(10**6)")
    script = f"""
        import sys
        from lanista.envs.unity import UnityEnvironment
        env = UnityEnvironment({game!r}, timeout_wait=30)
        env.reset()
        env.step()
        print(env._connection._process.pid, flush=True)
        {ending}
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    engine = int(done.stdout.split()[0])
    assert until(lambda: not psutil.pid_exists(engine)), done.stderr
