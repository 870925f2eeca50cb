#!/usr/bin/env bash
# usage: container.sh DIR  - builds the image of docs/Dockerfile with buildah, without Docker and without a registry of
# images: on a base that debootstrap makes under DIR. Then trains and plays in it. Needs root, Debian with buildah and
# debootstrap, and an index for pip. BUILD_ARGS: options for `buildah build`, such as --volume of what pip's settings name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mkdir -p "$1" && cd "$1" && pwd)
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
build=(buildah --root "$dir/images" --runroot "$dir/running")

if [ ! -f "$dir/base/ready" ]; then
    rm -rf "$dir/base"
    unshare --mount debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates stable "$dir/base"
    touch "$dir/base/ready"
fi
# As python:3-slim is: `python` and `pip` without a word of Debian's about its own packages.
rm -f "$dir"/base/usr/lib/python3*/EXTERNALLY-MANAGED
ln -sf python3 "$dir/base/usr/bin/python"

scratch=$("${build[@]}" from scratch)
"${build[@]}" add -q "$scratch" "$dir/base" /
"${build[@]}" commit -q "$scratch" lanista-base
"${build[@]}" rm "$scratch" >/dev/null
# shellcheck disable=SC2086
"${build[@]}" build ${BUILD_ARGS:-} --build-arg BASE=localhost/lanista-base -f "$here/docs/Dockerfile" -t lanista "$here"

trainer=$("${build[@]}" from localhost/lanista)
trap '"${build[@]}" rm "$trainer" >/dev/null' EXIT
run() { echo "\$ $*"; "${build[@]}" run "$trainer" -- "$@"; }
run lanista-learn /opt/lanista/config/ppo/basic.yaml --env scene:basic --run-id basic --set behaviors.Basic.max_steps=20000
run lanista play results/basic --env scene:basic --episodes 20
run lanista doctor
