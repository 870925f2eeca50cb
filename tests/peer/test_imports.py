"""What the table of imports says of ML-Agents can be imported there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "from-ml-agents.md"


def test_mlagents_names_can_be_imported(peer):
    statements = re.findall(r"^\| `(from mlagents[^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    # Its wrappers download a list of builds when they are imported: they need the network.
    offline = [one for one in statements if not one.startswith("from mlagents_envs.envs.")]
    assert len(offline) > 20
    peer.run("-c", "\n".join(offline))
