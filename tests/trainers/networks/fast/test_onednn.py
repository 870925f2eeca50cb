"""Where oneDNN multiplies, small products of sets go to torch's own library and give the same."""

import pytest
import torch
from lanista.trainers.networks.fast import onednn
from lanista.trainers.networks.fast.onednn import (
    MIN_PRODUCTS,
    SHAPE_MULTIPLE,
    keeps_float32,
    large_products,
    pad_rows,
    shape_multiple,
    small_matmul,
)
from lanista.trainers.networks.modules import attention
from lanista.trainers.networks.modules.attention import EntityEncoder
from lanista.trainers.networks.team_critic import TeamSets

CPU = torch.device("cpu")


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def with_gradients(product, *inputs):
    """A product, and the gradients of its squares."""
    found = product(*inputs)
    return [found, *torch.autograd.grad(found.square().sum(), [x for x in inputs if x is not None])]


def bfloat16():
    return torch.autocast("cpu", torch.bfloat16)


@pytest.fixture(params=["float32", "bfloat16"])
def kept_shapes(request):
    """A pass in which oneDNN multiplies."""
    with bfloat16() if request.param == "bfloat16" else large_products(MIN_PRODUCTS, CPU):
        if request.param == "float32" and not keeps_float32():
            pytest.skip("this torch or processor has no float32 products by oneDNN")
        assert shape_multiple(CPU) == SHAPE_MULTIPLE
        yield


@pytest.mark.parametrize("shapes", [((7, 3, 4), (7, 4, 5), (7, 3, 5)), ((2, 4, 3, 8), (2, 4, 8, 3), None)])
def test_products_of_sets_and_their_gradients_are_torch_s(shapes, kept_shapes):
    inputs = [shape and normal(*shape, seed=k) for k, shape in enumerate(shapes)]
    found = with_gradients(small_matmul, *inputs)
    with torch.autocast("cpu", enabled=False):
        expected = with_gradients(lambda a, b, plus: a @ b + (0.0 if plus is None else plus), *inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_without_it_rows_stay_as_many_as_they_are():
    rows = normal(3, 2)
    assert shape_multiple(CPU) == 1
    assert pad_rows(rows) is rows


def test_rows_are_filled_up_with_zeros(kept_shapes):
    rows = normal(SHAPE_MULTIPLE + 1, 2)
    found = pad_rows(rows)
    assert len(found) == 2 * SHAPE_MULTIPLE
    assert torch.equal(found[: len(rows)], rows)
    assert not found[len(rows) :].any()
    assert pad_rows(found) is found


@pytest.mark.parametrize("most_weights", [attention.MOST_WEIGHTS, 0])
def test_entities_are_encoded_alike(most_weights, monkeypatch):
    """Whether or not the weights of attention fit into the memory that they may take."""
    monkeypatch.setattr(attention, "MOST_WEIGHTS", most_weights)
    encoder = EntityEncoder([3], 5, torch.Generator().manual_seed(1))
    own, entities = normal(9, 5, seed=2), normal(9, 20, 3, seed=3).detach()
    entities[:, 16:] = 0.0  # which are absent
    entities[::2, 4:] = 0.0
    entities[3] = 0.0

    def encoded():
        found = encoder([entities], own)
        return [found, *torch.autograd.grad(found.square().sum(), [own, *encoder.parameters()])]

    expected = encoded()
    with large_products(MIN_PRODUCTS, CPU):
        assert onednn.uses_onednn() == keeps_float32()
        found = encoded()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_sets_of_entities_are_cut_to_one_of_eight_numbers_of_places(kept_shapes):
    """And no entity is lost."""
    ends = set()
    for filled_places in range(1, 21):
        mask = torch.ones(2, 20, dtype=torch.bool)
        mask[:, :filled_places] = False
        (cut,), _ = attention._shortened([torch.zeros(2, 20, 3)], [mask])
        assert filled_places <= cut.shape[1] <= 20
        ends.add(cut.shape[1])
    assert len(ends) <= 8
    assert attention._end(1, torch.ones(2, 0, dtype=torch.bool)) == 0


def test_rows_of_no_set_are_inserted_where_they_belong():
    sets = TeamSets(((1, 3), (2, 2)), padding=(5, 1))
    rows = normal(7, 2).detach()
    found = sets.pad(rows)
    assert found.shape == (13, 2)
    assert torch.equal(torch.cat((found[:3], found[8:12])), rows)
    assert not found[3:8].any()
    assert not found[12:].any()
    assert torch.equal(TeamSets(((1, 7),)).pad(rows), rows)
