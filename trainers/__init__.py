"""The second floor: from trajectories to brains."""

from importlib.util import find_spec

from .. import _refuse

_NEEDED = {
    "mlagents_envs": "mlagents-envs",
    "numpy": "numpy",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "psutil": "psutil",
}
"""What even the settings need, by the names of imports and of pip."""

_missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
if _missing:
    _refuse(f"{', '.join(_missing)} is not installed for this Python: pip install {' '.join(_missing)}")
