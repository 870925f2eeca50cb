"""Faults at the start of a run whose engines connect by themselves, for `start_up.py`."""

from __future__ import annotations

from start_up_faults import Fault
from start_up_places import attached_port, written

HERE = ("--listen", "127.0.0.1:0")
TESTED = ("--set", "behaviors.Basic.test_frequency=99")
TOKEN = "a-token-of-some-length\n"
NO_CRYPTOGRAPHY = "sys.modules['cryptography'] = None"

ATTACHING = [
    Fault(
        "a port and an environment",
        r"--listen: .*Leave one of them out",
        (*HERE, "--env", "x"),
    ),
    Fault("no port but networks", r"--allow: .*10\.0\.0\.0/8.*ADDRESS:PORT", ("--allow", "10.0.0.0/8")),
    Fault("no port but a token", r"--token-file: .*token.*ADDRESS:PORT", ("--token-file", "token")),
    Fault("no network", r"--allow: .*'nowhere'.*CIDR", (*HERE, "--allow", "nowhere")),
    Fault("bits beyond the network", r"did you mean 10\.0\.0\.0/8", (*HERE, "--allow", "10.1.0.0/8")),
    Fault("no port at all", r"--listen: .*'http' is not a port", ("--listen", "localhost:http")),
    Fault("nobody's address", r"192\.0\.2\.1:7000.*Give localhost", ("--listen", "192.0.2.1:7000")),
    Fault("a taken address", r"Port \d+ is held by .*--listen", (), place=attached_port),
    Fault("no order", r"--deterministic.*come and go", (*HERE, "--deterministic")),
    Fault(
        "tests without an engine",
        r"test_frequency.*by themselves.*--env",
        (*HERE, *TESTED),
    ),
    Fault(
        "a token that is none",
        r"token.*5 characters; a token has 16",
        (*HERE, "--token-file", "token"),
        place=written({"token": "short"}, 0o600),
    ),
    Fault("no folder for a token", r"no folder nowhere", (*HERE, "--token-file", "nowhere/token")),
    Fault(
        "nothing to make a certificate with",
        r"pip install 'lanista\[relay\]'",
        (*HERE, "--token-file", "token"),
        python=NO_CRYPTOGRAPHY,
    ),
    Fault(
        "no certificate",
        r"tls_cert: .*cert\.pem.*cannot be used.*--tls-key",
        (*HERE, "--token-file", "token", "--tls-cert", "cert.pem"),
        place=written({"token": TOKEN, "cert.pem": "nothing of that kind"}, 0o600),
    ),
    Fault(
        "a key alone",
        r"--tls-key: .*no tls_cert",
        (*HERE, "--token-file", "token", "--tls-key", "key.pem"),
    ),
    Fault("a certificate for nobody", r"--token-file", (*HERE, "--tls-cert", "cert.pem")),
]
