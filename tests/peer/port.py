"""ML-Agents 1.1.0 for a current Python, where its own Python and libraries cannot be had: beside a new GPU.

    python tests/peer/port.py DIR

Downloads its packages into the new folder DIR and changes what current libraries refuse: the messages are
generated anew from the descriptions in the old ones, names that NumPy dropped are replaced, and so is the old
way to ask for plug-ins. The trainers stay as they are. Afterwards DIR/python, in place of ML-Agents' own
Python, is the `python3` of the machine with these packages before its own; that one has to have torch, numpy,
onnx, grpcio, protobuf, tensorboard, pyyaml, pillow, attrs, h5py, cloudpickle and six.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = ("mlagents==1.1.0", "mlagents-envs==1.1.0", "cattrs==1.5.0", "setuptools<81")
CHANGES = {
    "mlagents/trainers/buffer.py": [("np.float ", "float ")],
    "mlagents/trainers/trainer/trainer_utils.py": [("gamma * value_next", "gamma * np.ravel(value_next)[0]")],
    "mlagents/trainers/training_status.py": [("f, indent=4)", "f, indent=4, default=float)")],
    **{
        f"mlagents/plugins/{name}.py": [
            (
                f"{group} not in importlib_metadata.entry_points()",
                f"not importlib_metadata.entry_points(group={group})",
            ),
            (f"entry_points()[{group}]", f"entry_points(group={group})"),
        ]
        for name, group in (
            ("trainer_type", "ML_AGENTS_TRAINER_TYPE"),
            ("stats_writer", "ML_AGENTS_STATS_WRITER"),
        )
    },
}
"""By file: what is replaced, and by what."""
MESSAGES = """from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

{imports}

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({description!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
"""
PYTHON = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
PYTHONPATH="$here" exec python3 "$@"
"""


def description(source: str) -> bytes:
    """The serialized description in a module of messages: its longest literal."""
    literals = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    texts = [
        text if isinstance(text, bytes) else text.encode("latin1")
        for text in literals
        if isinstance(text, (str, bytes))
    ]
    return max(texts, key=len)


def renew_messages(file: Path) -> None:
    """Write a module of messages as current protobuf wants it."""
    source = file.read_text()
    imports = re.findall(r"^from mlagents_envs\.communicator_objects import \w+_pb2 as \w+", source, re.M)
    imports += re.findall(r"^from mlagents_envs\.communicator_objects\.\w+_pb2 import \*", source, re.M)
    file.write_text(MESSAGES.format(imports="\n".join(imports), description=description(source)))


def port(folder: Path) -> None:
    """Fill a new folder."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--ignore-requires-python"]
    subprocess.run([*command, "-d", str(folder), *PACKAGES], check=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
    (folder / "setuptools" / "_distutils").rename(folder / "distutils")
    for file in (folder / "mlagents_envs" / "communicator_objects").glob("*_pb2.py"):
        renew_messages(file)
    for name, changes in CHANGES.items():
        text = (folder / name).read_text()
        for old, new in changes:
            if old not in text:
                raise SystemExit(f"{folder / name} does not hold {old!r}: this is not ML-Agents 1.1.0")
            text = text.replace(old, new)
        (folder / name).write_text(text)
    python = folder / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    port(Path(sys.argv[1]))
    print(f"LANISTA_PEER={Path(sys.argv[1]).resolve() / 'python'}")
