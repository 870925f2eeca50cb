"""Weights & Biases and MLflow receive settings, curves and brains, and a resumed run continues there."""

import sys

import pytest
from lanista.trainers.callbacks.factory import make_callbacks
from lanista.trainers.settings import RunOptions, TrainerConfigError
from line_runs import EVALUATED, START

YAML = EVALUATED.replace("max_steps: 400", "max_steps: 250").replace("test_episodes: 4", "test_episodes: 2")
ON = ["--resume", "--set", "default_settings.max_steps=400"]


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """A folder for MLflow's runs, and a client that reads them."""
    pytest.importorskip("mlflow", reason="MLflow is not installed (extra mlflow)")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "tracked").as_uri()
    return uri, MlflowClient(uri)


def test_mlflow(runs, tracked):
    uri, client = tracked
    chosen = f"[{{mlflow: {{tracking_uri: '{uri}', experiment: lines, brains: true}}}}]"
    runs.configure(f"{YAML}callbacks: {chosen}\n")
    assert runs(*START) == 0 and runs(*START, *ON) == 0
    (run,) = client.search_runs([client.get_experiment_by_name("lines").experiment_id])
    assert (run.info.run_name, run.info.status) == ("r", "FINISHED")
    assert run.data.params["default_settings.hyperparameters.batch_size"] == "16"
    told = client.get_metric_history(run.info.run_id, "Tiny/Environment/Cumulative Reward")
    assert [metric.step for metric in told][:2] == [100, 200] and told[-1].step == 400
    tests = client.get_metric_history(run.info.run_id, "Tiny/Evaluation/Cumulative Reward")
    assert [metric.step // 100 for metric in tests] == [1, 2, 3, 4]
    assert [file.path for file in client.list_artifacts(run.info.run_id, "brains")] == ["brains/Tiny.onnx"]


def test_metrics_that_mlflow_missed_are_sent_later(runs, tracked, monkeypatch, capsys):
    (uri, client), MlflowClient = tracked, type(tracked[1])
    send, calls = MlflowClient.log_batch, []

    def log_batch(self, run_id, metrics=(), **more):
        calls.append(len(metrics))
        if metrics and sum(map(bool, calls)) < 3:
            raise ConnectionError("away")
        return send(self, run_id, metrics=metrics, **more)

    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    runs.configure(f"{YAML}callbacks: [{{mlflow: {{tracking_uri: '{uri}'}}}}]\n")
    assert runs(*START) == 0
    assert capsys.readouterr().out.count("it gets them with the next (ConnectionError: away)") == 2
    (run,) = client.search_runs([client.get_experiment_by_name("lanista").experiment_id])
    told = client.get_metric_history(run.info.run_id, "Tiny/Environment/Cumulative Reward")
    assert [metric.step for metric in told] == [100, 200]


def test_weights_and_biases(runs, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="Weights & Biases is not installed (extra wandb)")
    logged, begun = [], []

    def init(**arguments):
        run = begin(**arguments)
        begun.append((run.id, dict(run.config), arguments))
        monkeypatch.setattr(
            type(run), "log", lambda self, data, **more: logged.append(data) or log(self, data)
        )
        return run

    begin, log = wandb.init, wandb.Run.log
    monkeypatch.setattr(wandb, "init", init)
    runs.configure(f"{YAML}callbacks: [{{wandb: {{mode: offline, project: lines, brains: true}}}}]\n")
    assert runs(*START) == 0 and runs(*START, *ON) == 0
    (first, config, _), (second, _, resumed) = begun
    assert first == second == resumed["id"] and resumed["resume"] == "allow"
    assert config["default_settings"]["hyperparameters"]["batch_size"] == 16
    steps = [data["Tiny/step"] for data in logged if "Tiny/Environment/Cumulative Reward" in data]
    assert steps[:2] == [100, 200] and steps[-1] == 400
    assert sum("Tiny/Evaluation/Cumulative Reward" in data for data in logged) == 4
    assert len(list((tmp_path / "results" / "r" / "wandb").glob("offline-run-*"))) == 2


@pytest.mark.parametrize(("name", "package"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_a_missing_tracker_package_is_named_with_the_remedy(monkeypatch, name, package):
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Missing(package), *sys.meta_path])
    options = RunOptions.from_text(f"callbacks: [{name}]", "c.yaml")
    with pytest.raises(TrainerConfigError, match=f"is not installed: pip install {package}"):
        make_callbacks(options)


class _Missing:
    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
