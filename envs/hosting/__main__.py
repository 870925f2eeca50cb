"""`python -m lanista.envs.hosting ENV --mlagents-port N`: a Python environment as an engine."""

import faulthandler
import logging
import os
import sys
from collections.abc import Sequence

# Small arrays gain nothing from more threads, and the trainer needs the other cores. Before NumPy loads.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def run(arguments: Sequence[str]) -> int:
    """Host the environment that the first argument names.

    Returns:
        The exit status: 0 after the trainer ended the session, 1 if the trainer vanished or the environment
        failed, 2 for an invalid command line.
    """
    from ..grpc.client import EngineEndpoint
    from ..scenes.client import USAGE_STATUS, Session, serve, start_log
    from ..scenes.options import UsageError
    from .source import PROGRAM, parse
    from .world import HostedWorld

    try:
        given = parse(arguments)
        log = start_log(given.log_file)
        endpoint = EngineEndpoint(given.port)
    except (UsageError, OSError) as error:
        usage = error.usage if isinstance(error, UsageError) else ""
        print(f"{PROGRAM}: {error}\n\n{usage}".rstrip(), file=sys.stderr)
        return USAGE_STATUS
    faulthandler.enable(log)  # to locate crashes in native code
    logging.captureWarnings(True)  # of Gymnasium, for example, into the log too
    source = given.source
    logging.getLogger(__name__).info(
        "%s connects to the trainer on port %d; arguments %s.",
        source.path,
        given.port,
        list(source.arguments),
    )
    world = HostedWorld(source)
    try:
        return serve(Session(world, endpoint, name=source.path), endpoint)
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
