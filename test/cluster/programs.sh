#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster, out of their Go modules, as one module, so that what they share is compiled once.
#
#   programs.sh [DIR]    programs land in DIR/bin, CRDs in DIR/crds, by default in the folder of cache.sh; nothing is done where they stand there already
#
# The versions go together. Kubernetes 1.36 is the last whose kubelet takes Debian 12's containerd 1.6 and a cgroup v1; helm and CoreDNS are
# those that compile with the k8s.io modules of that Kubernetes.
set -euo pipefail
project=$(realpath "$(dirname "$0")/../..")
KUBE=v1.36.3 HELM=v3.21.4 COREDNS=v1.14.7
ISTIO=v0.0.0-20260827124520-eed52ebb66ad ENVOY_GATEWAY=v1.9.1 PROMETHEUS_OPERATOR=v0.85.0 CERT_MANAGER=v1.21.2
staging=v0.${KUBE#v1.}
programs=(kube-apiserver kube-controller-manager kubelet kube-scheduler kube-proxy kubectl) others=(./coredns ./pause)
stamp="$KUBE $HELM $COREDNS $ISTIO $ENVOY_GATEWAY $PROMETHEUS_OPERATOR $CERT_MANAGER $(uname -m)"

target=${1:-$("$project/test/cluster/cache.sh" "$project/test/cluster/programs.sh")}
mkdir -p "$target/bin" "$target/crds" "$target/module" && cd "$target"
# Another checkout may be making the same.
exec 9> lock && flock 9
dir=$PWD
[ "$(cat bin/versions 2> /dev/null)" != "$stamp" ] || exit 0
command -v go > /dev/null || { echo 'The cluster is built with Go 1.26 or later: https://go.dev/dl' >&2; exit 1; }
export CGO_ENABLED=0 GOFLAGS='-mod=mod -buildvcs=false'

cd module
(cd / && go mod download "k8s.io/kubernetes@$KUBE")
# The go.mod of Kubernetes, with its staging folders replaced by the modules that are published of them. Its own versions of everything stay,
# whatever helm and CoreDNS ask for: they compile with these, and nothing is compiled twice.
awk -v kube="$KUBE" -v staging="$staging" '
  BEGIN { print "module lab\n\ngo 1.26.0\n\ngodebug default=go1.26\n" }
  /^require \(/ { block = 1 }
  /^replace \(/ { block = 2 }
  block == 1 { sub(/ v0\.0\.0( |$)/, " " staging " "); print; if ($2 ~ /^v/) pins[$1] = $2 }
  block == 2 && $2 == "=>" { staged[$1] = 1 }
  /^\)/ { block = 0 }
  END {
    print "require k8s.io/kubernetes " kube "\n\nreplace ("
    for (m in staged) print "\t" m " => " m " " staging
    for (m in pins) if (!(m in staged)) print "\t" m " => " m " " pins[m]
    print ")"
  }' "$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$KUBE.mod" > go.mod
mkdir -p coredns pause
cat > pause/main.go <<'GO'
// Holds the namespaces of a pod.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGINT, syscall.SIGTERM)
	<-ending
}
GO
cat > coredns/main.go <<'GO'
// CoreDNS with the few plugins that a cluster needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "cache", "kubernetes"}
	coremain.Run()
}
GO
go get "helm.sh/helm/v3@$HELM" "github.com/coredns/coredns@$COREDNS"

# Without a version, `kubeVersion` of charts does not match and kubectl complains. A name that a program does not have is passed over.
minor=${KUBE#v1.} minor=${minor%%.*}
version=k8s.io/component-base/version helm=helm.sh/helm/v3
names="-X $version.gitVersion=$KUBE -X $version.gitMajor=1 -X $version.gitMinor=$minor -X $version.gitTreeState=clean"
names+=" -X $helm/internal/version.version=$HELM"
for of in lint/rules chartutil; do names+=" -X $helm/pkg/$of.k8sVersionMajor=1 -X $helm/pkg/$of.k8sVersionMinor=$minor"; done
# helm may be there already, for `make chart`.
made=$project/.cache/chart/helm
if [ "$(cat "$made.version" 2> /dev/null)" = "$HELM-$KUBE" ]; then cp "$made" "$dir/bin/helm"; else others+=($helm/cmd/helm); fi
nice -n 10 go build -o "$dir/bin/" -gcflags=all=-dwarf=false -ldflags "-s -w $names" "${programs[@]/#/k8s.io/kubernetes/cmd/}" "${others[@]}"

# The CRDs lie in the archives of these modules, of which nothing is compiled.
cd /
for module in "istio.io/istio@$ISTIO" "github.com/envoyproxy/gateway@$ENVOY_GATEWAY" \
  "github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR" "github.com/cert-manager/cert-manager@$CERT_MANAGER"; do
  go mod download "$module"
done
modules=$(go env GOMODCACHE)
gateway=$modules/github.com/envoyproxy/gateway@$ENVOY_GATEWAY/charts/gateway-helm/charts/crds/crds
operator=$modules/github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR/example/prometheus-operator-crd
install -m 644 "$gateway/gatewayapi-crds.yaml" "$gateway"/generated/*.yaml "$operator"/*_{servicemonitors,prometheusrules}.yaml \
  "$modules/github.com/cert-manager/cert-manager@$CERT_MANAGER/deploy/crds/cert-manager.io_certificates.yaml" \
  "$modules/istio.io/istio@$ISTIO/manifests/charts/base/files/crd-all.gen.yaml" "$dir/crds/"
echo "$stamp" > "$dir/bin/versions"
