"""Two learners, of which this process is the first; they take seconds to start, so all tests share them."""

import pytest
from crowd import write_demonstration
from lanista.trainers.trainer.distributed.leader import LearnerTeam
from learner_teams import Recording
from line_runs import Runs
from referencenets import spec_of_shapes

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{{hyper}}}
    network_settings: {{normalize: true, hidden_units: 8, num_layers: 1{memory}}}
    max_steps: 500
    time_horizon: 8
    summary_freq: 100
{more}\
torch_settings: {{num_threads: 1}}
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    with LearnerTeam(2, "cpu", tmp_path_factory.mktemp("logs"), 1) as learners:
        yield learners


@pytest.fixture
def record(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def recorded(trainer, hyper, memory, rules, more=""):
        runs = Runs(monkeypatch)
        runs.rules |= rules
        if "DEMO" in more:
            more = more.replace("DEMO", str(tmp_path / "expert.demo"))
            write_demonstration(tmp_path / "expert.demo", spec_of_shapes([[2]], continuous=1), [9, 14, 6])
        text = YAML.format(trainer=trainer, hyper=hyper, memory=memory, more=more)
        (tmp_path / "c.yaml").write_text(text)
        return Recording(monkeypatch, runs, tmp_path / "c.yaml")

    return recorded
