"""Tokens: random, private to their owner, and never shown."""

import os
import stat

import pytest
from lanista.envs.remote.tokens import VARIABLE, TokenError, find_token, make_token, same, write_token


def test_a_written_token_is_found_and_readable_by_its_owner_alone(tmp_path):
    file = tmp_path / "token"
    assert find_token(str(file), {}) is None
    token = write_token(str(file))
    assert find_token(str(file), {}) == token
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_tokens_are_unique():
    assert len({make_token() for _ in range(100)}) == 100


def test_an_existing_token_file_is_not_overwritten(tmp_path):
    file = tmp_path / "token"
    file.write_text("x" * 20)
    with pytest.raises(TokenError, match="cannot be written"):
        write_token(str(file))
    assert file.read_text() == "x" * 20


def test_the_token_file_takes_precedence_over_the_variable(tmp_path):
    file = tmp_path / "token"
    file.write_text("f" * 20 + "\n")
    file.chmod(0o600)
    environment = {VARIABLE: "v" * 20}
    assert find_token(str(file), environment) == "f" * 20
    assert find_token(None, environment) == "v" * 20
    assert find_token(None, {}) is None


@pytest.mark.parametrize("text", ["", "   \n", "short", "x" * 513, "two words of a token", "schlüssel" * 4])
def test_an_invalid_token_is_an_error_that_does_not_show_it(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    for where in (lambda: find_token(str(file), {}), lambda: find_token(None, {VARIABLE: text})):
        with pytest.raises(TokenError) as raised:
            where()
        assert len(text.strip()) < 6 or text.strip() not in str(raised.value)


@pytest.mark.posix("modes of files")
def test_a_token_file_that_others_may_read_is_a_warning(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text("x" * 20)
    file.chmod(0o644)
    find_token(str(file), {})
    assert f"chmod 600 {file}" in caplog.text


def test_tokens_are_compared_for_equality():
    assert same("a" * 20, "a" * 20)
    assert not same("a" * 20, "a" * 21)
    assert not same("", "a")
