#!/usr/bin/env bash
# fresh_installs.sh WHEEL [VERSION...]: install a wheel, with the tested versions of all that it requires, into
# a fresh environment of each Python that is installed here, and train and play with it (tests/smoke.py).
# TORCH_INDEX is the address of an index for torch, such as PyTorch's of CPU builds; without it pip's own.
set -euo pipefail
wheel=$(realpath "$1")
shift
versions=("$@")
if [ $# = 0 ]; then
    versions=(3.10 3.11 3.12 3.13 3.14)
fi
cd "$(dirname "$0")/.."
. tests/pythons.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tested=no
for version in "${versions[@]}"; do
    python=$(python_of "$version")
    if [ -z "$python" ]; then
        echo "Python $version: not installed here, left out"
        continue
    fi
    echo "== Python $version"
    "$python" -m venv "$folder/venv"
    pip=("$folder/venv/bin/pip" install -q --disable-pip-version-check -c constraints.txt)
    if [ -n "${TORCH_INDEX:-}" ]; then
        "${pip[@]}" --index-url "$TORCH_INDEX" torch
    fi
    "${pip[@]}" "$wheel"
    (cd "$folder" && venv/bin/python "$OLDPWD/tests/smoke.py")
    rm -rf "$folder/venv"
    tested=yes
done
if [ $tested = no ]; then
    echo "found none of Python ${versions[*]}"
    exit 1
fi
