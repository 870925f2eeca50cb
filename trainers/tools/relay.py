"""`lanista relay`: connects the engines of this machine to a trainer on another one."""

from __future__ import annotations

import argparse
import os
from ssl import SSLContext

from mlagents_envs.exception import UnityException

from ...envs.engines.address import split_address
from ...envs.engines.ports import EDITOR_PORT, LAST_PORT
from ...envs.remote.relay import Relay, RelayRejectedError, RemoteTrainer
from ...envs.remote.tls import UntrustedError, client_context, read_fingerprint
from ...envs.remote.tokens import VARIABLE, TokenError, find_token
from ..utils.errors import CommandError
from ..utils.logging import configure_logging


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Runs next to engines on another machine than the trainer. They connect to it as they would to the "
        f"trainer, and it forwards each of them over TLS to a trainer that was started with --listen and "
        f"--token-file. The token may also be in the variable {VARIABLE}."
    )
    parser.add_argument("trainer", metavar="HOST:PORT", help="where the trainer listens; IPv6 in brackets")
    parser.add_argument("--token-file", metavar="FILE", help="the file with the trainer's token")
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument(
        "--fingerprint", metavar="SHA256", help="of the trainer's certificate, as the trainer prints it"
    )
    trust.add_argument("--ca", metavar="FILE", help="the certificates to trust (PEM) instead of the system's")
    parser.add_argument(
        "--port",
        type=int,
        default=EDITOR_PORT,
        metavar="N",
        help="the port for engines of this machine (default: %(default)s, as for the Unity Editor)",
    )
    parser.add_argument("--once", action="store_true", help="exit when the first engine has ended")


def run(arguments: argparse.Namespace) -> int:
    """Forward engines until Ctrl-C, or as the arguments say."""
    logger = configure_logging()
    trainer = _trainer(arguments)
    if not 0 <= arguments.port <= LAST_PORT:
        raise CommandError(f"--port: found {arguments.port}; a port is a number from 0 to {LAST_PORT}")
    try:
        relay = Relay(trainer, arguments.port)
    except (UnityException, OSError) as error:
        raise CommandError(f"Engines cannot be listened for: {error}") from error
    try:
        relay.await_trainer()
        logger.info(
            "Engines that call port %d of this machine are carried to %s.", relay.port, trainer.address
        )
        relay.serve(once=arguments.once)
    except RelayRejectedError as refusal:
        raise CommandError(
            f"The trainer at {trainer.address} does not let this relay in: {refusal}."
        ) from refusal
    except UntrustedError as error:
        raise CommandError(f"The trainer at {trainer.address} is not to be trusted: {error}.") from error
    finally:
        relay.close()
    return 0


def _trainer(arguments: argparse.Namespace) -> RemoteTrainer:
    """The trainer that the arguments name.

    Raises:
        CommandError: Something about it cannot be read.
    """
    try:
        host, port = split_address(arguments.trainer)
        if not port:
            raise ValueError(f"found {arguments.trainer!r}; expected HOST:PORT, the port included")
        expected = None if arguments.fingerprint is None else read_fingerprint(arguments.fingerprint)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return RemoteTrainer(host, port, _token(arguments.token_file), _context(arguments, expected), expected)


def _token(file: str | None) -> str:
    try:
        token = find_token(file, os.environ)
    except TokenError as error:
        raise CommandError(str(error)) from error
    if token is None:
        where = (
            f"there is no file {file}"
            if file is not None
            else f"neither --token-file nor {VARIABLE} is given"
        )
        raise CommandError(
            f"The trainer's token is missing: {where}. The trainer makes it with --token-file."
        )
    return token


def _context(arguments: argparse.Namespace, expected: str | None) -> SSLContext:
    try:
        return client_context(arguments.ca, pinned=expected is not None)
    except OSError as error:
        cause = error.strerror or str(error)
        raise CommandError(f"The certificates of {arguments.ca} (--ca) cannot be read: {cause}.") from error
