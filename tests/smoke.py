"""Trains `basic` through the wire with the console script, then plays its brain: the road holds.

Usage: python tests/smoke.py [--steps 12000] [--threshold 0.9]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent


def main() -> int:
    """0 if the trained brain reaches the threshold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--threshold", type=float, default=0.9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as results:
        train = [
            BIN / "lanista-learn",
            ROOT / "config/ppo/basic.yaml",
            "--env",
            "scene:basic",
            "--run-id",
            "smoke",
        ]
        train += ["--results-dir", results, "--seed", "0", "--set", f"behaviors.Basic.max_steps={args.steps}"]
        subprocess.run(list(map(str, train)), check=True)
        brain = Path(results) / "smoke" / "Basic.onnx"
        play = [
            BIN / "lanista",
            "play",
            brain,
            "--env",
            "scene:basic",
            "--episodes",
            "100",
            "--seed",
            "1",
            "--max-decisions",
            "200",
            "--json",
        ]
        played = subprocess.run(list(map(str, play)), check=True, capture_output=True, text=True)
    print(played.stdout)
    reward = json.loads(played.stdout)["mean_reward"]
    reached = reward >= args.threshold
    print(
        f"smoke run: mean reward {reward:.3f}, threshold {args.threshold}: {'passed' if reached else 'FAILED'}"
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
