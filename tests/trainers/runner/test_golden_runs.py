"""Whole runs against the files, lines and curves of the same runs of ML-Agents 1.1.0."""

import json
import re

import goldendata
import pytest
import yaml
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.options import RunOptions
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

REPLAY = ("last_replay_buffer.hdf5", "last_replay_buffer.replay")
"""Our replay file is memory-mapped, and theirs is compressed HDF5."""
BETTER = {"ModuleNotFoundError"}
"""Errors of the reference only: its exporter needs a package that is missing (pitfall G5)."""


OWN_TAGS = {
    *("Policy/Approximate KL", "Policy/Clip Fraction", "Policy/Gradient Norm"),
    *("Losses/Value Explained Variance", "Losses/Baseline Explained Variance"),
}
"""Statistics that ML-Agents does not report."""
OWN_FILES = {"run_logs/warnings.log"}
"""Files that ML-Agents does not write."""
OF_COLLECTING = re.compile(
    r"Policy/(Entropy|.* Reward|.* Value Estimate|.* Baseline Estimate)$|(?!Policy|Losses)"
)
"""Statistics that every summary has; the others are of updates."""


def play(runs, tmp_path, inputs):
    """The exit status of the run that `inputs` describe."""
    (tmp_path / "c.yaml").write_text(inputs["yaml"])
    runs.rules = inputs["environment"]
    return runs("c.yaml", *inputs["argv"])


def plain(names):
    """Names without their random parts (steps, times, hosts)."""
    return sorted({re.sub(r"-\d+\.(pt|onnx)$|(?<=tfevents\.).*", "-N", name) for name in names})


def run_id(inputs):
    return parse_command_line(inputs["argv"]).checkpoint_settings.run_id


@pytest.mark.slow
@pytest.mark.parametrize("case", goldendata.cases("training_status"))
def test_a_run_writes_what_the_reference_writes(case, runs, tmp_path, capsys):
    inputs, expected = case["inputs"], case["expected"]
    names = inputs["previous_runs_in_same_results_directory"]
    previous = [goldendata.case_named("training_status", name)["inputs"] for name in names]
    for earlier in previous:
        play(runs, tmp_path, earlier)
    capsys.readouterr()
    status = play(runs, tmp_path, inputs)
    out, err = capsys.readouterr()
    error = expected.get("error")
    if error is not None and error["error_class"] not in BETTER:
        assert status == 1 and error["error_message"].split(".")[0] in err
        return
    assert status == 0, err
    run = tmp_path / "results" / run_id(inputs)
    compare_files(run, inputs, expected, better=error is not None)
    if error is None:
        runs_of_it = [each for each in (*previous, inputs) if run_id(each) == run.name]
        compare_status(run, expected, runs_of_it)
        compare_curves(run, expected, runs_of_it)
        compare_lines(out, expected)


def compare_files(run, inputs, expected, better):
    written = [path for path in run.rglob("*") if path.is_file()]
    own = {run / name for name in OWN_FILES}
    found = plain(str(path.relative_to(run.parent)) for path in written if path not in own)
    named = (name.replace(*REPLAY) for name in expected["files"])
    wanted = plain(name for name in named if name.startswith(run.name + "/"))
    assert set(wanted) <= set(found) if better else wanted == found
    written = yaml.safe_load((run / "configuration.yaml").read_text())
    reference = expected["configuration"][f"{run.name}/configuration.yaml"]
    given = RunOptions.from_dict(yaml.safe_load(inputs["yaml"]))
    # The reference writes in init_path what --initialize-from says, which ours keeps in its own key.
    assert written["behaviors"] == {
        name: {**settings, "init_path": given.behavior(name).init_path}
        for name, settings in reference["behaviors"].items()
    }
    assert list(written) == list(reference)
    assert RunOptions.from_file(run / "configuration.yaml").as_dict() == written
    timers = json.loads((run / "run_logs" / "timers.json").read_text())
    told = expected["timers"][f"{run.name}/run_logs/timers.json"]
    assert set(told["top_level_keys"]) <= set(timers)
    assert set(told["metadata_keys"]) <= set(timers["metadata"])
    assert better or set(told["gauge_names"]) <= set(timers.get("gauges", {}))


def compare_status(run, expected, runs_of_it):
    tree = json.loads((run / "run_logs" / "training_status.json").read_text())
    (reference,) = (v for k, v in expected["training_status"].items() if k.startswith(run.name + "/"))
    assert set(tree) == set(reference)
    assert tree["metadata"].keys() == reference["metadata"].keys()
    assert tree["metadata"]["stats_format_version"] == reference["metadata"]["stats_format_version"]
    for name in expected["configuration"][f"{run.name}/configuration.yaml"]["behaviors"]:
        chosen = [settings_of(each, name) for each in runs_of_it]
        # A finished run that is resumed lists its last checkpoint again in the reference.
        listed = list({entry["steps"]: entry for entry in reference[name]["checkpoints"]}.values())
        mine, theirs = tree[name], {**reference[name], "checkpoints": listed}
        assert set(mine) - {"resume_step"} == set(theirs)
        assert [set(e) for e in mine["checkpoints"]] == [set(e) for e in theirs["checkpoints"]]
        for entry, other in zip(mine["checkpoints"], theirs["checkpoints"], strict=True):
            step = entry["steps"]
            assert plain([entry["file_path"]]) == plain([other["file_path"]])
            assert entry["file_path"] == f"results/{run.name}/{name}/{name}-{step}.onnx"
            assert entry["auxillary_file_paths"] == [f"results/{run.name}/{name}/{name}-{step}.pt"]
            assert load_checkpoint(entry["auxillary_file_paths"][0])["step"] == step
            assert occasions(step, chosen) & occasions(other["steps"], chosen)
        assert tree[name]["checkpoints"][-1]["steps"] > chosen[-1]["max_steps"]
        final = mine["final_checkpoint"]
        assert final == {**mine["checkpoints"][-1], "file_path": theirs["final_checkpoint"]["file_path"]}


def settings_of(inputs, behavior):
    """The settings that decide when a run of these inputs writes checkpoints.

    Behaviors go on until the last of them has reached its max_steps.
    """
    options = RunOptions.from_dict(yaml.safe_load(inputs["yaml"]))
    settings = options.behavior(behavior)
    trained = {name.partition("?")[0] for name in inputs["environment"]["behaviors"]}
    return {
        "buffer": getattr(settings.hyperparameters, "buffer_size", 0) * (settings.trainer_type != "sac"),
        "summary": settings.summary_freq,
        "max_steps": max(options.behavior(name).max_steps for name in trained),
        "interval": settings.checkpoint_interval,
        "horizon": settings.time_horizon,
        "agents": inputs["environment"]["agents"],
    }


def occasions(step, runs_of_it):
    """The occasions for which a checkpoint of this step may have been written.

    One is written just before the trajectory that reaches a multiple of the interval, and one at the end of
    a run, which all agents' trajectories may take beyond max_steps.
    """
    found = set()
    for k, chosen in enumerate(runs_of_it):
        if 0 < -step % chosen["interval"] <= chosen["horizon"]:
            found.add((k, -(-step // chosen["interval"])))
        if 0 < step - chosen["max_steps"] <= chosen["horizon"] * chosen["agents"]:
            found.add((k, "end"))
    return found


def updated_in_every_summary(runs_of_it):
    """Whether the buffer is full once before each summary, however long the trajectories happen to be.

    The steps that waited for an update at the end of a run count no more when it goes on: the reference has
    lost them.
    """
    begun = [0, *(run["max_steps"] for run in runs_of_it)]
    return all(
        run["summary"] - start % run["summary"] >= run["buffer"] + run["horizon"] * run["agents"]
        for start, run in zip(begun, runs_of_it)
    )


def compare_curves(run, expected, runs_of_it):
    for folder, reference in expected["tensorboard"].items():
        if not folder.startswith(run.name + "/"):
            continue
        events = EventAccumulator(str(run.parent / folder), {"scalars": 0, "histograms": 0}).Reload()
        tags = set(events.Tags()["scalars"]) - OWN_TAGS
        found = {tag: [e.step for e in events.Scalars(tag)] for tag in tags}
        wanted = {tag: curve["steps"] for tag, curve in reference["scalars"].items()}
        summaries = set().union(*map(set, wanted.values()))
        if not updated_in_every_summary([settings_of(each, folder.split("/")[-1]) for each in runs_of_it]):
            for curves in (found, wanted):
                for tag in [tag for tag in curves if not OF_COLLECTING.match(tag)]:
                    assert set(curves.pop(tag)) <= summaries
        assert found == wanted
        histograms = {tag: [e.step for e in events.Histograms(tag)] for tag in events.Tags()["histograms"]}
        assert histograms == {tag: curve["steps"] for tag, curve in reference["histograms"].items()}
        for tag in {"Policy/Learning Rate", "Policy/Epsilon", "Policy/Beta"} & found.keys():
            values = [e.value for e in events.Scalars(tag)]
            # Updates come when the buffer is full: a few steps earlier or later, at random.
            assert values == pytest.approx(reference["scalars"][tag]["values"], rel=0.5, abs=0.01)


def compare_lines(out, expected):
    def lines(text):
        return re.sub(r"\d+\.\d+|<t>|-\d\.\d+|-\d+(?=\.onnx)|-(?=#)", "#", text).replace("-#", "#")

    def of_behaviors(text):
        """Each behavior's lines; the reference's behaviors take turns in the order of a set."""
        told = re.compile(
            r"INFO\] (?P<stepped>.*?)\. Step: |(?:Exported|Copied) results/[^/]*/(?P<saved>[^/]*)/"
        )
        found = {}
        for line in text:
            if match := told.search(line):
                found.setdefault(match["stepped"] or match["saved"], []).append(lines(line))
        return found

    assert of_behaviors(out.splitlines()) == of_behaviors(expected["console"])
