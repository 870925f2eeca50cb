"""Names that systems refuse for files and folders, and names that they take for one."""

import pytest
from lanista.envs.utils.file_names import refused_by_windows, without_case


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        *(
            (name, "keeps that name for a device")
            for name in ("con", "AUX", "nul.txt", "COM1.a.b", "lpt9 .x")
        ),
        *((f"a{letter}b", "cannot hold") for letter in '<>:"|?*\\'),
        *((f"a{letter}", "cannot end with") for letter in ". "),
    ],
)
def test_windows_refuses(name, cause):
    assert cause in refused_by_windows(name)


@pytest.mark.parametrize("name", ["ball-1", "Bälle v2.0", "console", "com10", "a con", ".hidden", "lpt"])
def test_windows_takes(name):
    assert refused_by_windows(name) == ""


def test_case_and_composed_letters_make_no_other_name():
    assert without_case("BA\u0308LLE") == without_case("b\u00e4lle") != without_case("balle")
    assert without_case("Stra\u00dfe") == without_case("STRASSE")
