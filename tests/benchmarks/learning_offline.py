"""Whether implicit Q-learning makes better brains of mediocre recordings than cloning does.

    python tests/benchmarks/learning_offline.py [--seeds 0 1 2 3 4]

A policy is trained for a moment, so that it is little better than chance, and recorded: by `lanista
play`, with sampled actions, or as the saved replay of its training. From the recording alone `lanista clone`
makes a brain by cloning (`--method bc`) and one by implicit Q-learning (`--method iql`), with the command's
own settings. All three brains then play the same other episodes with their best actions.

Each seed trains, records, clones and plays anew: a row of docs/results/offline.csv. What is in the file is
not run again; delete lines to repeat them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lanista.trainers.buffers.demonstrations import load_demonstrations
from lanista.trainers.tools.clone.episodes import read_replay
from products import play, run_command, train
from results import RESULTS, read, write
from script_options import parse_options

CSV = RESULTS / "offline.csv"
PLAYED, DECISIONS, OTHER_EPISODES = 20, 1000, 1000
"""Episodes that brains play, decisions after which one is cut, and what is added to the seed for them."""


@dataclass(frozen=True)
class Recording:
    """How something mediocre is recorded."""

    settings: str
    scene: str
    behavior: str
    steps: int
    """Of training before."""
    episodes: int = 0
    """That are recorded; 0: the replay of the training."""


RECORDINGS = {
    "basic, 50 episodes of a PPO": Recording("ppo/basic", "basic", "Basic", 300, 50),
    "ball3d, 60 episodes of a PPO": Recording("ppo/ball3d", "ball3d", "3DBall", 15_000, 60),
    "ball3d, 240 episodes of a PPO": Recording("ppo/ball3d", "ball3d", "3DBall", 15_000, 240),
    "ball3d, replay of a SAC": Recording("sac/ball3d", "ball3d", "3DBall", 6_000),
}


@dataclass(frozen=True)
class Return:
    """Mean returns of brains that learned from one recording, and of the one that was recorded."""

    recording: str
    seed: int
    steps: int
    """That were recorded."""
    recorded: float
    bc: float
    iql: float


def contest(name: str, seed: int) -> Return:
    """Record, learn from the recording by both methods, and play."""
    made = RECORDINGS[name]
    env = ("--env", f"scene:{made.scene}")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = f"behaviors.{made.behavior}"
        keys = [f"{path}.max_steps={made.steps}"]
        if not made.episodes:
            keys.append(f"{path}.hyperparameters.save_replay_buffer=true")
        sets = [word for key in keys for word in ("--set", key)]
        learn = [
            "lanista-learn",
            f"config/{made.settings}.yaml",
            *env,
            "--run-id",
            "run",
            "--seed",
            str(seed),
        ]
        run = train([*learn, *sets], folder, threads=1)
        brains = {"recorded": run / f"{made.behavior}.onnx"}
        source = run / made.behavior / "last_replay_buffer.replay"
        if made.episodes:
            source = folder / "demos"
            count = ["--episodes", str(made.episodes), "--max-decisions", str(DECISIONS)]
            record = [*count, "--seed", str(seed), "--sampled", "--record-demos", str(source)]
            play(["lanista", "play", str(brains["recorded"]), *env, *record])
        for method in ("bc", "iql"):
            into = ["--results-dir", folder, "--run-id", method, "--seed", seed, "--torch-device", "cpu"]
            one_thread = ["--set", "torch_settings.num_threads=1"]
            run_command(["lanista", "clone", source, "--method", method, *into, *one_thread])
            brains[method] = folder / method / f"{made.behavior}.onnx"
        style = ["--episodes", str(PLAYED), "--max-decisions", str(DECISIONS)]
        others = ["--seed", str(OTHER_EPISODES + seed)]
        returns = {
            brain: round(play(["lanista", "play", str(file), *env, *style, *others])["mean_reward"], 4)
            for brain, file in brains.items()
        }
        steps = len(load_demonstrations(source) if made.episodes else read_replay(source))
        return Return(name, seed, steps, **returns)


def main() -> None:
    given = parse_options(__doc__, seeds=[0, 1, 2, 3, 4])
    rows = read(CSV, Return)
    known = {(row.recording, row.seed) for row in rows}
    for seed in given.seeds:
        for name in RECORDINGS:
            if (name, seed) not in known:
                rows.append(contest(name, seed))
                print(rows[-1], flush=True)
                write(CSV, Return, rows)


if __name__ == "__main__":
    main()
