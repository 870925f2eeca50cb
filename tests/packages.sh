#!/usr/bin/env bash
# packages.sh FOLDER: build the sdist, and from it the wheel, into FOLDER; check what their pages would show, and
# that the wheel has the files of one that is built without an sdist.
# PYTHON names the interpreter, which has build, twine and setuptools.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
rm -rf "$folder"/lanista-* build # of setuptools, with files that may be gone
direct=$(mktemp -d)
trap 'rm -rf "$direct"' EXIT
{ "$python" -m build --no-isolation --outdir "$folder" . && "$python" -m build --wheel --no-isolation --outdir "$direct" .; } > "$direct/log" || {
    cat "$direct/log"
    exit 1
}
"$python" -m twine check --strict "$folder"/lanista-*
"$python" - "$folder" "$direct" << 'END'  # the trained models are in both
import sys, tarfile, zipfile
from pathlib import Path

wheel, sdist = (next(Path(sys.argv[1]).glob(f"lanista-*{ending}")) for ending in (".whl", ".tar.gz"))
wanted = {str(path) for path in Path("config/pretrained").rglob("*.*")}
packed = {
    wheel.name: {name.removeprefix("lanista/") for name in zipfile.ZipFile(wheel).namelist()},
    sdist.name: {name.partition("/")[2] for name in tarfile.open(sdist).getnames()},
}
missing = [f"{name} lacks {file}" for name, files in packed.items() for file in sorted(wanted - files)]
direct = zipfile.ZipFile(next(Path(sys.argv[2]).glob("lanista-*.whl")))
built = zipfile.ZipFile(wheel)
checksums = [{file.filename: file.CRC for file in archive.infolist()} for archive in (built, direct)]
different = sorted({name for name, _ in checksums[0].items() ^ checksums[1].items()})
missing += [f"{name} is not the same in a wheel that is built without the sdist" for name in different]
sys.exit("\n".join(missing) or 0)
END
