"""Measures the exchange between a trainer and an engine in another process, without what the messages mean.

Usage: python tests/benchmarks/exchange.py [--engine own|grpcio] [--request 1000] [--reply 300] [--work 0]
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.server import ServerSession
from script_options import parse_options

METHOD = "/communicator_objects.UnityToExternalProto/Exchange"
PATIENCE = 30.0


def call_on_grpcio(port: int) -> Callable[[bytes], bytes]:
    """The engine's end as other engines have it."""
    import grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)])
    return channel.unary_unary(METHOD)


def engine(port: int, kind: str, size: int) -> None:
    """Calls the trainer until its answer is empty."""
    if kind == "grpcio":
        exchange = call_on_grpcio(port)
    else:
        end = EngineEndpoint(port)
        end.connect(PATIENCE)
        exchange = end.exchange
    while exchange(bytes(size)):
        pass


def compute(seconds: float) -> None:
    """Holds the interpreter, as a trainer does between taking a message in and answering it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def measure(endpoint: ServerSession, reply: bytes, count: int, work: float) -> tuple[float, float]:
    """Seconds of wall clock and of this process's processors per exchange, less what the work takes."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        if endpoint.receive(PATIENCE) is None:
            raise SystemExit("the engine is gone")
        compute(work)
        endpoint.reply(reply)
        compute(work)
    return (
        (time.perf_counter() - wall) / count - 2 * work,
        (time.process_time() - processor) / count - 2 * work,
    )


def main() -> None:
    """Print the figures."""
    args = parse_options(
        __doc__,
        engine={"default": "own", "choices": ("own", "grpcio")},
        request={"default": 1000, "help": "bytes of an engine's message"},
        reply={"default": 300, "help": "bytes of an answer"},
        count=5000,
        work={"default": 0.0, "help": "microseconds of work, twice per exchange"},
        call={"default": None, "type": int, "help": "be the engine of the trainer at this port"},
    )
    if args.call is not None:
        engine(args.call, args.engine, args.request)
        return
    endpoint = ServerSession.listen(0)
    options = ["--call", str(endpoint.port), "--engine", args.engine, "--request", str(args.request)]
    process = subprocess.Popen([sys.executable, __file__, *options])
    try:
        measure(endpoint, bytes(args.reply), args.count // 10, 0.0)
        rounds = [measure(endpoint, bytes(args.reply), args.count, args.work * 1e-6) for _ in range(5)]
        endpoint.receive(PATIENCE)
        endpoint.reply(b"")
        process.wait(PATIENCE)
    finally:
        process.kill()
        endpoint.close()
    wall, processor = (min(figures) * 1e6 for figures in zip(*rounds))
    print(f"{args.engine} engine, best of 5 x {args.count} exchanges: {wall:.0f} us of wall clock,", end=" ")
    print(f"{processor:.0f} us of the trainer's processors, besides 2 x {args.work:.0f} us of work")


if __name__ == "__main__":
    main()
