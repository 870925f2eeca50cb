"""Copies of an environment: all of them, or none that stays open."""

import pytest
from lanista.envs.python.base import make_copies


class Copy:
    closed = False

    def close(self):
        self.closed = True


@pytest.mark.parametrize("first", [None, Copy()], ids=["none yet", "one is there"])
def test_copies_are_closed_if_one_of_them_cannot_be_made(first):
    made = [] if first is None else [first]

    def make():
        if len(made) == 3:
            raise OSError("no more licenses")
        made.append(Copy())
        return made[-1]

    assert make_copies(make, 2, first) == made and not any(copy.closed for copy in made)
    made[:] = [] if first is None else [first]
    with pytest.raises(OSError, match="no more licenses"):
        make_copies(make, 4, first)
    assert [copy.closed for copy in made] == [True] * 3
