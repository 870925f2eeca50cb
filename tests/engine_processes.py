"""Finds the processes of engines, to kill them."""

import psutil


def engine_process(port: int) -> psutil.Process:
    """The process, started by this one, that connects to `port`."""
    for child in psutil.Process().children():
        try:
            arguments = child.cmdline()
        except psutil.Error:  # it has ended meanwhile
            continue
        if "--mlagents-port" in arguments and arguments[arguments.index("--mlagents-port") + 1] == str(port):
            return child
    raise LookupError(f"no engine of this process calls on port {port}")
