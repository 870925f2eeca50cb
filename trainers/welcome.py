"""The first lines of a run: what is running, in which versions."""

from importlib.metadata import version

from .. import __version__
from ..envs.wire.versions import API_VERSION, PACKAGE_VERSION


def version_block() -> str:
    """Name and versions. The lower lines are ML-Agents', with the release that Lanista stands in for."""
    return (
        f"\n  L A N I S T A   {__version__}   in place of ML-Agents {PACKAGE_VERSION}\n\n"
        " Version information:\n"
        f"  lanista: {__version__},\n"
        f"  ml-agents: {PACKAGE_VERSION},\n"
        f"  ml-agents-envs: {PACKAGE_VERSION},\n"
        f"  Communicator API: {API_VERSION},\n"
        f"  PyTorch: {version('torch')}\n"
    )
