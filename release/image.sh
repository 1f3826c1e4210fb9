#!/usr/bin/env bash
# Builds the image of the Dockerfile with buildah, which needs no daemon, for one platform after the other, into one name.
#
#   image.sh NAME BASE [PLATFORM...]    NAME is what it is called in buildah's storage; BASE an image with the pinned Node, by its digest in a release
#
# linux/amd64 when no platform is named. No platform needs emulation: nothing is run in the last stage. VERSION and REVISION become labels;
# BUILDAH_OPTIONS are handed on.
set -euo pipefail
project=$(realpath "$(dirname "$0")/..")
name=$1 base=$2
shift 2
own=linux/$(uname -m | sed 's/x86_64/amd64/;s/aarch64/arm64/')
[ $# -gt 0 ] || set -- "$own"
read -ra options <<< "${BUILDAH_OPTIONS:-}"
# What a build is allowed to reach of this machine is in no layer: its certificates, and npm's settings and cache.
npmrc=$(mktemp)
trap 'rm -f "$npmrc"' EXIT
echo "cafile=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}" > "$npmrc"
cache=$(npm config get cache)
mkdir -p "$cache"
# BUILDPLATFORM is Docker's own; buildah of Debian 12 does not set it.
if [ $# -gt 1 ]; then target=(--manifest "$name"); else target=(--tag "$name"); fi
buildah bud -q --isolation chroot --network host --layers=false --format oci "${options[@]}" \
  -v /etc/ssl/certs:/etc/ssl/certs:ro -v "$npmrc:/root/.npmrc:ro" -v "$cache:/root/.npm:rw" \
  --build-arg "BASE=$base" --build-arg "VERSION=${VERSION:-0.0.0-dev}" --build-arg "REVISION=${REVISION:-unknown}" \
  --build-arg "BUILDPLATFORM=$own" --platform "$(IFS=,; echo "$*")" "${target[@]}" "$project" > /dev/null
