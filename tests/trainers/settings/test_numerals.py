"""How numbers are to be written that are spelled in other ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings.numerals import spellings


@pytest.mark.parametrize(
    ("text", "whole", "number"),
    [
        ("500,000", "500000", "500000 or 500"),
        ("0,0003", "", "0.0003"),
        ("1.000.000", "1000000", "1000000"),
        ("1,000.5", "", "1000.5"),
        ("1.000,5", "", "1000.5"),
        ("500 000", "500000", "500000"),
        ("1'000", "1000", "1000"),
        ("5M", "5000000", "5000000"),
        ("10^6", "1000000", "1000000"),
        ("2**3", "8", "8"),
        ("5 %", "", "0.05"),
        ("-1,5e-4", "", "-0.00015"),
        ("123,456,789,012,345", "123456789012345", "123456789012345"),
        ("1,5,2", "", ""),
        ("many", "", ""),
        ("", "", ""),
        ("9^999", "", ""),
    ],
)
def test_a_number_is_written_as_yaml_reads_it(text, whole, number):
    assert (spellings(text, whole=True), spellings(text, whole=False)) == (whole, number)


@given(st.text(st.sampled_from("0123456789.,'_ +-ekM%^*"), max_size=12))
def test_what_is_suggested_is_a_number(text):
    for whole in (True, False):
        for meant in filter(None, spellings(text, whole=whole).split(" or ")):
            assert float(meant) == int(meant) if whole else float(meant) is not None


@given(st.integers(0, 10**12))
def test_thousands_in_groups_are_one_number(value):
    assert spellings(f"{value:,}", whole=True) == str(value)
    assert spellings(f"{value:,}".replace(",", " "), whole=True) == str(value)
