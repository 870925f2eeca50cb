"""Makes `tests/goldendata.py` importable as `goldendata`, and random tests independent of time."""

import signal
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine must not fail a test.
settings.register_profile("lanista", deadline=None)
settings.load_profile("lanista")


def _heed_signals() -> None:
    """Let the processes that tests start heed Ctrl-C and a closed terminal.

    Tests run in the background (`nohup`, `&`, a service) have both ignored, and children inherit that.
    """
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


_heed_signals()
