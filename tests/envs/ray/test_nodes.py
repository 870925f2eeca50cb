"""The nodes of a cluster and their resources."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.ray.nodes import Node, describe_nodes, reachable, room
from scripted_engine import free_port


def node(cpus: float, free: float | None = None, port: int = 1) -> Node:
    return Node("ab12cd34ef", "127.0.0.1", port, cpus, free)


@given(st.lists(st.integers(0, 64), max_size=5), st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0]))
def test_no_node_is_filled_beyond_its_processors(sizes, cpus):
    fits = room([node(size) for size in sizes], cpus)
    assert fits * cpus <= sum(sizes) + 1e-6
    assert all(node(size).room(cpus) > size / cpus - 1 - 1e-6 for size in sizes)


def test_fractions_of_processors_are_not_lost_to_rounding():
    assert node(0.3).room(0.1) == 3


def test_nodes_are_described_by_their_processors():
    assert describe_nodes([]) == "no nodes"
    assert describe_nodes([node(1), node(8, 2.5)]) == (
        "node 127.0.0.1 (ab12cd34) with 1 CPU; node 127.0.0.1 (ab12cd34) with 8 CPUs, 2.5 free"
    )
    assert describe_nodes([node(1)] * 64).endswith("and 44 more nodes")


def test_a_node_answers_while_ray_listens_on_it():
    with socket.create_server(("127.0.0.1", 0)) as raylet:
        there = node(1, port=raylet.getsockname()[1])
        assert there.answers()
    assert not there.answers()
    assert not there.keeps_answering()


def test_reachable_nodes_keep_their_order():
    assert reachable([]) == []
    with socket.create_server(("127.0.0.1", 0)) as raylet:
        alive = [node(cpus, port=raylet.getsockname()[1]) for cpus in (1, 2)]
        assert reachable([alive[0], node(1, port=free_port()), alive[1]]) == alive


@pytest.mark.parametrize("free", [None, 3.0])
def test_a_node_is_read_from_rays_description(free):
    found = {
        "NodeID": "77",
        "NodeManagerAddress": "10.0.0.7",
        "NodeManagerPort": free_port(),
        "Resources": {"CPU": 4.0},
    }
    made = Node.from_ray(found, {} if free is None else {"77": {"CPU": free}})
    assert (made.cpus, made.free) == (4.0, free)
    assert Node(**made.as_dict()) == made
    assert Node.from_ray({**found, "Resources": {}}, {"77": {}}).room(1.0) == 0
