#!/usr/bin/env bash
# Builds Istio's control plane, `pilot-discovery`, out of its Go module and on what test/cluster/programs.sh compiled before: pilot.sh CACHE
set -euo pipefail
ISTIO=v0.0.0-20260827124520-eed52ebb66ad   # Istio's tags are no versions of Go's; this commit is what is served
cd "$1"
[ "$(cat bin/pilot-discovery.version 2> /dev/null)" != $ISTIO ] || exit 0
export CGO_ENABLED=0 GOFLAGS='-mod=mod -buildvcs=false'
mkdir -p istio && cp module/go.mod module/go.sum istio/ && cd istio
# It wants a newer OpenTelemetry than Kubernetes pins, and versions that exist of three modules.
sed -i '/go.opentelemetry.io.*=>/d' go.mod
go get "istio.io/istio@$ISTIO"
for module in istio.io/api@v1.31.1 istio.io/client-go@v1.31.1 github.com/envoyproxy/go-control-plane/envoy@v1.40.0 \
  github.com/envoyproxy/go-control-plane/contrib@v1.36.1-0.20260729145720-a2d8c7492908; do
  go mod edit -replace "${module%@*}=$module"
done
nice -n 10 go build -gcflags=all=-dwarf=false -ldflags '-s -w' -o ../bin/pilot-discovery istio.io/istio/pilot/cmd/pilot-discovery
echo $ISTIO > ../bin/pilot-discovery.version
