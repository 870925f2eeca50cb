"""The generated page and schema are current and match the models."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml
from lanista.docs._ext.configuration_page import FOLDER, page
from lanista.trainers.settings import RunOptions
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.settings.schema import json_schema

AGAIN = "run `python docs/_ext/configuration_page.py`"


def test_page_is_current():
    assert (FOLDER / "configuration.md").read_text(encoding="utf-8") == page(), AGAIN


def test_schema_is_current():
    assert json.loads((FOLDER / "configuration.schema.json").read_text(encoding="utf-8")) == json_schema(), (
        AGAIN
    )


def check(value, schema, definitions):
    """Enough of JSON schema to find a key that the schema lacks or types wrongly."""
    if "$ref" in schema:
        check(value, definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in schema:
        assert any(fits(value, option, definitions) for option in schema["anyOf"]), (value, schema)
    if "enum" in schema:
        assert value in schema["enum"]
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    allowed = schema.get("type", [])
    name = "null" if value is None else names[type(value)]
    allowed = [allowed] if isinstance(allowed, str) else allowed
    assert not allowed or name in allowed or (name == "integer" and "number" in allowed), (value, schema)
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() >= set(schema.get("required", []))
        for key, item in value.items():
            assert key in schema["properties"], key
            check(item, schema["properties"][key], definitions)
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for item in value.values():
            check(item, schema["additionalProperties"], definitions)
    for rule in schema.get("allOf", []):
        key, wanted = next(iter(rule["if"]["properties"].items()))
        if isinstance(value, dict) and value.get(key) == wanted["const"]:
            for then, reference in rule["then"]["properties"].items():
                check(value[then], reference, definitions)


def fits(value, schema, definitions):
    try:
        check(value, schema, definitions)
    except AssertionError:
        return False
    return True


def test_schema_allows_what_the_models_write():
    for trainer in trainer_types:
        text = f"""
default_settings: {{trainer_type: {trainer}}}
behaviors:
  B: {{network_settings: {{memory: {{}}}}, self_play: {{}}, behavioral_cloning: {{demo_path: d}},
      reward_signals: {{extrinsic: {{}}, curiosity: {{}}, rnd: {{}}, gail: {{demo_path: d}}}}}}
environment_parameters:
  a: 3
  b: {{sampler_type: multirangeuniform, sampler_parameters: {{intervals: [[1, 2]]}}}}
env_settings: {{env_args: [a], non_finite: drop}}
"""
        schema = json_schema()
        check(RunOptions.from_text(text).as_dict(), schema, schema["$defs"])


def test_schema_refuses_unknown_keys_everywhere():
    for definition in json_schema()["$defs"].values():
        assert definition["additionalProperties"] is False


def test_the_schema_has_the_forms_and_bounds_of_the_validators():
    """An editor accepts and marks the same values as a run."""
    schema = json_schema()
    definitions = schema["$defs"]
    text = "stats_writers: csv\nenv_settings: {env_args: --hard -n 4}"
    assert RunOptions.from_text(text).env_settings.env_args == ["--hard", "-n", "4"]
    check(yaml.safe_load(text), schema, definitions)
    environment, memory = (
        definitions[name]["properties"] for name in ("EnvironmentSettings", "MemorySettings")
    )
    assert environment["num_areas"]["minimum"] == 1
    assert (memory["memory_size"]["minimum"], memory["memory_size"]["multipleOf"]) == (2, 2)
    assert definitions["CheckpointSettings"]["properties"]["run_id"]["minLength"] == 1
    device = re.compile(definitions["TorchSettings"]["properties"]["device"]["pattern"])
    assert device.search("cuda:1") and device.search("cpu")
    assert not device.search("gpu") and not device.search("cuda:") and not device.search("my cpu")


def test_every_key_has_a_description():
    for name, definition in json_schema()["$defs"].items():
        for key, value in definition["properties"].items():
            assert value["description"], f"{name}.{key}"


def test_settings_load_without_torch():
    code = "import sys, lanista.trainers.settings.command_line, lanista.trainers.settings.validation; "
    code += "print(*[m for m in ('torch', 'onnx', 'grpc', 'mlagents_envs.base_env') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_shipped_configurations_are_those_of_the_scenes():
    folder = Path(FOLDER).parent / "config" / "ppo"
    ball = RunOptions.from_file(folder / "ball3d.yaml").behavior("3DBall")
    assert (ball.hyperparameters.batch_size, ball.hyperparameters.buffer_size) == (64, 12000)
    basic = RunOptions.from_file(folder / "basic.yaml").behavior("Basic")
    assert (basic.hyperparameters.batch_size, basic.network_settings.hidden_units) == (32, 20)
    # Unity's 3 lets some policies of Basic settle for the near goal; see the file.
    assert (ball.time_horizon, basic.time_horizon) == (1000, 64)
