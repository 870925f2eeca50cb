"""Scripts that were written for `mlagents-learn` read our console lines and our event files.

They know nothing of Lanista; what they expect is what ML-Agents 1.1.0 gives with these settings.
"""

import re
import subprocess

import pytest
from console_runs import end, start, until
from lanista.envs.scenes.registry import export
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

pytestmark = pytest.mark.slow

YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128}
    network_settings: {hidden_units: 16, num_layers: 1}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 1.0}}
    checkpoint_interval: 300
    max_steps: 1000
    time_horizon: 3
    summary_freq: 200
environment_parameters: {mass: 2.0}
"""

SUMMARY = re.compile(
    r"^\[INFO\] (?P<behavior>[^.]+)\. Step: (?P<step>\d+)\. Time Elapsed: (?P<time>\d+\.\d{3}) s\. "
    r"(?:Mean Reward: (?P<mean>-?\d+\.\d{3})\. Std of Reward: (?P<std>\d+\.\d{3})\.|"
    r"No episode was completed since last summary\.) (?P<state>Training|Not Training)\.$",
    re.MULTILINE,
)

TAGS = [
    *("Environment/Cumulative Reward", "Environment/Episode Length", "Environment/Lesson Number/mass"),
    *("Losses/Policy Loss", "Losses/Value Explained Variance", "Losses/Value Loss"),
    *("Policy/Approximate KL", "Policy/Beta"),
    *("Policy/Clip Fraction", "Policy/Entropy", "Policy/Epsilon", "Policy/Extrinsic Reward"),
    *("Policy/Extrinsic Value Estimate", "Policy/Gradient Norm", "Policy/Learning Rate"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a Unity-like executable, its output not on a terminal."""
    folder = tmp_path_factory.mktemp("run")
    executable = export("basic", folder / "basic")
    return end(start(folder, "--env", str(executable), yaml=YAML), folder)


def lines(pattern, out):
    return re.findall(pattern, out, re.MULTILINE)


def test_scripts_find_the_versions(run):
    assert run.good
    block = run.out.partition(" Version information:\n")[2]
    for name in ("ml-agents", "ml-agents-envs", "Communicator API"):
        assert lines(rf"^  {name}: \d+\.\d+\.\d+,$", block)
    assert lines(r"^  PyTorch: \d+\.\d+", block)


def test_scripts_find_the_connection_and_the_brain(run):
    versions = r"package version (\S+) and communication version (\S+)$"
    assert lines(rf"^\[INFO\] Connected to scene:basic \(ML-Agents' protocol\) with {versions}", run.out) == [
        ("4.0.0", "1.5.0")
    ]
    assert lines(r"^\[INFO\] Connected new brain: (.+)$", run.out) == ["Basic?team=0"]
    assert lines(r"^\[INFO\] Parameter '(.+)' is in lesson '(.+)' and has value '(.+)'\.$", run.out) == [
        ("mass", "mass", "Float: value=2.0")
    ]


def test_scripts_find_only_the_algorithm_s_hyperparameters(run):
    block = run.out.partition("Hyperparameters for behavior name Basic: \n")[2].partition("[INFO]")[0]
    found = dict(line.removeprefix("\t").split(":\t") for line in block.splitlines())
    assert found["trainer_type"] == "ppo" and found["  batch_size"] == "32" and found["max_steps"] == "1000"
    assert found["    gamma"] == "0.9"
    assert not {"  buffer_init_steps", "  init_entcoef", "  max_num_agents", "stats_writers"} & set(found)


def test_each_summary_is_a_line(run):
    found = [match.groupdict() for match in SUMMARY.finditer(run.out)]
    assert [(line["behavior"], int(line["step"])) for line in found] == [
        ("Basic", step) for step in (200, 400, 600, 800, 1000)
    ]
    times = [float(line["time"]) for line in found]
    assert times == sorted(times)
    assert {line["state"] for line in found} == {"Training"}
    assert any(line["mean"] for line in found)


def test_exported_brains_are_named(run):
    exported = lines(r"^\[INFO\] Exported (.+\.onnx)$", run.out)
    steps = [int(re.fullmatch(r"results/r/Basic/Basic-(\d+)\.onnx", path)[1]) for path in exported]
    assert len(steps) == 4 and steps == sorted(steps) and 297 <= steps[0] <= 300 and steps[-1] > 1000
    assert lines(r"^\[INFO\] Copied (.+\.onnx) to (.+\.onnx)\.$", run.out) == [
        (exported[-1], "results/r/Basic.onnx")
    ]


def test_the_next_command_is_named_in_a_line_of_its_own_form(run):
    (told,) = lines(r"^\[INFO\] The brain of Basic is results/r/Basic\.onnx\. See it act: (.+)$", run.out)
    assert told.startswith("lanista play results/r/Basic.onnx --env ")


def test_the_curves_have_ml_agents_tags_at_its_steps(run):
    curves = EventAccumulator(str(run.folder / "results" / "r" / "Basic"), {"histograms": 0}).Reload()
    steps = [200, 400, 600, 800, 1000]
    scalars = {tag: [event.step for event in curves.Scalars(tag)] for tag in curves.Tags()["scalars"]}
    assert scalars == dict.fromkeys(TAGS, steps)
    (histogram,) = curves.Tags()["histograms"]
    assert histogram == "Environment/Cumulative Reward_hist"
    assert [event.step for event in curves.Histograms(histogram)] == steps
    (text,) = curves.Tensors("Hyperparameters/text_summary")
    assert text.step == 0 and text.tensor_proto.string_val[0].decode().count("batch_size") == 1


def test_an_interrupted_run_logs_ml_agents_line(tmp_path):
    process = start(
        tmp_path, "--env", "scene:basic", yaml=YAML.replace("1000", "1e9"), stderr=subprocess.STDOUT
    )
    assert until(lambda: any(tmp_path.rglob("*.onnx")))
    process.terminate()
    run = end(process, tmp_path)
    assert run.status == 0
    words = "Learning was interrupted. Please wait while the graph is generated."
    assert lines(rf"^\[INFO\] {re.escape(words)}$", run.out)
    assert "the same command with --resume" in run.out
