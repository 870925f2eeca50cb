"""What `lanista check --explain` says of ML-Agents' reading is what it does."""

import json

import pytest

READ = """
import json, sys, yaml
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.settings import RunOptions, TrainerSettings
register_trainer_plugins()
def found(text, question):
    TrainerSettings.default_override = None  # kept from one file to the next otherwise
    try:
        return repr(eval(question, {"o": RunOptions.from_dict(yaml.safe_load(text))}))
    except Exception as error:
        return type(error).__name__
print("FOUND", json.dumps([found(*pair) for pair in zip(sys.argv[1::2], sys.argv[2::2])]))
"""
BALL = "o.behaviors['Ball']"
CASES = [
    ("behaviors: {Ball: {threaded: 'false'}}", f"{BALL}.threaded", "True"),
    ("behaviors: {Ball: {even_checkpoints: ''}}", f"{BALL}.even_checkpoints", "False"),
    ("behaviors: {Ball: {threaded: 2}}", f"{BALL}.threaded", "True"),
    ("behaviors: {Ball: {}}", f"{BALL}.threaded", "False"),
    ("behaviors: {Ball: {self_play: {}}}", f"{BALL}.self_play.swap_steps", "2000"),
    ("behaviors: {Ball: {time_horizon: 1e4}}", "0", "ValueError"),
    ("behaviors: {Ball: {max_steps: 1e4}}", f"{BALL}.max_steps", "10000"),
    ("behaviors: {Ball: {network_settings: {vis_encoder_type: x}}}", f"{BALL}.max_steps", "500000"),
    ("behaviors: {Ball: {network_settings: {memory: {size: 4}}}}", f"{BALL}.max_steps", "500000"),
    ("torch_settings: {gpu: 1}", "o.torch_settings.device", "None"),
    (
        "environment_parameters: {m: {sampler_type: multirangeuniform, sampler_parameters: "
        "{intervals: [[1, 2, 3]]}}}",
        "o.environment_parameters['m'].curriculum[0].value.intervals",
        "[(1.0, 2.0)]",
    ),
    *(
        (
            f"default_settings: {{trainer_type: {default}}}\nbehaviors: {{Ball: {{trainer_type: {own}}}}}",
            f"{BALL}.trainer_type",
            repr(own) if (default, own) == ("poca", "ppo") or default == own else "TrainerConfigError",
        )
        for default in ("ppo", "poca", "sac")
        for own in ("ppo", "poca", "sac")
    ),
]


@pytest.fixture(scope="module")
def found(peer):
    """All at once: ML-Agents takes seconds to begin."""
    output = peer.run("-c", READ, *[part for text, question, _ in CASES for part in (text, question)])
    return json.loads(next(line for line in output.splitlines() if line.startswith("FOUND "))[6:])


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{text} {what}" for text, what, _ in CASES])
def test_ml_agents_reads_configurations_as_explained(found, number):
    assert found[number] == CASES[number][2]
