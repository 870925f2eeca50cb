"""Every step belongs to exactly one group-step, that of its set, and an epoch takes whole group-steps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.algorithms.poca.team_values import compact_sets, group_by_time
from lanista.trainers.buffers.rollout_buffer import shuffled_units

pytestmark = pytest.mark.slow


@st.composite
def steps_with_mates(draw):
    """Groups of rows whose members saw all, some, or none of each other."""
    own, mates, row = [], [], 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=12)):
        rows = list(range(row, row + size))
        row += size
        for r in rows:
            seen = [m for m in rows if m != r and draw(st.booleans() | st.just(True))]
            own.append(r)
            mates.append(draw(st.permutations(seen)))
    width = max(map(len, mates))
    table = np.full((len(own), width), -1)
    for line, seen in zip(table, mates):
        line[: len(seen)] = seen
    return np.array(own), table


@given(steps_with_mates())
def test_each_step_keeps_its_own_set(case):
    own, mates = case
    group_steps = group_by_time(own, mates)
    assert sorted(group_steps.steps.tolist()) == list(range(len(own)))
    of_step = np.repeat(np.arange(len(group_steps)), group_steps.counts)
    for step, place, group_step in zip(group_steps.steps, group_steps.slots, of_step):
        members = group_steps.members[group_step]
        assert members[place] == own[step]
        assert set(members[members >= 0]) == {own[step], *mates[step][mates[step] >= 0]}
    sets = [tuple(m[m >= 0]) for m in group_steps.members]
    assert len(set(sets)) == len(sets)


@given(steps_with_mates(), st.sampled_from([1, 2, 8]))
def test_the_critic_s_rows_are_filled_up_to_a_multiple_and_each_step_finds_its_own(case, multiple):
    own, _ = case
    group_steps = group_by_time(*case)
    found = compact_sets(group_steps, torch.device("cpu"), multiple)
    rows = found.rows if found.sets.rows is None else found.rows[found.sets.rows]
    pad = found.sets.pad(found.rows[:, None].float())
    assert len(pad) % multiple == 0
    if found.sets.rows is None:
        alone, teams = found.sets.alone, len(rows) - found.sets.alone
        padded = teams + found.sets.padding[1]
        assert padded % multiple == 0
        assert pad[:alone, 0].tolist() == rows[:alone].tolist()
        assert pad[len(pad) - padded :, 0][:teams].tolist() == rows[alone:].tolist()
    else:
        assert pad[found.sets.rows, 0].tolist() == rows.tolist()
    sets, baselines, start = [], [], 0
    for size, number in found.sets.sizes:
        of_size = rows[start : start + size * number].tolist()
        sets += [of_size[k : k + size] for k in range(0, len(of_size), size)]
        start += size * number
        if size > 1:
            baselines += of_size
    assert start == len(rows)
    of_step = np.repeat(np.arange(len(group_steps)), group_steps.counts)
    encoded = [row for (row,) in sets[: found.sets.alone]] + sets[found.sets.alone :] + baselines
    for step, group, value, baseline in zip(
        group_steps.steps, of_step, found.of_values, found.of_baselines, strict=True
    ):
        members = group_steps.members[group]
        assert sets[value] == members[members >= 0].tolist()
        assert encoded[baseline] == own[step]


@given(steps_with_mates(), st.integers(1, 9), st.integers(0, 99))
def test_minibatches_are_whole_group_steps_of_about_the_given_size(case, size, seed):
    counts = group_by_time(*case).counts
    parts = list(shuffled_units(counts, size, torch.Generator().manual_seed(seed)))
    taken = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    assert len(set(taken.tolist())) == len(taken)
    largest = int(counts.max())
    assert all(counts[part].sum() > max(0, size - largest) for part in parts)
    assert counts[taken].sum() >= counts.sum() // size * size
    if largest == 1:
        assert [len(part) for part in parts] == [size] * (len(counts) // size)


@given(steps_with_mates(), st.integers(1, 9))
def test_chunks_are_all_group_steps_in_order(case, size):
    group_steps = group_by_time(*case)
    parts = list(group_steps.chunks(size))
    assert np.concatenate([p.steps for p in parts]).tolist() == group_steps.steps.tolist()
    assert all(len(p) == 1 or ((p.members >= 0).sum(1) ** 2).sum() <= size for p in parts)


def test_chunks_count_the_pairs_of_a_team_however_few_of_its_steps_there_are():
    """Twelve steps, each of which alone saw three mates: 16 pairs each."""
    own = np.arange(12)
    mates = 100 + np.arange(36).reshape(12, 3)
    assert [len(p) for p in group_by_time(own, mates).chunks(64)] == [4, 4, 4]
    assert [len(p) for p in group_by_time(own, None).chunks(5)] == [5, 5, 2]


def test_without_teammates_every_step_is_a_group_step():
    group_steps = group_by_time(np.array([4, 2]), None)
    assert group_steps.members.tolist() == [[2], [4]]
    assert group_steps.steps.tolist() == [1, 0]
