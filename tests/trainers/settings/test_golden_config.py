"""Configurations and command lines are read as ML-Agents 1.1.0 does, or better as the pitfalls say."""

import logging
import re

import goldendata
import pytest
import yaml
from lanista.trainers.settings import TrainerConfigError, parse_command_line, trainer_types

# pitfalls E1: ML-Agents ignores unknown keys below these.
LENIENT = {
    "network_settings",
    "memory",
    "self_play",
    "behavioral_cloning",
    "completion_criteria",
    "torch_settings",
}
LANISTAS_OWN = set(trainer_types) - {"ppo", "sac", "poca"}
"""Trainers that ML-Agents does not know."""
# What a Python error of ML-Agents says about the input; ours must say it too.
GISTS = [
    r"The option (\w+) was",
    r"'(.+)' is not a valid",
    r"base 10: '(.+)'",
    r"argument: '(\w+)'",
    r"(num_\w+) must be",
    r"Invalid trainer type (\w+)",
    r"(sampler_\w+) :",
    r"configuration (\w+)\.",
    r"(memory size|sequence length|Minimum value|completion_criteria)",
]


def written(case, *path):
    """What the case's YAML holds at `path`; None if nothing."""
    value = yaml.safe_load(case["inputs"]["yaml"] or "")
    for part in path:
        try:
            value = value[part]
        except (KeyError, TypeError, IndexError):
            return None
    return value


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        return {k: v for key, item in value.items() for k, v in leaves(item, (*path, key)).items()}
    if isinstance(value, list) and value:
        return {k: v for key, item in enumerate(value) for k, v in leaves(item, (*path, key)).items()}
    return {path: value}


def quoted_false(value):
    return isinstance(value, str) and value.lower() in {"false", "no", "off", "0"}


DERIVED = {"checkpoint_interval": "even_checkpoints", "initialize_from": "resume"}
"""Keys that hold what another one, if true, makes of them."""


def departs(case, path, ours, theirs):
    """Whether a value may differ from ML-Agents'."""
    argv = case["inputs"]["argv"]
    if quoted_false(written(case, *path)):  # pitfalls E3
        return ours is False and theirs is True
    if path[-1] in DERIVED and quoted_false(written(case, *path[:-1], DERIVED[path[-1]])):
        return True
    if path[-1] == "checkpoint_interval" and theirs == 0:  # of even_checkpoints: no interval at all
        return ours == 1
    if path[-1] == "resume" and (
        "--load" in argv or written(case, "checkpoint_settings", "load_model")
    ):  # E5
        return ours is True
    if isinstance(theirs, str) and str(ours) == theirs:  # a number that encoding_size holds as text there
        return True
    if path[-1] == "deterministic" and "--deterministic" in argv:  # E6
        return ours is True
    return False


def same(case, ours, theirs, *prefix):
    a, b = leaves(ours), leaves(theirs)
    different = {
        p: (a.get(p), b.get(p)) for p in a.keys() | b.keys() if a.get(p) != b.get(p) or (p in a) != (p in b)
    }
    assert not {p: v for p, v in different.items() if not departs(case, (*prefix, *p), *v)}


def forgiven(case, error):
    """Whether ML-Agents fails here and we read what was meant."""
    message = error["error_message"]
    if written(case) is None:
        return (
            error["error_class"] == "TypeError"
        )  # an empty file has no settings (contract: better as empty)
    named = re.search(r"Invalid trainer type (\w+)|trainer type (\w+) were not found", message)
    if named and (named[1] or named[2]) in LANISTAS_OWN:
        return True
    literal = re.search(r"base 10: '(.+)'|randomization configuration (.+)\.$", message)
    if literal and re.fullmatch(r"[\d.]+(e\d+)?", literal[1] or literal[2]):  # pitfalls E2
        return True
    base = written(case, "default_settings", "trainer_type") or "ppo"
    others = [b.get("trainer_type", base) for b in (written(case, "behaviors") or {}).values()]
    return "default_settings" in (written(case) or {}) and any(o != base for o in others)  # pitfalls E4


def refused(case, error):
    """Whether ML-Agents continues here and we report what is wrong."""
    for problem in error.problems:
        unknown = "unknown key" in problem.message and LENIENT.intersection(problem.key.split("."))  # E1
        interval = "interval" in problem.message and problem.key.endswith("intervals")  # pitfalls E16
        # Values that mean nothing there, but are read as 1, 0 or true, or that nothing can be trained with.
        kind = re.match(r"found (True|False|''), expected (a number|a whole number|true or)", problem.message)
        bound = re.search(r"expected (at least|at most|a number above|a number below) ", problem.message)
        twice = re.match(r"it stands on line \d+ already", problem.message)  # there the last one counts
        if not (unknown or interval or kind or bound or twice):
            return False
    return True


def check_error(error, expected):
    for pattern in GISTS:
        match = re.search(pattern, expected["error_message"])
        if match:
            assert match[1].lower() in str(error).lower()
    assert "config.yaml" in str(error) or "command line" in str(error)


def plain_text(text):
    return text.removeprefix("TrainerConfigWarning: ").replace(" ", "").lower()


def check_warnings(case, texts):
    heard = "\n".join(plain_text(text) for text in texts)
    for text in case["expected"]["warnings"]:
        if "encoding_size" in text and "encoding_size" not in case["inputs"]["yaml"]:
            continue  # ML-Agents merges defaults that were not written
        assert plain_text(text) in heard


@pytest.mark.parametrize("case", goldendata.cases("config"))
def test_reads_as_ml_agents(case, tmp_path, caplog):
    inputs, expected = case["inputs"], case["expected"]
    file = tmp_path / "config.yaml"
    if inputs["yaml"] not in (None, "<missing>"):
        file.write_text(inputs["yaml"], encoding="utf-8")
    argv = ([str(file)] if inputs["yaml"] is not None else []) + inputs["argv"]
    if expected.get("error_class") == "SystemExit":
        with pytest.raises(SystemExit) as stop:
            parse_command_line(argv)
        assert stop.value.code == expected["error_code"]
        return
    with caplog.at_level(logging.WARNING, logger="lanista"):
        try:
            options = parse_command_line(argv)
        except TrainerConfigError as error:
            if not refused(case, error):
                assert "error_class" in expected, error
                check_error(error, expected)
            return
        if "error_class" in expected:
            assert forgiven(case, expected)
            return
        same(case, options.as_dict(), expected["run_options"])
        for name, lookup in expected.get("lookups", {}).items():
            check_lookup(case, options, name, lookup)
    check_warnings(case, [record.getMessage() for record in caplog.records])


def check_lookup(case, options, name, expected):
    if "error_class" in expected:
        with pytest.raises(TrainerConfigError, match=name):
            options.behavior(name)
    else:
        same(case, options.behavior(name).as_dict(), expected, "behaviors", name)
