#!/usr/bin/env bash
# Prepares what `make chart` needs beside Node, in .cache/chart: helm and kubeconform out of their Go modules, promtool out of Debian's package
# (which is not installed), and the schemas of Kubernetes and of the custom resources that the chart makes. What is there already stays, and is
# kept outside the checkout for the next one (test/cluster/cache.sh).
#
#   test/chart/tools.sh          says in one line what cannot be had; fails then only under REQUIRE_ALL=1
set -euo pipefail
cd "$(dirname "$0")/../.."
HELM=v3.21.4 KUBECONFORM=v0.8.0 KUBERNETES=v1.36.3
ISTIO_API=v1.31.1 ENVOY_GATEWAY=v1.9.1 PROMETHEUS_OPERATOR=v0.85.0 CERT_MANAGER=v1.21.2
# Of what the pages of docs/kubernetes show beside the chart.
ARGO_CD=v3.5.7 FLUX_SOURCE=v1.9.6 EXTERNAL_SECRETS=v1.3.2
dir=$PWD/.cache/chart
kept=$(test/cluster/cache.sh test/chart/tools.sh)
mkdir -p "$dir" "$kept"
export CGO_ENABLED=0 GOBIN=$dir GOFLAGS=-buildvcs=false
missing=()

# Once for each version: a new one is made beside what is there, and takes its place when it is whole.
made() { [ "$(cat "$dir/$1.version" 2> /dev/null)" = "$2" ] || taken "$1" "$2"; }
note() { echo "$2" > "$dir/$1.version" && keep "$1"; }
# From an earlier checkout of this machine, and for a later one; the version comes last, so that half of one is none.
taken() { [ "$(cat "$kept/$1.version" 2> /dev/null)" = "$2" ] && move "$1" "$kept" "$dir"; }
keep() { move "$1" "$dir" "$kept"; }
move() {
  local part
  for part in "$1" "$1.version"; do
    rm -rf "$3/$part.new" && cp -r "$2/$part" "$3/$part.new" && rm -rf "${3:?}/$part" && mv "$3/$part.new" "$3/$part" || return 1
  done
}

helm() {
  local module=helm.sh/helm/v3 minor=${KUBERNETES#v1.}
  minor=${minor%%.*}
  # Without these it takes itself for one of an old Kubernetes, which the chart refuses.
  (cd / && go install -ldflags "-s -w -X $module/internal/version.version=$HELM \
    -X $module/pkg/lint/rules.k8sVersionMajor=1 -X $module/pkg/lint/rules.k8sVersionMinor=$minor \
    -X $module/pkg/chartutil.k8sVersionMajor=1 -X $module/pkg/chartutil.k8sVersionMinor=$minor" "$module/cmd/helm@$HELM")
}
kubeconform() { (cd / && go install -ldflags '-s -w' "github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM"); }
promtool() {
  local at
  at=$(mktemp -d)
  (cd "$at" && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && dpkg-deb -x prometheus_*.deb .)
  mv "$at/usr/bin/promtool" "$dir/promtool"
  rm -rf "$at"
}
folder() { (cd / && go mod download -json "$1") | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }
schemas() {
  local kubernetes istio gateway operator manager argo flux secrets
  kubernetes=$(folder "k8s.io/kubernetes@$KUBERNETES")
  istio=$(folder "istio.io/api@$ISTIO_API")
  gateway=$(folder "github.com/envoyproxy/gateway@$ENVOY_GATEWAY")/charts/gateway-helm/charts/crds/crds
  operator=$(folder "github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR")/example/prometheus-operator-crd
  manager=$(folder "github.com/cert-manager/cert-manager@$CERT_MANAGER")/deploy/crds
  argo=$(folder "github.com/argoproj/argo-cd/v3@$ARGO_CD")/manifests/crds
  flux=$(folder "github.com/fluxcd/source-controller@$FLUX_SOURCE")/config/crd/bases
  secrets=$(folder "github.com/external-secrets/external-secrets@$EXTERNAL_SECRETS")/config/crds/bases
  node test/chart/write-schemas.ts "$dir/schemas" "$kubernetes/api/openapi-spec/swagger.json" \
    "$istio/kubernetes/customresourcedefinitions.gen.yaml" "$gateway/gatewayapi-crds.yaml" "$gateway"/generated/*.yaml \
    "$operator"/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml "$manager"/cert-manager.io_{certificates,clusterissuers}.yaml \
    "$argo/application-crd.yaml" "$flux"/source.toolkit.fluxcd.io_gitrepositories.yaml \
    "$secrets"/external-secrets.io_{externalsecrets,secretstores}.yaml
}

# Several versions make one: those of all that the schemas come from.
declare -A version=([helm]=$HELM-$KUBERNETES [kubeconform]=$KUBECONFORM [promtool]=debian
  [schemas]="$KUBERNETES $ISTIO_API $ENVOY_GATEWAY $PROMETHEUS_OPERATOR $CERT_MANAGER $ARGO_CD $FLUX_SOURCE $EXTERNAL_SECRETS $(sha256sum < test/chart/write-schemas.ts)")
for tool in helm kubeconform promtool schemas; do
  made "$tool" "${version[$tool]}" && continue
  if (set -e; "$tool") > "$dir/$tool.log" 2>&1; then note "$tool" "${version[$tool]}"; else missing+=("$tool"); fi
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "not to be had for the chart's tests: ${missing[*]} (see .cache/chart/*.log)"
  [ "${REQUIRE_ALL:-}" != 1 ] || exit 1
fi
