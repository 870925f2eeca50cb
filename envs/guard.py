"""Sees to it that engines end when this process is killed and cannot end them itself.

The kernel's own way, PR_SET_PDEATHSIG, exists on Linux alone and fires already when the thread ends
that started the engine. Here a small shell waits at the other end of a pipe: it is told which process
groups live, and when the pipe closes it kills those that remain.
"""

import atexit
import contextlib
import logging
import os
import subprocess
import threading

logger = logging.getLogger(__name__)

# An engine that notices the lost connection quits by itself and gets a few seconds for it.
_SCRIPT = """
trap '' HUP INT TERM
groups=
while read -r sign group; do
    if [ "$sign" = + ]; then
        groups="$groups $group"
    else
        rest=
        for other in $groups; do [ "$other" = "$group" ] || rest="$rest $other"; done
        groups=$rest
    fi
done
[ -n "$groups" ] || exit 0
sleep 3
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
"""

_PARTING_SECONDS = 0.5

_lock = threading.Lock()
_shell: subprocess.Popen[bytes] | None = None
_owner = 0


def watch(group: int) -> None:
    """Kill this process group should this process end without `release`."""
    _tell(f"+ {group}\n", start=True)


def release(group: int) -> None:
    """The process group has ended."""
    _tell(f"- {group}\n", start=False)


def _tell(line: str, *, start: bool) -> None:
    global _shell, _owner
    if os.name != "posix":
        return
    with _lock:
        # A forked child must not speak for its parent's engines.
        if _shell is None or _owner != os.getpid():
            if not start:
                return
            _shell, _owner = _start(), os.getpid()
            atexit.register(_dismiss)
        if _shell is None or _shell.stdin is None:
            return
        try:
            os.write(_shell.stdin.fileno(), line.encode())
        except BrokenPipeError:
            logger.warning("The guard of the engines was killed; engines may outlive a killed trainer.")
            _shell = None


def _dismiss() -> None:
    """At this process's end: the guard ends by itself, at once if no engine is left."""
    global _shell
    with _lock:
        shell, _shell = _shell, None
    if shell is None or shell.stdin is None or _owner != os.getpid():
        return
    shell.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        shell.wait(_PARTING_SECONDS)


def _start() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        logger.warning("No guard for the engines: %s. They may outlive a killed trainer.", error)
        return None
