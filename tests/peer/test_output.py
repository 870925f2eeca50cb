"""A run of ours and one of ML-Agents with the same settings tell the same things at the same steps."""

import re

import yaml
from lanista.envs.scenes.registry import export
from reproducibility import NEW_TAGS
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SETTINGS = {
    "behaviors": {
        "Basic": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 32, "buffer_size": 128},
            "network_settings": {"hidden_units": 16, "num_layers": 1},
            "checkpoint_interval": 300,
            "max_steps": 800,
            "time_horizon": 3,
            "summary_freq": 200,
        }
    },
    "environment_parameters": {"mass": 2.0},
}


# Lines that Lanista alone writes: about a brain's inputs, and about the memory that a run will take.
OURS_ALONE = ("The brain of", "the rollout will take")


def shapes(output):
    """What the lines of a log say, numbers and paths apart; who is asked about versions, the common names."""
    lines = [
        line for line in output.splitlines() if line.startswith(("[INFO] ", "\t", "  ml-agents", "  Comm"))
    ]
    lines = [line for line in lines if not any(own in line for own in OURS_ALONE)]
    # A scene says its own name; a Unity build is the Unity environment here too.
    lines = [line.replace("scene:basic (ML-Agents' protocol)", "Unity environment") for line in lines]
    lines = [
        re.sub(r"No episode was completed since last summary", "Mean Reward: 0. Std of Reward: 0", x)
        for x in lines
    ]
    return [re.sub(r"-?\d+(\.\d+)*|\S+\.onnx", "#", line) for line in lines]


def curves(folder):
    read = EventAccumulator(str(folder))
    read.Reload()
    tags = read.Tags()
    scalars = {tag: [event.step for event in read.Scalars(tag)] for tag in tags["scalars"]}
    return scalars, sorted(tags["histograms"]), sorted(tags["tensors"])


def test_lines_and_curves_are_those_of_ml_agents(peer, port, lanista_learn, tmp_path, capfd):
    config = tmp_path / "basic.yaml"
    config.write_text(yaml.safe_dump(SETTINGS))
    executable = export("basic", tmp_path / "basic")
    results = tmp_path / "results"
    theirs = peer.run(
        *("run_peer.py", config, f"--env={executable}", f"--base-port={port}"),
        *("--run-id=peer", f"--results-dir={results}", "--seed=1"),
    )
    capfd.readouterr()
    ours = lanista_learn(config, "--env", str(executable), "--seed", "1")
    assert shapes(capfd.readouterr().out) == shapes(theirs)
    scalars, *others = curves(ours / "Basic")
    assert scalars.keys() >= set(NEW_TAGS) - {"Losses/Baseline Explained Variance"}, "all but POCA's own"
    shared = {tag: steps for tag, steps in scalars.items() if tag not in NEW_TAGS}
    histograms, texts = others
    assert (shared, histograms, [tag for tag in texts if not tag.startswith("_hparams_")]) == curves(
        results / "peer" / "Basic"
    )
