"""The messages quoted on the troubleshooting page are those of the program."""

import ast
import re
from pathlib import Path

import lanista

ROOT = Path(lanista.__file__).parent


def _texts() -> list[str]:
    """Every text of the sources; of one with values in it, the pieces between them."""
    found = []
    for path in [ROOT / "__init__.py", *ROOT.glob("envs/**/*.py"), *ROOT.glob("trainers/**/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return found


def test_quoted_messages_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`|]+)`(?= \|)", page, re.MULTILINE)
    assert len(quoted) > 35
    texts = "\n".join(_texts())
    pieces = [piece.strip() for message in quoted for piece in message.split("...") if piece.strip()]
    missing = [piece for piece in pieces if piece not in texts]
    assert not missing
