"""The first lines of a run: what is running, in which versions."""

from importlib.metadata import version

from .. import __version__
from ..envs.wire.versions import API_VERSION


def version_block() -> str:
    """Name and versions, in the form that tools which read ML-Agents' log expect of the lower lines."""
    return (
        f"\n  L A N I S T A   {__version__}\n\n"
        " Version information:\n"
        f"  lanista: {__version__},\n"
        f"  Communicator API: {API_VERSION},\n"
        f"  PyTorch: {version('torch')}\n"
    )
