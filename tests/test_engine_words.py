"""Messages that advise users have the words of their engine, and of no other one."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from lanista.envs.engines import terms
from lanista.envs.engines.connection import EngineConnection
from lanista.envs.engines.interfaces import EngineKind
from lanista.envs.engines.options import EngineOptions
from lanista.envs.engines.process import launched
from lanista.envs.engines.terms import GODOT, PYTHON, UNITY, UNKNOWN, UNREAL
from lanista.envs.hosting.environment import HostedEnvironment
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.specs import SharedGroups
from lanista.envs.opening import terms_for
from lanista.trainers.checkpoints.run_folder import require_folder_name
from lanista.trainers.cli.main import run as run_command
from lanista.trainers.cli.play import player
from lanista.trainers.runner.awaited import AwaitedDecisions
from lanista.trainers.runner.banner import next_steps
from lanista.trainers.runner.engine_options import terms_of_run
from lanista.trainers.settings import RunOptions
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.utils.errors import TrainerError
from mlagents_envs.exception import UnityCommunicatorStoppedException, UnityException

ENGINES = (UNITY, GODOT, UNREAL, PYTHON)
SHARED = "Behavior (Name|Type|Parameters)|Decision Requester|Team Id|press Play"  # Unreal's plug-in is a port
WORDS = {
    "Unity": rf"\bUnity\b|{SHARED}|RequestDecision|Academy|CollectObservations|MultiAgentGroup|\bthe scene\b",
    "Unreal": rf"\bUnreal\b|{SHARED}|\blevel\b|\bactor",
    "Godot": r"\bGodot\b|policy_name|action_repeat|control_mode|scene tree|\bnodes?\b|LanistaGroup|team_id",
    "Python": r"\bPython\b|PettingZoo|DecisionSteps|reset\(\)|step\(\)",
}
"""What the users of an engine know, and those of others need not."""
IN_COMMON = {
    frozenset({"Unity", "Unreal"}): SHARED,
    frozenset({"Unity", "Godot"}): r"\bthe scene\b",
}


def check_words(said, engine, *, names_it=True):
    assert said.strip() and not said.endswith(" ")
    assert re.search(WORDS[engine.name], said) or not names_it, f"no word of {engine.name}: {said}"
    for other, words in WORDS.items():
        if other != engine.name:
            ours = IN_COMMON.get(frozenset({engine.name, other}), "$^")
            # The checklist's line on versions is ML-Agents' own.
            text = re.sub(ours, "", said).replace("the Python interface", "")
            assert (found := re.search(words, text)) is None, f"{engine.name} is told of {found}: {said}"


class Session:
    """A session in which nobody calls."""

    fault = rejection = ""
    port = 5005
    objection = None

    def __init__(self, *, has_client=False, disconnected=False):
        self.has_client, self.disconnected = has_client, disconnected

    def receive(self, timeout):
        return None

    def wait_for_reconnect(self):
        return True


class Process:
    """An engine's process, of which nothing more is known."""

    def __init__(self, returncode=None):
        self.returncode = returncode

    def wait(self, timeout):
        return self.returncode is not None

    def is_diagnosed(self):
        return True

    def external_error(self):
        return None

    def describe(self, called=True):
        return "Its process is described."


def connection(engine, session=None, process=None):
    return EngineConnection(session or Session(), process, 60.0, "environment 0", EngineKind(engine, b""))


def at_stage(engine, stage):
    """The message of a timeout after the engine has called."""
    made = connection(engine, process=Process())
    made.stage = stage
    return str(made.timed_out())


def ended(engine):
    with pytest.raises(UnityException) as raised:
        connection(engine, Session(disconnected=True), Process(1)).receive()
    return str(raised.value)


def no_decision(engine):
    """The end of a run in which the environments step, and no agent asks."""
    env = SimpleNamespace(terms=engine)
    envs = SimpleNamespace(num_envs=1, behavior_specs={}, present=[env])
    awaited = AwaitedDecisions(SimpleNamespace(timeout=0.0, terms=UNKNOWN))
    awaited._deadline = -1.0
    with pytest.raises(TrainerError) as raised:
        awaited.check(envs, {})
    return str(raised.value)


def nobody_plays(engine):
    env = SimpleNamespace(terms=engine, behavior_specs={}, reset=lambda: None, step=lambda: None)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(player.NothingToDecideError) as raised:
        patch.setattr(player, "MAX_IDLE_STEPS", -1)
        player.Player(env, [], 1, True).play()
    return str(raised.value)


def bad_name(engine):
    with pytest.raises(TrainerError) as raised:
        require_folder_name("a/b", engine)
    return str(raised.value)


TIMEOUTS = {
    "never called": lambda one: str(connection(one, process=Process()).timed_out()),
    "never played": lambda one: str(connection(one).timed_out()),
    "connected, and says nothing": lambda one: str(connection(one, Session(has_client=True)).timed_out()),
    "called, but no agent": lambda one: at_stage(one, one.idle),
    "fell silent": lambda one: at_stage(one, one.silent),
}
ADVICE = {"no decision within the deadline": no_decision, "nobody to play": nobody_plays}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
@pytest.mark.parametrize("case", [*TIMEOUTS, *ADVICE])
def test_advice_has_the_words_of_its_engine_and_of_no_other(case, engine):
    check_words((TIMEOUTS | ADVICE)[case](engine), engine)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
@pytest.mark.parametrize("say", [ended, bad_name])
def test_other_messages_have_no_word_of_another_engine(say, engine):
    check_words(say(engine), engine, names_it=False)


@pytest.mark.parametrize("engine", [*ENGINES, UNKNOWN], ids=lambda one: one.name)
def test_an_engine_that_has_called_is_not_told_that_it_did_not_start(engine):
    """Nor what to look at before it calls."""
    said = [TIMEOUTS[case](engine) for case in ("connected, and says nothing", "called, but no agent")]
    assert not re.search("did not start|has not called yet", " ".join(said))
    assert "Make sure that" not in TIMEOUTS["called, but no agent"](engine)
    assert "Make sure that" in TIMEOUTS["never called"](engine)


def test_who_has_called_and_left_is_told():
    made = connection(UNITY)
    made.timed_out()
    assert made.wait_for_reconnect()
    assert "left before the handshake was complete" in str(made.timed_out())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.name)
def test_every_term_is_of_its_engine(engine):
    """Words that are not used above too, as those of a warning about groups."""
    for phrase in (getattr(engine, name) for name in engine.__dataclass_fields__):
        if phrase:
            check_words(phrase.strip(), engine, names_it=False)


NAMES = {
    None: UNITY,
    "Builds/Game.x86_64": UNITY,
    "registry:Ball": UNITY,
    "godot:": GODOT,
    "godot:project?scene=res://a.tscn": GODOT,
    " unreal:": UNREAL,
    "unreal:Game.sh": UNREAL,
    "scene:ball3d?areas=2": PYTHON,
    "hosted:gymnasium:CartPole-v1": PYTHON,
    "game.py": PYTHON,
    "gymnasium:CartPole-v1": PYTHON,
    "pettingzoo:classic": PYTHON,
    "python:mine:make": PYTHON,
}


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_a_name_tells_whose_words_are_used(name):
    assert terms_for(name) is NAMES[name]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{}", "(then press Play in the Unity Editor)"),
        ("{env_path: 'godot:'}", "--env godot:  (then play the scene in Godot's editor)"),
        ("{env_path: 'unreal:'}", "--env unreal:  (then press Play in Unreal's editor)"),
        (
            "{listen: 'localhost:6000'}",
            "--listen localhost:6000  (then start an engine that calls port 6000)",
        ),
        ("{env_path: 'godot:project'}", "--env godot:project"),
    ],
)
def test_the_last_line_of_a_run_says_how_its_engine_is_started(settings, expected, tmp_path):
    options = RunOptions.from_text(f"env_settings: {settings}")
    (tmp_path / "Ball.onnx").write_bytes(b"")
    (line,) = next_steps(options, tmp_path, ["Ball"], unfinished=False)
    assert line.endswith(expected)
    if (engine := terms_of_run(options)) is not UNKNOWN:
        check_words(line, engine, names_it=options.env_settings.editor)


@pytest.mark.parametrize("engine", [UNITY, GODOT, UNREAL], ids=lambda one: one.name)
def test_an_editor_is_named_where_it_is_awaited_and_where_it_stops(engine, caplog):
    caplog.set_level("INFO")
    options = EngineOptions(timeout_wait=60)
    launched(options, EngineKind(engine, b""), lambda given: Session(), None)
    check_words(caplog.messages[-1], engine)

    class Stopped:
        """An environment that ends the session."""

        terms, behavior_specs = engine, {}

        def reset(self):
            raise UnityCommunicatorStoppedException("Communicator has exited.")

        def close(self):
            pass

    manager = EnvManager(lambda index: Stopped(), 1, editor=True)
    manager.start()
    with pytest.raises(UnityCommunicatorStoppedException) as raised:
        manager.reset()
    manager.close()
    check_words(str(raised.value), engine)


def test_attached_engines_of_several_kinds_each_get_their_words():
    envs = SimpleNamespace(num_envs=3, behavior_specs={})
    envs.present = [SimpleNamespace(terms=one) for one in (UNITY, PYTHON, UNITY)]
    awaited = AwaitedDecisions(SimpleNamespace(timeout=0.0, terms=UNKNOWN))
    awaited._deadline = -1.0
    with pytest.raises(TrainerError) as raised:
        awaited.check(envs, {})
    said = str(raised.value)
    assert said.count("In Unity: ") == said.count("In Python: ") == 1 and "Godot" not in said


class Written(SimpleNamespace):
    """An environment whose engine has written something."""

    def output(self):
        return self.text


def test_what_an_engine_has_written_follows_the_advice():
    """The cause often stands there, as a script that cannot be parsed."""
    envs = [Written(terms=GODOT, text=text) for text in ("", " The last lines: SCRIPT ERROR", "more")]
    assert terms.advice(envs) == f"{GODOT.deciding} The last lines: SCRIPT ERROR"
    assert terms.advice([]) == UNKNOWN.deciding


def test_a_shared_group_is_mended_in_the_words_of_the_engine(caplog):
    batch = SimpleNamespace(group_id=np.int32([1]))
    step = SimpleNamespace(env=0, steps={"A": (batch, batch), "B": (batch, batch)})
    SharedGroups(lambda: [SimpleNamespace(terms=GODOT)]).check(step)
    assert "one LanistaGroup one policy_name and one team_id." in caplog.text
    check_words(caplog.messages[-1], GODOT)


HANGS = """
import time, gymnasium
class Hangs(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
    def reset(self, **options):
        return self.observation_space.low, {}
    def step(self, action):
        time.sleep(600)
def make():
    return Hangs()
"""


def test_a_hosted_environment_is_told_in_the_words_of_python(tmp_path, monkeypatch):
    """Although it speaks the protocol of Unity's games."""
    (tmp_path / "hangs_in_step.py").write_text(HANGS)
    monkeypatch.chdir(tmp_path)
    options = EngineOptions(path="python:hangs_in_step:make", hosted=True, timeout_wait=60)
    env = HostedEnvironment.of(options)
    env.reset()
    env._connection.timeout = 0.1
    with pytest.raises(UnityException) as raised:
        env.step()
    env.close()
    said = str(raised.value).partition(" Its process ")[0]
    assert "Does its step() or reset() wait for something" in said
    check_words(said, PYTHON)
    with pytest.raises(UnityException, match="No Python environment is loaded"):
        env.step()


KINDS = ("godot:", "unreal:", "scene:", "registry:", "gymnasium:", "pettingzoo:", "python:")


@pytest.mark.parametrize("command", ["init", "play", "learn"])
def test_the_help_names_every_kind_of_environment(command, capsys):
    with pytest.raises(SystemExit):
        parse_command_line(["--help"]) if command == "learn" else run_command([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert [kind for kind in KINDS if kind not in shown] == []


def test_the_table_has_no_engine_that_is_not_tested_here():
    found = {one.name for one in vars(terms).values() if isinstance(one, terms.Terms)}
    assert found == {*WORDS, UNKNOWN.name}
