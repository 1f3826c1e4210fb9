#!/usr/bin/env bash
# `make cluster-test`: builds a Kubernetes and the project's image, installs the chart into it, and runs the tests of this folder inside. All of it is in
# namespaces and a folder of its own, which are gone at the end; only what was built stays, in USHER_LAB_CACHE or .cache/lab.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
cache=${USHER_LAB_CACHE:-$PWD/.cache/lab}

# One line on why it cannot run here; with REQUIRE_ALL=1 that is a failure.
absent() {
  echo "absent: make cluster-test: $1" >&2
  [ "${REQUIRE_ALL:-}" != 1 ] || exit 1
  exit 0
}
[ "$(uname -s)" = Linux ] || absent 'it needs Linux'
[ "$(id -u)" = 0 ] || absent 'it needs root, for namespaces and mounts'
unshare --mount --net --pid --fork --mount-proc sh -c 'ip link add lab0 type bridge && mount --make-rshared /' > /dev/null 2>&1 \
  || absent 'the kernel refuses namespaces, or mounts or bridges within them'
missing=
for command in containerd runc etcd buildah mmdebstrap iptables ip conntrack nsenter openssl pgrep; do
  command -v $command > /dev/null || missing+=" $command"
done
[ -x /usr/lib/cni/bridge ] || missing+=' /usr/lib/cni/bridge'
[ -z "$missing" ] || absent "not here:$missing; on Debian: apt-get install --no-install-recommends $(xargs < "$here/packages.txt")"
[ -e "$cache/bin/versions" ] || command -v go > /dev/null || absent 'the cluster is built with Go 1.26 or later: https://go.dev/dl'

export LAB_DIR LAB_BIN=$cache/bin
LAB_DIR=$(mktemp -d -t usher-lab-XXXXXX)
finish() {
  status=$?
  "$here/cluster.sh" down
  # Where a test failed, the logs stay.
  if [ $status = 0 ]; then rm -rf "$LAB_DIR"; else echo "The cluster's logs are in $LAB_DIR/log." >&2 && rm -rf "$LAB_DIR"/{containerd,images,etcd,build}; fi
}
trap finish EXIT
# An interrupted run ends what it started, too.
trap 'exit 130' INT TERM

phase() { # phase NAME CMD...
  local name=$1 began=$SECONDS
  shift
  "$@"
  echo "cluster-test: $name: $((SECONDS - began)) s"
}
node src/cli.ts dev --fetch-envoy > /dev/null
phase "programs" "$here/programs.sh" "$cache"
phase "images" "$here/images.sh" "$cache" "$LAB_DIR"
phase "cluster" "$here/cluster.sh" up
phase "tests" "$here/cluster.sh" exec "$(command -v vitest)" run --config test/cluster/vitest.config.ts "$@"
