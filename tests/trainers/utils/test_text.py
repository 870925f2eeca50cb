"""Commands are parted into words as the system's shell does."""

import shlex

import pytest
from lanista.trainers.utils.text import words


@pytest.mark.parametrize(
    ("command", "windows", "expected"),
    [
        (r"--levels C:\Games\Ball --seed 4", True, ["--levels", r"C:\Games\Ball", "--seed", "4"]),
        (r"--levels 'C:\My Games\Ball'", True, ["--levels", r"C:\My Games\Ball"]),
        (r"\\server\share\Ball # x", True, [r"\\server\share\Ball", "#", "x"]),
        (r"--name a\ b 'c d' # x", False, ["--name", "a b", "c d", "#", "x"]),
    ],
)
def test_a_backslash_is_part_of_a_path_on_windows_alone(command, windows, expected):
    """It vanished there from env_args that were written as one text."""
    assert words(command, windows) == expected
    assert windows or words(command, windows) == shlex.split(command)
