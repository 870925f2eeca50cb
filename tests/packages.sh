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
"$python" - "$folder" << 'END'  # the trained models are in both
import sys, tarfile, zipfile
from pathlib import Path

wheel, sdist = (next(Path(sys.argv[1]).glob(f"lanista-*{ending}")) for ending in (".whl", ".tar.gz"))
wanted = {str(path) for path in Path("config/pretrained").rglob("*.*")}
packed = {
    wheel.name: {name.removeprefix("lanista/") for name in zipfile.ZipFile(wheel).namelist()},
    sdist.name: {name.partition("/")[2] for name in tarfile.open(sdist).getnames()},
}
missing = [f"{name} lacks {file}" for name, files in packed.items() for file in sorted(wanted - files)]
sys.exit("\n".join(missing) or 0)
END
