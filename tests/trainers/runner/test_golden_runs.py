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
        compare_lines(out, expected, runs_of_it)


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
        (fields,) = {frozenset(entry) for entry in theirs["checkpoints"]}
        for entry in mine["checkpoints"]:
            step = entry["steps"]
            assert set(entry) == fields
            assert entry["file_path"] == f"results/{run.name}/{name}/{name}-{step}.onnx"
            assert entry["auxillary_file_paths"] == [f"results/{run.name}/{name}/{name}-{step}.pt"]
            assert load_checkpoint(entry["auxillary_file_paths"][0])["step"] == step
        compare_occasions(*(steps_of(each["checkpoints"]) for each in (mine, theirs)), chosen)
        final = mine["final_checkpoint"]
        assert final == {**mine["checkpoints"][-1], "file_path": theirs["final_checkpoint"]["file_path"]}


def steps_of(checkpoints):
    return [entry["steps"] for entry in checkpoints]


def settings_of(inputs, behavior):
    """The settings that decide when a run of these inputs writes checkpoints."""
    options = RunOptions.from_dict(yaml.safe_load(inputs["yaml"]))
    settings = options.behavior(behavior)
    trained = [
        options.behavior(name) for name in {n.partition("?")[0] for n in inputs["environment"]["behaviors"]}
    ]
    # Behaviors go on until the last of them has reached its max_steps.
    end = max(one.max_steps for one in trained)
    agents = inputs["environment"]["agents"]
    # Agents' steps count when their trajectories end, those of each behavior at a time of its own.
    late = max(one.time_horizon for one in trained) * agents * min(2, len(trained))
    return {
        "buffer": getattr(settings.hyperparameters, "buffer_size", 0) * (settings.trainer_type != "sac"),
        "summary": settings.summary_freq,
        "end": end,
        "late": late,
        "certain": end if settings.max_steps == end else end - late,
        "interval": settings.checkpoint_interval,
        "horizon": settings.time_horizon,
        "agents": agents,
    }


def occasions(step, runs_of_it):
    """The occasions for which a checkpoint of this step may have been written.

    Each is a run, and a multiple of the interval or "end".

    One is written just before the trajectory that reaches a multiple of the interval, and one at the end of
    a run, which all agents' trajectories may take beyond its steps. A behavior that waits for another one's
    last steps may then be short of them, too.
    """
    found = set()
    for k, chosen in enumerate(runs_of_it):
        if 0 < -step % chosen["interval"] <= chosen["horizon"]:
            found.add((k, -(-step // chosen["interval"])))
        if chosen["certain"] < step <= chosen["end"] + chosen["late"]:
            found.add((k, "end"))
    return found


def compare_occasions(ours, theirs, runs_of_it):
    """Both list checkpoints of the same occasions; before an uncertain end one more or less."""
    for steps in (ours, theirs):
        assert steps == sorted(set(steps))
        assert all(occasions(step, runs_of_it) for step in steps)
        assert any(why == "end" for _, why in occasions(steps[-1], runs_of_it))
    certain = runs_of_it[-1]["certain"]
    if certain < runs_of_it[-1]["end"] and abs(len(ours) - len(theirs)) <= 1:
        ours, theirs = (
            [step for step in steps if step <= certain - runs_of_it[-1]["horizon"]]
            for steps in (ours, theirs)
        )
        both = min(len(ours), len(theirs))  # what is kept ends with one more or less
        ours, theirs = ours[len(ours) - both :], theirs[len(theirs) - both :]
    for step, other in zip(ours, theirs, strict=True):
        assert occasions(step, runs_of_it) & occasions(other, runs_of_it)


def updated_in_every_summary(runs_of_it):
    """Whether the buffer is full once before each summary, however long the trajectories happen to be.

    The steps that waited for an update at the end of a run count no more when it goes on: the reference has
    lost them.
    """
    begun = [0, *(run["end"] for run in runs_of_it)]
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
        chosen = [settings_of(each, folder.split("/")[-1]) for each in runs_of_it]

        def certain(curves, chosen=chosen):
            """Their steps up to the summary that a run is sure to reach."""
            return {
                tag: [step for step in steps if step <= chosen[-1]["certain"]]
                for tag, steps in curves.items()
            }

        found = certain({tag: [e.step for e in events.Scalars(tag)] for tag in tags})
        wanted = certain({tag: curve["steps"] for tag, curve in reference["scalars"].items()})
        summaries = set().union(*map(set, wanted.values()))
        if not updated_in_every_summary(chosen):
            for curves in (found, wanted):
                for tag in [tag for tag in curves if not OF_COLLECTING.match(tag)]:
                    assert set(curves.pop(tag)) <= summaries
        assert found == wanted
        histograms = {tag: [e.step for e in events.Histograms(tag)] for tag in events.Tags()["histograms"]}
        theirs = {tag: curve["steps"] for tag, curve in reference["histograms"].items()}
        assert certain(histograms) == certain(theirs)
        for tag in {"Policy/Learning Rate", "Policy/Epsilon", "Policy/Beta"} & found.keys():
            values = [e.value for e in events.Scalars(tag)][: len(found[tag])]
            # Updates come when the buffer is full: a few steps earlier or later, at random.
            expected_values = reference["scalars"][tag]["values"][: len(found[tag])]
            assert values == pytest.approx(expected_values, rel=0.5, abs=0.01)


def compare_lines(out, expected, runs_of_it):
    def lines(text):
        return re.sub(r"\d+\.\d+|<t>|-\d\.\d+|-\d+(?=\.onnx)|-(?=#)", "#", text).replace("-#", "#")

    def certain(behavior, line):
        """Whether the run is sure to come so far: of a behavior that waits for others it may end before."""
        at = re.search(r"Step: (\d+)\.|Exported .*-(\d+)\.onnx", line)
        if at is None:
            return True
        chosen = settings_of(runs_of_it[-1], behavior)
        in_time = chosen["end"] == chosen["certain"]
        return in_time or int(at[1] or at[2]) <= chosen["certain"] - chosen["horizon"] * (at[1] is None)

    def of_behaviors(text):
        """Each behavior's lines; the reference's behaviors take turns in the order of a set."""
        told = re.compile(
            r"INFO\] (?P<stepped>.*?)\. Step: |(?:Exported|Copied) results/[^/]*/(?P<saved>[^/]*)/"
        )
        found = {}
        for line in text:
            match = told.search(line)
            if match and certain(behavior := match["stepped"] or match["saved"], line):
                found.setdefault(behavior, []).append(lines(line))
        return found

    assert of_behaviors(out.splitlines()) == of_behaviors(expected["console"])
