"""`python -m lanista.envs.scenes NAME --mlagents-port N`: a scene as an engine."""

import os
import sys

# Small arrays gain nothing from more threads, and the trainer wants the other cores. Before NumPy loads.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def run(arguments: list[str]) -> int:
    """Start the scene that the first argument names; the exit status."""
    from .client import USAGE_STATUS, main
    from .registry import SCENES, UnknownSceneError, find

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m lanista.envs.scenes NAME --mlagents-port PORT [options]\n")
        print("\n".join(f"  {scene.name:10} {scene.summary}" for scene in SCENES.values()))
        return 0 if arguments else USAGE_STATUS
    try:
        scene = find(arguments[0])
    except UnknownSceneError as error:
        print(error, file=sys.stderr)
        return USAGE_STATUS
    return main(scene.load(), arguments[1:], f"scene:{scene.name}")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
