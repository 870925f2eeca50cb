"""Sets of entities are encoded without the places that nobody fills, as if these were computed too."""

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lanista.trainers.networks.modules import attention
from lanista.trainers.networks.modules.attention import EntityEncoder, absent

pytestmark = pytest.mark.slow

FEATURES = (5, 3)


def entities(counts, places, features, holes=False):
    """[B, places, features] of sets with so many entities, in front or anywhere."""
    rows = torch.randn(len(counts), places, features, dtype=torch.float64) + 1.0
    there = torch.arange(places) < torch.tensor(counts)[:, None]
    if holes:
        there = there[:, torch.randperm(places)]
    return rows * there.unsqueeze(-1)


def both(sets, own):
    """An encoder's output and its gradients: of all places, and as it is used."""
    encoder = EntityEncoder([rows.shape[2] for rows in sets], 0 if own is None else own.shape[1]).double()
    found = []
    masks = [absent(rows) for rows in sets]
    for encode in (
        lambda: encoder._encode(sets, masks, encoder.own and encoder.own(own)),
        lambda: encoder(sets, own),
    ):
        encoder.zero_grad()
        encoded = encode()
        (encoded * torch.arange(1.0, 129.0)).sum().backward()
        found.append([encoded.detach(), *(p.grad.clone() for p in encoder.parameters())])
    return found


@given(st.data())
@hypothesis_settings(max_examples=40, deadline=None)
def test_places_that_nobody_fills_change_nothing(data):
    """With one group and with several, one kind of entities and two, none in a set, and gaps between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "MIN_PLACES", data.draw(st.sampled_from([4, 10_000])))
        batch, holes = data.draw(st.integers(1, 9)), data.draw(st.booleans())
        sets = []
        for features in FEATURES[: data.draw(st.integers(1, 2))]:
            places = data.draw(st.integers(1, 6))
            counts = data.draw(st.lists(st.integers(0, places), min_size=batch, max_size=batch))
            sets.append(entities(counts, places, features, holes))
        own = torch.randn(batch, 4, dtype=torch.float64) if data.draw(st.booleans()) else None
        for of_all, of_filled in zip(*both(sets, own), strict=True):
            torch.testing.assert_close(of_filled, of_all, rtol=1e-9, atol=1e-9)


def test_rows_keep_their_order_where_groups_are_sorted_by_length():
    encoder = EntityEncoder([3], 0).double()
    sets = entities([5, 0, 3, 1, 5, 2, 4] * 100, 5, 3)
    assert sets.shape[0] * sets.shape[1] >= 2 * attention.MIN_PLACES
    one_by_one = torch.cat([encoder([rows[None]], None) for rows in sets])
    torch.testing.assert_close(encoder([sets], None), one_by_one, rtol=1e-9, atol=1e-9)
