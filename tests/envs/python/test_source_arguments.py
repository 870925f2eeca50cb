"""Values of `--env-args` and of names of environments in Python: whatever is typed is a value, or a text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lanista.envs.python.source_arguments import parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("[1, 2]", [1, 2]),
        ("True", True),
        ("null", None),
        ("ball", "ball"),
        ("", ""),
    ],
)
def test_numbers_lists_and_words_are_values(text, value):
    assert parse_value(text) == value and type(parse_value(text)) is type(value)


@given(st.text("{}[](),:-+1jnot .'\\0", max_size=40))
@example("{[1]}")
@example("-" * 100_000 + "1")
@example("1" + "+1j" * 100_000)
@example("9" * 5000)
@example("not " * 100_000 + "1")
@example("(" * 300)
def test_whatever_else_is_typed_stays_a_text(text):
    value = parse_value(text)
    assert value == text or not isinstance(value, str) or text.strip()[0] in "'\""
