#!/usr/bin/env bash
# Installs ML-Agents 1.1.0 aside, in a virtual environment of its own: what Lanista is measured against, and
# what it has to work together with; and ueagents-envs 1.0.0, the Python side of the plug-in UnrealMLAgents.
# Nothing of it is imported by Lanista or its tests.
#
#   tests/peer/install.sh DIR         as its users have it: CPython 3.10, whatever pip resolves. Several
#                                     gigabytes where pip's index has no CPU build of torch for 3.10.
#                                     Take this one for measurements.
#   tests/peer/install.sh --fast DIR  CPython 3.11 and the torch of constraints.txt: quick to install. Its
#                                     protobuf has no compiled part there, so small tasks run at half the
#                                     speed: good for tests, unfair for measurements.
#
# Where neither Python can be had, as beside a GPU that needs a newer torch, port.py fits it to a current one.
#
# Afterwards DIR/bin/python tests/peer/run_peer.py CONFIG --env=FILE --run-id=ID trains, and the tests marked
# `peer` run with LANISTA_PEER=DIR/bin/python (DIR .cache/peer is found without it).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fast=
if [ "${1:-}" = --fast ]; then
    fast=1
    shift
fi
folder=${1:?usage: install.sh [--fast] DIR}

. "$here/../pythons.sh"

version=$([ -n "$fast" ] && echo 3.11 || echo 3.10)
python=$(python_of "$version")
if [ -z "$python" ]; then
    echo "install.sh: CPython $version is not installed here; this variant of ML-Agents 1.1.0 needs it" >&2
    exit 1
fi
"$python" -m venv "$folder"
install() { "$folder/bin/pip" install -q --disable-pip-version-check "$@"; }

# mlagents says it wants a Python up to 3.10.12; later ones do as well. tensorboard imports pkg_resources,
# which setuptools 81 dropped.
if [ -n "$fast" ]; then
    install --no-deps -r "$here/fast.txt"
    install --no-deps --ignore-requires-python mlagents==1.1.0 mlagents-envs==1.1.0
else
    install --ignore-requires-python mlagents==1.1.0 'setuptools<81'
fi
# The port to Unreal pins the same versions of what it needs, and wants the same Pythons.
install --no-deps --ignore-requires-python ueagents-envs==1.0.0
"$folder/bin/python" -W ignore -c "
import google.protobuf.internal.api_implementation as protobuf
import mlagents.trainers.learn
print('ML-Agents 1.1.0 is ready; protobuf:', protobuf.Type())"
