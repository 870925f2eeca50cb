#!/usr/bin/env bash
# packages.sh FOLDER: build the sdist, and from it the wheel, into FOLDER; check what their pages would show.
# PYTHON names the interpreter, which has build, twine and setuptools.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
rm -f "$folder"/lanista-*
"$python" -m build --no-isolation --outdir "$folder" . > "$folder/build.log" || {
    cat "$folder/build.log"
    exit 1
}
rm "$folder/build.log"
"$python" -m twine check --strict "$folder"/lanista-*
