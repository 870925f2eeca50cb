"""The faults that `start_up.py` commits, and what the message about each must say."""

from __future__ import annotations

from dataclasses import dataclass

from start_up_places import (
    GOOD,
    Place,
    cut,
    editor_port,
    forbidden,
    full_disk,
    program,
    short_range,
    taken_port,
    trained,
    under_way,
    written,
)

BASIC = ("--env", "scene:basic")


@dataclass(frozen=True)
class Fault:
    """One way to start a run wrongly."""

    name: str
    says: str
    """A pattern of the message: the cause, then the remedy."""
    arguments: tuple[str, ...] = BASIC
    """After `lanista-learn c.yaml --run-id r`."""
    yaml: str | bytes | None = GOOD
    """What c.yaml holds; None: there is none."""
    place: Place | None = None
    status: int = 1
    needs: str = ""
    """What must run before it can be known: nothing, `torch`, or the `engine` (and torch)."""
    python: str = ""
    """Statements that run before the command, to pretend what this machine is not."""


def _with(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def _more(line: str) -> str:
    """A line more in the behaviour's settings, which becomes line 6."""
    return _with("    max_steps: 200\n", f"    {line}\n    max_steps: 200\n")


GAMES = "import gymnasium\n"
FAILING_GAME = """\
def own():
    raise RuntimeError("no licence")


gymnasium.register("Own-v0", own)
"""
TEXT_GAME = """\
class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict({"word": gymnasium.spaces.Text(5)})
    action_space = gymnasium.spaces.Discrete(2)


gymnasium.register("Own-v0", Own)
"""
SMALL_GAME = """\
import numpy as np


class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}


def make(size=2):
    return None if size == 3 else Own(size)
"""
LESSONS = """\
environment_parameters:
  mass:
    curriculum:
      - {name: light, value: 1, completion_criteria: {measure: reward, threshold: 1}}
      - {name: heavy, value: 2}
"""

YAML = [
    Fault("empty", r"c\.yaml: it defines no behavior.*section `behaviors:`", yaml=""),
    Fault("not a mapping", r"c\.yaml: found a list, expected a mapping.*behaviors:", yaml="- Basic\n"),
    Fault("a tab", r"c\.yaml, line 2, .*a tab indents this line.*spaces", yaml="behaviors:\n\tBasic: {}\n"),
    Fault("an open bracket", r"c\.yaml, line 2.*still open\. Look at", yaml="behaviors: {Basic: {\n"),
    Fault("bad syntax", r"c\.yaml, line 7, .*Look at this line", yaml=_with("max_steps:", "max_steps")),
    Fault("not UTF-8", r"byte 13 is not UTF-8.*save", yaml="behaviors: {Bär: {}}".encode("latin-1")),
    Fault("unknown key, top", r"line 1: behaviours: .*`behaviors`", yaml=_with("behaviors", "behaviours")),
    Fault(
        "unknown key, behaviour", r"line 6: .*max_step: .*`max_steps`", yaml=_with("max_steps", "max_step")
    ),
    Fault("unknown hyperparameter", r"line 4: .*`batch_size`", yaml=_with("batch_size", "batchsize")),
    Fault("unknown key, network", r"line 5: .*`hidden_units`", yaml=_with("hidden_units", "hidden_unit")),
    Fault(
        "unknown key, memory",
        r"line 5: .*`memory_size`",
        yaml=_with("num_layers: 1", "memory: {memorysize: 8}"),
    ),
    Fault("unknown reward signal", r"line 6: .*`extrinsic`", yaml=_more("reward_signals: {extrinsc: {}}")),
    Fault(
        "unknown key, signal",
        r"line 6: .*`strength`",
        yaml=_more("reward_signals: {extrinsic: {strenght: 1}}"),
    ),
    Fault(
        "wrong type", r"line 6: .*max_steps: found 'many', expected a whole number", yaml=_with("200", "many")
    ),
    Fault(
        "out of range",
        r"line 4: .*batch_size: found 0, expected at least 1",
        yaml=_with("size: 8", "size: 0"),
    ),
    Fault(
        "a behaviour twice",
        r"line 8: behaviors\.Basic: it stands on line 2.*keep one",
        yaml=GOOD + "  Basic: {}\n",
    ),
    Fault("unknown trainer", r"line 3: .*pppo was found\. Did you mean ppo", yaml=_with(": ppo", ": pppo")),
    Fault(
        "no trainer",
        r"line 3: .*no trainer_type.*Add `trainer_type: ppo`",
        yaml=_with("    trainer_type: ppo\n", ""),
    ),
    Fault(
        "another trainer's key",
        r"line 4: .*tau: .*hyperparameter of sac",
        yaml=_with("size: 8", "size: 8, tau: 0.1"),
    ),
    Fault(
        "not one of the choices",
        r"line 4: .*found 'cubic', expected one of constant, linear",
        yaml=_with("size: 8", "size: 8, learning_rate_schedule: cubic"),
    ),
    Fault(
        "sequences beyond a batch",
        r"line 5: .*sequence_length: found 64.*less than or equal to batch size, which is 8",
        yaml=_with("num_layers: 1", "memory: {memory_size: 8, sequence_length: 64}"),
    ),
    Fault("no demo_path", r"line 6: .*`demo_path` is required", yaml=_more("reward_signals: {gail: {}}")),
    Fault("a lesson's behaviour", r"completion_criteria\.behavior: .* is required", yaml=GOOD + LESSONS),
    Fault(
        "no file",
        r"could not be found at .*c\.yaml\. There is d\.yaml",
        yaml=None,
        place=written({"d.yaml": ""}),
    ),
    Fault("a folder as file", r"c\.yaml is a folder\. ", yaml=None, place=written({"c.yaml/": ""})),
    Fault(
        "a file one may not read",
        r"c\.yaml could not be read: Permission.*See to it",
        place=forbidden("c.yaml", 0),
    ),
]

LINE = [
    Fault("two editors", r"--num-envs: .*env_path is not set.*with --env", ("--num-envs", "2")),
    Fault("resume and force", r"--resume .*--force .*leave one of them out", (*BASIC, "--resume", "--force")),
    Fault("unknown flag", r"--nun-envs.*Did you mean --num-envs", (*BASIC, "--nun-envs", "2"), status=2),
    Fault("a flag's wrong value", r"--num-envs: .*two.*--help", (*BASIC, "--num-envs", "two"), status=2),
    Fault("no = in --set", r"--set: .*PATH=VALUE", (*BASIC, "--set", "behaviors.Basic.max_steps"), status=2),
    Fault(
        "--set of no key", r"--set .*max_step: .*`max_steps`", (*BASIC, "--set", "behaviors.Basic.max_step=3")
    ),
    Fault("no run id", r"--run-id: .*found ''", (*BASIC, "--run-id", "")),
    Fault("a run id outside", r"found '\.\./a'; it names a folder within", (*BASIC, "--run-id", "../a")),
    Fault(
        "a port beyond the last",
        r"65536.*choose another",
        (*BASIC, "--base-port", "65534", "--num-envs", "3"),
    ),
    Fault("another machine's address", r"192\.0\.2\.1.*Give localhost", (*BASIC, "--listen", "192.0.2.1")),
    Fault(
        "no such device", r"--torch-device: .*found 'gpu'; expected cpu", (*BASIC, "--torch-device", "gpu")
    ),
    Fault("a device not here", r"cuda:99.*give cpu", (*BASIC, "--torch-device", "cuda:99"), needs="torch"),
]

CRASH = "#!/bin/sh\necho no display\nexit 7\n"
MACH_O = bytes.fromhex("cffaedfe") + bytes(60)
ELF = b"\x7fELF" + bytes(60)

ENGINES = [
    Fault("no executable", r"'nowhere/Game'\. There is no folder nowhere", ("--env", "nowhere/Game")),
    Fault(
        "a mistyped executable",
        r"'Gmae'\. There is Game",
        ("--env", "Gmae"),
        place=written({"Game.x86_64": ""}),
    ),
    Fault(
        "it may not be executed",
        r"not executable.*chmod",
        ("--env", "Game"),
        place=written({"Game.x86_64": CRASH}),
    ),
    Fault(
        "a build for Windows",
        r"for Windows; make one for",
        ("--env", "Game.exe"),
        place=written({"Game.exe": "MZ"}),
    ),
    Fault(
        "a program for macOS",
        r"Game\.x86_64 cannot be started: .*macOS.*Make a build",
        (),
        place=program(MACH_O),
    ),
    Fault("a folder", r"a folder; it holds Game", ("--env", "B"), place=written({"B/Game.x86_64": ""})),
    Fault("an empty program", r"Game\.x86_64 .*is empty. Build", (), place=program("")),
    Fault(
        "no interpreter", r"names /no/such, which does not exist\. Install", (), place=program("#!/no/such\n")
    ),
    Fault("line ends of Windows", r"lines end as on Windows.*Save it", (), place=program("#!/bin/sh\r\n")),
    Fault(
        "a program that is none", r"cannot be started.*this machine", (), place=program(ELF), needs="engine"
    ),
    Fault(
        "it crashes at once",
        r"environment 0: .*--no-graphics.*code 7\.",
        (),
        place=program(CRASH),
        needs="engine",
    ),
    Fault(
        "it never calls",
        r"environment 0: .*before it called.*code 0\.",
        (),
        place=program("#!/bin/sh\n"),
        needs="engine",
    ),
    Fault("unknown scene", r"scene:bal3d: .*Did you mean 'ball3d'", ("--env", "scene:bal3d")),
    Fault(
        "a scene's option", r"unknown option --area\. Did you mean --areas", ("--env", "scene:ball3d?area=4")
    ),
    Fault("its wrong value", r"--areas: invalid int value: 'many'", ("--env", "scene:ball3d?areas=many")),
    Fault("its option's range", r"0 areas; it needs at least 1", ("--env", "scene:ball3d?areas=0")),
    Fault(
        "an option at the end",
        r"unknown option --aera",
        ("--env", "scene:ball3d", "--env-args", "--aera", "3"),
    ),
    Fault("no such module", r"no module 'nowhere'.*mpe2", ("--env", "pettingzoo:nowhere")),
    Fault(
        "PettingZoo is missing",
        r"pip install 'lanista\[pettingzoo\]'",
        ("--env", "pettingzoo:mpe2.simple_v3"),
        python="sys.modules['pettingzoo'] = None",
    ),
    *(
        Fault(f"--env {name}", rf"Provided filename .*--env {meant}", ("--env", name))
        for name, meant in (
            ("gym:CartPole-v1", "gymnasium:CartPole-v1"),
            ("CartPole-v1", "gymnasium:CartPole-v1"),
            ("basic", "scene:basic"),
        )
    ),
    Fault("no id of Gymnasium", r"write 'gymnasium:ID', such as", ("--env", "gymnasium:")),
    Fault("an unknown id", r"`CartPol` doesn't exist\. Did you mean", ("--env", "gymnasium:CartPol-v1")),
    Fault("Atari is missing", r"ale-py: pip install it", ("--env", "gymnasium:ALE/Pong-v5")),
    Fault("no such module of games", r"no module 'nowhere'", ("--env", "gymnasium:nowhere:X-v0")),
    Fault("no lives", r"reports no lives.*Leave lives out", ("--env", "gymnasium:CartPole-v1?lives=true")),
    Fault(
        "Gymnasium is missing",
        r"pip install 'lanista\[gymnasium\]'",
        ("--env", "gymnasium:CartPole-v1"),
        python="sys.modules['gymnasium'] = None",
    ),
    *(
        Fault(name, says, ("--env", "gymnasium:games:Own-v0"), place=written({"games.py": GAMES + game}))
        for name, says, game in (
            ("a space without numbers", r"word: .*space Text.*[Ww]rap the environment", TEXT_GAME),
            ("a game that cannot be made", r"RuntimeError: no licence \(games.py, line 3\)", FAILING_GAME),
            (
                "a module that fails",
                r"games cannot be imported: ZeroDivisionError.*games.py, line 2",
                "1 / 0\n",
            ),
        )
    ),
    Fault("no module of one's own", r"no module 'nowhere'", ("--env", "python:nowhere:make")),
    *(
        Fault(name, says, ("--env", f"python:games:{own}"), place=written({"games.py": GAMES + SMALL_GAME}))
        for name, says, own in (
            ("no function named", r"which function\? Write python:games:FUNCTION\. It has Own, make", ""),
            ("a misspelt function", r"no function 'maker'\. Did you mean make", "maker"),
            ("a misspelt argument", r"no argument 'sizes'\. Did you mean size\?", "make?sizes=2"),
            ("a function that raises", r"make raised TypeError: .*\(games\.py, line 14\)", "make"),
            (
                "a function that gives nothing",
                r"returned nothing \(None\); perhaps its return",
                "make?size=3",
            ),
            ("an observation of another shape", r"has the shape \(2,\); expected \(3,\)", "Own"),
        )
    ),
    Fault("workers of an engine", r"a process of its own anyway.*--num-envs", (*BASIC, "--env-workers", "2")),
    Fault("a taken port", r"Port \d+ is held by .*process.*--base-port", (), place=taken_port),
    Fault("a taken port of three", r"number 1 .*Port \d+ is held by .*--base-port", (), place=short_range),
    Fault("the Editor's port", r"Port 5004 is held by .*End it: .*Editor", (), place=editor_port),
]

OTHER = _with("hidden_units: 16", "hidden_units: 24")
RESUME = (*BASIC, "--resume")

FILES = [
    Fault("a run of this name", r"results/r\. .*--run-id, use --resume .*--force", place=trained()),
    Fault(
        "no run to resume",
        r"no folder results/r1\. Did you mean --run-id r",
        (*RESUME, "--run-id", "r1"),
        place=trained(),
    ),
    Fault(
        "no run to begin from",
        r"from results/r1: .*Did you mean r\?",
        (*BASIC, "--run-id", "t", "--initialize-from", "r1"),
        place=trained(),
    ),
    Fault(
        "its own weights",
        r"start from its own weights.*--resume",
        (*BASIC, "--initialize-from", "r"),
        place=trained(),
    ),
    Fault("no such init_path", r"init_path: x\.pt\): .*Expected a checkpoint", yaml=_more("init_path: x.pt")),
    Fault(
        "results in a file", r"c\.yaml/r cannot be made: .*--results-dir", (*BASIC, "--results-dir", "c.yaml")
    ),
    Fault(
        "results one may not write",
        r"locked/r cannot be made: Permission.*--results-dir",
        place=forbidden("locked", 0o555, "--results-dir", "locked"),
    ),
    Fault(
        "results one may not enter",
        r"locked/r cannot be made: Permission.*--results-dir",
        place=forbidden("locked", 0, "--results-dir", "locked"),
    ),
    Fault("a name that is too long", r"cannot be made: File name too long", (*BASIC, "--run-id", "r" * 300)),
    Fault("a full disk", r"results/.* free some space, or .*--results-dir", place=full_disk),
    Fault(
        "a run under way", r"results/r is under way \(process \d+.*another --run-id", RESUME, place=under_way
    ),
    Fault(
        "a damaged status",
        r"training_status\.json cannot be read.*Remove it",
        RESUME,
        place=trained(cut("run_logs/*.json")),
    ),
    Fault(
        "damaged checkpoints",
        r"checkpoint\.pt \(\d+ bytes\) cannot be used: .*cut off.*(Older|train anew)",
        RESUME,
        place=trained(cut("Basic/*.pt")),
        needs="engine",
    ),
    Fault(
        "another network, resumed",
        r"does not fit: .*body\.layers\.0\.weight.*configuration\.yaml",
        RESUME,
        yaml=OTHER,
        place=trained(),
        needs="engine",
    ),
    Fault(
        "another network, init_path",
        r"policy fits: body\.layers\.0 \(of shape \[.*16\] there, \[.*24\] here\).*network_settings",
        (*BASIC, "--run-id", "s"),
        yaml=OTHER + "    init_path: results/r/Basic/checkpoint.pt\n",
        place=trained(),
        needs="engine",
    ),
]

VERSION = """
import importlib.metadata
real = importlib.metadata.version
def version(name):
    if name != 'torch':
        return real(name)
    {}
importlib.metadata.version = version
"""

PYTHON = [
    Fault(
        "Python too old",
        r"needs Python 3\.10.*3\.9.*Make a virtual environment",
        python="sys.version_info = (3, 9, 18)",
    ),
    Fault(
        "torch too old",
        r"torch 1\.13\.1 is too old.*pip install 'torch",
        python=VERSION.format("return '1.13.1'"),
    ),
    Fault(
        "no torch",
        r"torch is not installed.*pip install 'torch",
        python=VERSION.format("raise importlib.metadata.PackageNotFoundError(name)"),
    ),
    Fault(
        "no mlagents-envs",
        r"mlagents-envs is not installed.*pip install",
        python="sys.modules['mlagents_envs'] = None",
    ),
    Fault("no onnx", r"onnx is not installed.*pip install onnx", python="sys.modules['onnx'] = None"),
]

FAULTS = [*YAML, *LINE, *ENGINES, *FILES, *PYTHON]
