#!/usr/bin/env bash
# The parts that need no torch (wire, codec, environments, processor, settings) on other Pythons, with both
# current majors of protobuf, and Gymnasium and psutil from the oldest that are supported: installed from the
# wheel that tests/packages.sh has built into .cache/dist. A Python that is not installed is named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

. tests/pythons.sh

# These compare pages of docs/, which no wheel has; they run in the checkout.
LEFT_OUT=(--ignore tests/trainers/settings/test_document.py --ignore tests/trainers/settings/test_unsupported.py)

while read -r version protobuf gymnasium psutil; do
    python=$(python_of "$version")
    if [ -z "$python" ]; then
        echo "Python $version: not installed here, left out"
        continue
    fi
    venv=.cache/python$version
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "protobuf==$protobuf" mlagents-envs distlib filelock numpy grpcio hpack pillow pooch "psutil$psutil" pydantic pyyaml rich pytest pytest-xdist hypothesis "gymnasium$gymnasium"
    # The package itself without its dependencies: torch is not among what these parts need.
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall .cache/dist/lanista-*.whl
    echo "== Python $version, protobuf $("$venv/bin/python" -c 'import google.protobuf as p; print(p.__version__)')"
    "$venv/bin/python" -m pytest -q -n 2 -m "not peer" -p no:cacheprovider "${LEFT_OUT[@]}" tests/envs tests/agent_processor tests/trainers/settings
done <<'VERSIONS'
3.10 6.* ==0.29.1 ==6.0.0
3.12 7.* >=1.0 >=6.0
3.13 6.* >=1.0 >=6.0
3.14 7.* >=1.0 >=6.0
VERSIONS
