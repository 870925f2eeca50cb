"""Addresses and networks in users' notation."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.engines.address import AllowedNetworks, join_address, split_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", ("localhost", None)),
        ("127.0.0.1:5004", ("127.0.0.1", 5004)),
        (" trainer.local:0 ", ("trainer.local", 0)),
        ("::1", ("::1", None)),
        ("[::1]", ("::1", None)),
        ("[::]:5004", ("::", 5004)),
        ("[fe80::1%eth0]:5004", ("fe80::1%eth0", 5004)),
    ],
)
def test_addresses_are_parsed(text, expected):
    assert split_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":5004",
        "[::1",
        "[::1]5004",
        "[]:1",
        "host:",
        "host:http",
        "host:65536",
        "host:-1",
        "a b:1",
        "x/24",
        "h:٣",
    ],
)
def test_an_invalid_address_is_an_error_that_quotes_it(text):
    with pytest.raises(ValueError, match="found"):
        split_address(text)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_a_joined_address_is_split_into_its_parts(address, port):
    assert split_address(join_address(str(address), port)) == (str(address), port)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_an_error(text):
    try:
        host, port = split_address(text)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert host and (port is None or 0 <= port <= 65535)


def test_only_this_machine_and_the_networks_are_admitted():
    networks = AllowedNetworks.parse(["10.0.0.0/8", "fd00::/8", "192.168.1.7"])
    for admitted in (
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "10.1.2.3",
        "::ffff:10.1.2.3",
        "fd12::1",
        "192.168.1.7",
    ):
        assert networks.admit(admitted), admitted
    for stranger in ("192.168.1.8", "11.0.0.1", "::ffff:11.0.0.1", "fe80::1%eth0", "2001:db8::1", "0.0.0.0"):
        assert not networks.admit(stranger), stranger
    assert not AllowedNetworks().admit("10.1.2.3")


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_mapped_to_ipv6_is_the_same_address(address):
    networks = AllowedNetworks.parse(["10.0.0.0/8"])
    assert networks.admit(str(address)) == networks.admit(f"::ffff:{address}")
    assert networks.admit(str(address)) == (
        address.is_loopback or address in ipaddress.ip_network("10.0.0.0/8")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("10.0.0.1/8", "did you mean 10.0.0.0/8"), ("nowhere", "CIDR"), ("10.0.0.0/33", "CIDR"), ("", "CIDR")],
)
def test_an_invalid_network_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        AllowedNetworks.parse(["10.0.0.0/8", text])
