#!/usr/bin/env bash
# `make cluster-test`: builds a Kubernetes and the project's image, installs the chart into it, and runs the tests of this folder inside. All of it is in
# namespaces and a folder of its own, which are gone at the end; only what was compiled stays (cache.sh).
#
#   main.sh [ARGUMENTS OF VITEST]
#   main.sh --possible        ends at once: whether this machine can, and if not, why
#   main.sh --has-packages    ends at once: whether Debian's packages are here (packages.txt)
#   main.sh --gateways        `make gateway-test`: an API server alone, and test/gateway beside it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
cache=$("$here/cache.sh" "$here/programs.sh")

# One line on why it cannot run here; with REQUIRE_ALL=1 that is a failure.
absent() {
  echo "absent: make cluster-test: $1" >&2
  [ "${REQUIRE_ALL:-}" != 1 ] || exit 1
  exit 0
}

# allowed WHAT CMD...: the command, which the kernel must let us do; where it does not, its own words stand beside ours.
allowed() {
  local what=$1 said
  shift
  said=$("$@" 2>&1 > /dev/null) || absent "this machine refuses $what: $(tail -1 <<< "$said")"
}

missing_packages() {
  local command
  for command in containerd runc etcd buildah mmdebstrap iptables ip conntrack; do
    command -v $command > /dev/null || echo $command
  done
  [ -x /usr/lib/cni/bridge ] || echo /usr/lib/cni/bridge
}

possible() {
  [ "$(uname -s)" = Linux ] || absent 'it needs Linux'
  [ "$(id -u)" = 0 ] || absent 'it needs root, for namespaces, mounts and cgroups'
  local command missing
  missing=$(missing_packages | xargs)
  [ -z "$missing" ] || absent "not here: $missing; on Debian: apt-get install --no-install-recommends $(xargs < "$here/packages.txt")"
  for command in unshare nsenter openssl pgrep; do command -v $command > /dev/null || absent "not here: $command"; done
  [ -e "$cache/bin/versions" ] || command -v go > /dev/null || absent 'the cluster is built with Go 1.26 or later: https://go.dev/dl'
  allowed 'namespaces' unshare --mount --net --pid --fork --mount-proc true
  allowed 'mounts within a namespace' unshare --mount sh -c 'mount --make-rshared / && mount -t tmpfs usher /mnt'
  allowed 'bridges within a namespace' unshare --net sh -c 'ip link add lab0 type bridge && ip link add lab1 type veth peer name lab2'
  allowed 'rules of iptables within a namespace' unshare --net iptables -t nat -A POSTROUTING -j MASQUERADE
  local root roots
  roots=$("$here/cluster.sh" cgroups)
  [ -n "$roots" ] || absent 'no cgroups are mounted'
  for root in $roots; do
    allowed "cgroups in $root" sh -c "mkdir $root/usher-probe-$$ && rmdir $root/usher-probe-$$"
  done
}

gateways=
case ${1:-} in
  --has-packages) [ -z "$(missing_packages)" ] && exit 0 || exit 1 ;;
  --gateways) gateways=1 && shift ;;
esac
possible
[ "${1:-}" != --possible ] || exit 0

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
if [ -n "$gateways" ]; then
  phase "control plane" test/gateway/pilot.sh "$cache"
  LAB_NODE=api phase "API server" "$here/cluster.sh" up
  phase "tests" "$here/cluster.sh" exec "$(command -v vitest)" run --config test/gateway/vitest.config.ts "$@"
  exit
fi
# In a namespace of their own: what is mounted for a build ends with it.
phase "images" unshare --mount "$here/images.sh" "$cache" "$LAB_DIR"
phase "cluster" "$here/cluster.sh" up
phase "tests" "$here/cluster.sh" exec "$(command -v vitest)" run --config test/cluster/vitest.config.ts "$@"
