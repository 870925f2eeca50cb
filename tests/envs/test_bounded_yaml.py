"""YAML of others is read as PyYAML reads it, but never as more values than any file needs."""

import json

import pytest
import yaml
from alias_bomb import BOMB
from lanista.envs.utils.bounded_yaml import (
    MOST_DEPTH,
    MOST_VALUES,
    FastLoader,
    PlainLoader,
    load_json,
    load_yaml,
)

LOADERS = [PlainLoader, FastLoader]


@pytest.mark.parametrize("text", ["", "a: [1, 2.5, null]", "a: &b {c: 1}\nd: *b\ne: {<<: *b, f: 2001-01-01}"])
def test_what_is_small_is_read_as_yaml_reads_it(text):
    assert load_yaml(text) == yaml.safe_load(text)


def test_nothing_is_constructed_but_plain_values():
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        load_yaml("!!python/object/apply:os.system [true]")


@pytest.mark.parametrize("loader", LOADERS)
def test_aliases_that_make_billions_of_values_are_refused(loader):
    with pytest.raises(yaml.YAMLError, match=f"more than {MOST_VALUES} values"):
        load_yaml(BOMB, loader)


def test_an_alias_that_contains_itself_is_refused():
    for text in ("a: &a [*a]", "a: &a {b: [1, *a]}"):
        with pytest.raises(yaml.YAMLError, match="an alias that contains itself"):
            load_yaml(text)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "[" * 101 + "]" * 101])
def test_deep_nesting_is_refused_before_anything_descends_into_it(loader, text):
    with pytest.raises(yaml.YAMLError, match=r"nested too deeply|maximum nesting depth"):
        load_yaml(text, loader)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("depth", [1, MOST_DEPTH])
def test_depth_that_a_file_may_have_is_read(loader, depth):
    for text in ("[" * depth + "]" * depth, "- " * depth + "1"):
        assert load_yaml(text, loader) == yaml.safe_load(text)


@pytest.mark.parametrize("loader", LOADERS)
def test_numbers_whose_reading_takes_for_ever_are_refused(loader):
    assert load_yaml("a: 1:30:00\nb: 0xff", loader) == {"a": 5400, "b": 255}
    for number in ("1:" * 200_000 + "1", "1:" * 200_000 + "1.5"):
        with pytest.raises(yaml.YAMLError, match="a number of 4"):
            load_yaml(f"a: {number}", loader)


def test_json_is_read_to_the_same_depth():
    assert load_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert load_json(deep) == json.loads(deep)
    for text in (f"[{deep}]", "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500):
        with pytest.raises(ValueError, match="nested too deeply"):
            load_json(text)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    "value",
    [
        *("!!int ''", "!!float ''", "!!float x", "!!bool x", "!!timestamp x", "2001-13-41"),
        *("!!binary '\u00e9'", "!!set [1]", "!!omap {a: 1}", "!!pairs x", "!!map 1", '"\\UFFFFFFFF"'),
    ],
)
def test_a_value_that_cannot_be_what_it_says_is_an_error_of_yaml(loader, value):
    with pytest.raises(yaml.YAMLError, match=r"line 2|escape"):
        load_yaml(f"a: 1\nb: [{value}]", loader)


@pytest.mark.parametrize("loader", LOADERS)
def test_more_values_than_a_file_needs_are_refused_before_they_are_made(loader):
    """The text goes on, so that whoever reads all of it says something else."""
    for text in ("[" + "1, " * (MOST_VALUES + 1), "- 1\n" * (MOST_VALUES + 1) + "]"):
        with pytest.raises(yaml.YAMLError, match=f"more than {MOST_VALUES} values"):
            load_yaml(text, loader)
