"""Trainers that a script advances itself: each learns from its manager's queue, acts, and exports."""

import lanista
import numpy as np
import pytest
import torch
from lanista import trainers
from lanista.trainers import StatsWriter, TrainerConfigError
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_behavior
from lanista.trainers.utils.errors import TrainerError
from line_game import LineGame
from reliability.resume import differences

ON_POLICY = {"hyperparameters": {"batch_size": 16, "buffer_size": 64}}
OFF_POLICY = {"hyperparameters": {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 32}}
SIMBA = {"hyperparameters": OFF_POLICY["hyperparameters"] | {"recipe": "simba"}}
RANDOM = {"hyperparameters": OFF_POLICY["hyperparameters"] | {"random_initial_actions": True}}
COMMON = {
    "network_settings": {"hidden_units": 8, "num_layers": 1},
    "max_steps": 150,
    "time_horizon": 8,
    "summary_freq": 50,
}
MEMORY = {"hidden_units": 8, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 4}}
CASES = {
    "PPOTrainer": ({"cont": 1}, ON_POLICY),
    "PPOTrainer with a memory": ({"cont": 1, "disc": (3,)}, {**ON_POLICY, "network_settings": MEMORY}),
    "POCATrainer": ({"disc": (3,), "groups": True}, ON_POLICY),
    "MAPPOTrainer": ({"cont": 1, "groups": True}, ON_POLICY),
    "COMATrainer": ({"disc": (3,), "groups": True}, ON_POLICY),
    "COMATrainer with a memory": ({"disc": (3,), "groups": True}, {**ON_POLICY, "network_settings": MEMORY}),
    "SACTrainer": ({"cont": 1}, OFF_POLICY),
    "SACTrainer with a memory": ({"disc": (3,)}, {**OFF_POLICY, "network_settings": MEMORY}),
    "SACTrainer by SimBa's recipe": ({"cont": 1, "disc": (3,)}, SIMBA),
    "DQNTrainer": ({"disc": (3,)}, OFF_POLICY),
    "DDPGTrainer": ({"cont": 1}, OFF_POLICY),
    "TD3Trainer": ({"cont": 1}, OFF_POLICY),
}


class Summaries(StatsWriter):
    def __init__(self):
        self.values = {}

    def write_stats(self, category, values, step):
        assert category == "Tiny"
        self.values |= values


def advance_to_the_end(trainer, game):
    """The loop of docs/python-api.md."""
    (behavior_id,) = game.behavior_specs
    manager = trainer.make_manager(behavior_id)
    decided = None
    while trainer.should_still_train:
        decisions, terminals = game.get_steps(behavior_id)
        manager.add_experiences(decisions, terminals, env=0, decided=decided)
        decided = trainer.act(decisions, manager)
        game.set_actions(behavior_id, decided.env_action)
        game.step()
        trainer.advance()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_script_trains_and_exports(case, tmp_path):
    rules, settings = CASES[case]
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, **rules)
    game.reset()
    summaries = Summaries()
    make = getattr(trainers, case.split()[0])
    trainer = make("Tiny?team=0", game.behavior_specs["Tiny?team=0"], COMMON | settings, writers=[summaries])
    advance_to_the_end(trainer, game)
    assert trainer.step > 150
    assert any(tag.startswith("Losses/") for tag in summaries.values)
    assert summaries.values["Environment/Cumulative Reward"].num
    trainer.export(tmp_path / "tiny.onnx")
    policy = lanista.load(tmp_path / "tiny.onnx")
    action = policy.act([np.zeros((3, 2), np.float32)])
    assert len(action.continuous) == 3


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_trainer_clips_its_gradients(case):
    """With gradients of almost no length, Adam's moments are as small."""
    rules, settings = CASES[case]
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, **rules)
    game.reset()
    settings = COMMON | settings
    settings["hyperparameters"] = settings["hyperparameters"] | {"max_grad_norm": 1e-6}
    make = getattr(trainers, case.split()[0])
    summaries = Summaries()
    trainer = make("Tiny?team=0", game.behavior_specs["Tiny?team=0"], settings, writers=[summaries])
    advance_to_the_end(trainer, game)
    assert summaries.values["Policy/Gradient Norm"].mean > 1e-6, "before clipping"
    for optimizer in trainer.algorithm.optimizers().values():
        assert optimizer.adam.steps and optimizer.adam.mean.norm() <= 1e-6


def test_the_agents_of_a_script_act_at_random_first():
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, cont=1)
    game.reset()
    decisions, _ = game.get_steps("Tiny?team=0")
    taken = []
    for gain in (1.0, -5.0):
        trainer = trainers.SACTrainer("Tiny?team=0", game.behavior_specs["Tiny?team=0"], COMMON | RANDOM)
        with torch.no_grad():
            for parameter in trainer.algorithm.network.parameters():
                parameter.mul_(gain)
        taken.append(trainer.act(decisions, trainer.make_manager("Tiny?team=0")).action.continuous)
    np.testing.assert_array_equal(*taken)


@pytest.mark.parametrize(("name", "rules"), [("DQNTrainer", {"disc": (3,)}), ("TD3Trainer", {"cont": 1})])
def test_a_greedy_policy_explores_while_it_is_trained(name, rules):
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, **rules)
    game.reset()
    decisions, _ = game.get_steps("Tiny?team=0")
    network = COMMON["network_settings"] | {"deterministic": True}
    settings = COMMON | OFF_POLICY | {"network_settings": network}
    trainer = getattr(trainers, name)("Tiny?team=0", game.behavior_specs["Tiny?team=0"], settings)
    manager = trainer.make_manager("Tiny?team=0")
    taken = [trainer.act(decisions, manager).action for _ in range(20)]
    assert len({(action.discrete.tobytes(), action.continuous.tobytes()) for action in taken}) > 1


def test_noise_begins_anew_with_every_episode():
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, cont=1)
    game.reset()
    noise = OFF_POLICY["hyperparameters"] | {"noise_type": "ornstein_uhlenbeck"}
    spec = game.behavior_specs["Tiny?team=0"]
    trainer = trainers.DDPGTrainer("Tiny?team=0", spec, COMMON | {"hyperparameters": noise})
    manager, decided, ended = trainer.make_manager("Tiny?team=0"), None, 0
    kept = trainer.algorithm.explorer.states

    def states(agents):
        return kept.read([(0, "Tiny?team=0")], [decisions])[np.isin(decisions.agent_id, agents)]

    for _ in range(30):
        decisions, terminals = game.get_steps("Tiny?team=0")
        manager.add_experiences(decisions, terminals, env=0, decided=decided)
        going = np.setdiff1d(decisions.agent_id, terminals.agent_id)
        assert not states(terminals.agent_id).any()
        assert decided is None or states(going).all()
        ended += len(terminals)
        decided = trainer.act(decisions, manager)
        game.set_actions("Tiny?team=0", decided.env_action)
        game.step()
    assert ended >= 8 and states(decisions.agent_id).all()
    manager.reset_agents(0, decisions.agent_id[:1])
    assert states(decisions.agent_id).all(axis=1).tolist() == [False, True, True, True]
    manager.end_episode()
    assert not states(decisions.agent_id).any()


def test_the_events_of_a_script_are_called():
    class Events(trainers.trainer.standalone.SummaryEvents):
        updates = 0

        def on_update(self, metrics):
            self.updates += 1
            assert "Losses/Policy Loss" in metrics

    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, cont=1)
    game.reset()
    events = Events(trainers.StatsReporter("Tiny"))
    spec = game.behavior_specs["Tiny?team=0"]
    advance_to_the_end(trainers.PPOTrainer("Tiny?team=0", spec, COMMON | ON_POLICY, events=events), game)
    assert events.updates


def test_wrong_settings_are_named():
    spec = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, cont=1).behavior_specs["Tiny?team=0"]
    with pytest.raises(TrainerConfigError, match=r"behaviors\.Tiny\.max_step"):
        trainers.PPOTrainer("Tiny?team=0", spec, {"max_step": 3})


def test_a_script_starts_from_weights_and_counts_its_workers(tmp_path, caplog):
    game = LineGame(1, ["Tiny?team=0"], agents=4, max_len=10, cont=1)
    game.reset()
    spec, summaries = game.behavior_specs["Tiny?team=0"], Summaries()
    first = trainers.PPOTrainer("Tiny?team=0", spec, COMMON | ON_POLICY, seed=1)
    path = tmp_path / "start.pt"
    brain = describe_behavior("Tiny", spec, first.settings, first.algorithm.network)
    save_checkpoint(path, {**first.state_dict(), "brain": brain})
    own = COMMON | ON_POLICY | {"worker_statistics": True, "threaded": True}
    second = trainers.PPOTrainer(
        "Tiny?team=0", spec, own | {"init_path": str(path)}, seed=2, writers=[summaries]
    )
    assert not differences(first.algorithm.network.state_dict(), second.algorithm.network.state_dict())
    assert "threaded is for runs" in caplog.text and "mean something else" not in caplog.text
    otherwise = {"network_settings": {**COMMON["network_settings"], "activation": "tanh"}}
    trainers.PPOTrainer("Tiny?team=0", spec, own | otherwise | {"init_path": str(path)})
    assert f"Tiny: the weights of {path} fit, but were learned with other settings" in caplog.text
    advance_to_the_end(second, game)
    names = ("Cumulative Reward", "Episode Length")
    assert {f"Environment/Worker 0/{name}" for name in names} <= summaries.values.keys()
    with pytest.raises(TrainerError, match=r"nowhere\.pt"):
        trainers.PPOTrainer("Tiny?team=0", spec, own | {"init_path": str(tmp_path / "nowhere.pt")})
