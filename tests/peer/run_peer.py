"""Runs ML-Agents' trainer in the Python that runs this file; the arguments are those of mlagents-learn.

    DIR/bin/python tests/peer/run_peer.py CONFIG --env=FILE --run-id=ID ...

ML-Agents 1.1.0 writes its brains by `torch.onnx.export` without saying by which of torch's two exporters.
Since torch 2.9 that means the newer one, which wants a package that ML-Agents does not bring, so that every
run would fail at its first checkpoint. Here it gets the older one; all else is as its users have it.
"""

import functools
import sys
from pathlib import Path

# This file's folder stands first on the path, and its names are not ML-Agents' business.
sys.path = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]

import torch.onnx  # noqa: E402

torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)

from mlagents.trainers import learn  # noqa: E402

if __name__ == "__main__":
    sys.argv[0] = "mlagents-learn"
    learn.main()
