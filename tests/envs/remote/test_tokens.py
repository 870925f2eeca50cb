"""Tokens: made in secret, read with care, and never shown."""

import os
import stat

import pytest
from lanista.envs.remote.tokens import VARIABLE, TokenError, find_token, make_token, same, write_token


def test_a_token_that_is_made_is_found_again_and_for_its_owner_alone(tmp_path):
    file = tmp_path / "token"
    assert find_token(str(file), {}) is None
    token = write_token(str(file))
    assert find_token(str(file), {}) == token
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_token_is_made_twice():
    assert len({make_token() for _ in range(100)}) == 100


def test_an_older_file_is_not_written_over(tmp_path):
    file = tmp_path / "token"
    file.write_text("x" * 20)
    with pytest.raises(TokenError, match="cannot be written"):
        write_token(str(file))
    assert file.read_text() == "x" * 20


def test_the_file_wins_over_the_variable(tmp_path):
    file = tmp_path / "token"
    file.write_text("f" * 20 + "\n")
    file.chmod(0o600)
    environment = {VARIABLE: "v" * 20}
    assert find_token(str(file), environment) == "f" * 20
    assert find_token(None, environment) == "v" * 20
    assert find_token(None, {}) is None


@pytest.mark.parametrize("text", ["", "   \n", "short", "x" * 513, "two words of a token", "schlüssel" * 4])
def test_what_is_no_token_is_refused_without_being_shown(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    for where in (lambda: find_token(str(file), {}), lambda: find_token(None, {VARIABLE: text})):
        with pytest.raises(TokenError) as raised:
            where()
        assert len(text.strip()) < 6 or text.strip() not in str(raised.value)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_file_that_others_may_read_is_warned_of(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text("x" * 20)
    file.chmod(0o644)
    find_token(str(file), {})
    assert f"chmod 600 {file}" in caplog.text


def test_only_the_same_token_is_the_same():
    assert same("a" * 20, "a" * 20)
    assert not same("a" * 20, "a" * 21)
    assert not same("", "a")
