"""YAML of others is read as PyYAML reads it, but never as more values than any file needs."""

import pytest
import yaml
from lanista.envs.bounded_yaml import MOST_VALUES, load_yaml

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
)


@pytest.mark.parametrize("text", ["", "a: [1, 2.5, null]", "a: &b {c: 1}\nd: *b\ne: {<<: *b, f: 2001-01-01}"])
def test_what_is_small_is_read_as_yaml_reads_it(text):
    assert load_yaml(text) == yaml.safe_load(text)


def test_nothing_is_constructed_but_plain_values():
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        load_yaml("!!python/object/apply:os.system [true]")


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_aliases_that_make_billions_of_values_are_refused(loader):
    with pytest.raises(yaml.YAMLError, match=f"more than {MOST_VALUES} values"):
        load_yaml(BOMB, loader)


def test_an_alias_that_contains_itself_is_refused():
    for text in ("a: &a [*a]", "a: &a {b: [1, *a]}"):
        with pytest.raises(yaml.YAMLError, match="an alias that contains itself"):
            load_yaml(text)
