#!/usr/bin/env bash
# `make release`: everything that is published, built and summed, and nothing of it pushed. Package, image, chart, what they are made of and from:
#
#   .cache/release/VERSION/usher-VERSION.tgz            the npm package
#   .cache/release/VERSION/usher-image-VERSION.tar      the image, as an OCI archive of all platforms
#   .cache/release/VERSION/usher-chart-VERSION.tgz      the chart
#   .cache/release/VERSION/usher-VERSION.cdx.json       the packages in it (CycloneDX); the same is in the image
#   .cache/release/VERSION/provenance.intoto.json       what it was built from, by what, and the digest of each of these
#   .cache/release/VERSION/SHA256SUMS
#
#   BASE=image@sha256:…     the base; left out, the one that the Dockerfile names, by the digest that its registry gives today
#   PLATFORMS='linux/amd64 linux/arm64'
#   DIRTY=1                 a checkout with changes, for a trial
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "make release: $1" >&2 && exit 1; }
read -ra platforms <<< "${PLATFORMS:-linux/amd64 linux/arm64}"
member() { node -p "require('./package.json').$1"; }
version=$(member version)
grep -q "^version: $version$" charts/usher/Chart.yaml && grep -q "^appVersion: '$version'$" charts/usher/Chart.yaml \
  || fail "charts/usher/Chart.yaml is not of version $version, which package.json has"
[ -z "$(git status --porcelain)" ] || [ "${DIRTY:-}" = 1 ] || fail 'the checkout has changes: what is released stands in a commit'
command -v buildah > /dev/null || fail 'not here: buildah; on Debian: apt-get install --no-install-recommends buildah'
[ -x .cache/chart/helm ] || fail 'not here: helm; run: make chart-tools'
REVISION=$(git rev-parse HEAD) VERSION=$version
export REVISION VERSION

base=${BASE:-}
if [ -z "$base" ]; then
  named=docker.io/library/$(sed -n 's/^ARG BASE=//p' Dockerfile)
  command -v skopeo > /dev/null || fail 'not here: skopeo, which asks for the digest of the base; or name it: BASE=image@sha256:…'
  digest=$(skopeo inspect --raw "docker://$named" | sha256sum | cut -d' ' -f1) || fail "no registry told the digest of $named; name it: BASE=image@sha256:…"
  base=$named@sha256:$digest
fi
[[ $base =~ @sha256:[0-9a-f]{64}$ ]] || [ "${DIRTY:-}" = 1 ] || fail "the base $base is not named by its digest"

out=$PWD/.cache/release/$version
rm -rf "$out" && mkdir -p "$out"
npm run build --silent > /dev/null
npm pack --silent --ignore-scripts --pack-destination "$out" > /dev/null
# npm puts the scope into the name of the file.
mv "$out/usher-authz-usher-$version.tgz" "$out/usher-$version.tgz"
npm sbom --omit dev --package-lock-only --sbom-format cyclonedx > "$out/usher-$version.cdx.json"
# Helm's name for it is the one that the package has here.
.cache/chart/helm package charts/usher --destination "$out/chart" > /dev/null
mv "$out/chart/usher-$version.tgz" "$out/usher-chart-$version.tgz" && rmdir "$out/chart"

image=localhost/usher:$version
buildah manifest rm "$image" > /dev/null 2>&1 || true
release/image.sh "$image" "$base" "${platforms[@]}"
archive=$out/usher-image-$version.tar
read -ra options <<< "${PUSH_OPTIONS:-}"
if [ ${#platforms[@]} -gt 1 ]; then buildah manifest push -q --all "${options[@]}" "$image" "oci-archive:$archive:$version"
else buildah push -q "${options[@]}" "$image" "oci-archive:$archive:$version"; fi

node release/provenance.ts "$out" "$version" "$REVISION" "$base" "${platforms[@]}"
(cd "$out" && sha256sum -- * > SHA256SUMS)
cat "$out/SHA256SUMS"
cat <<T
Nothing was pushed. Where it is to be published:
  npm publish --provenance --access public $out/usher-$version.tgz      (by a workflow that npm trusts; elsewhere without --provenance)
  skopeo copy --all oci-archive:$archive docker://REGISTRY/usher:$version
  helm push $out/usher-chart-$version.tgz oci://REGISTRY/charts
  cosign sign REGISTRY/usher@DIGEST && cosign attest --type slsaprovenance1 --predicate $out/provenance.intoto.json REGISTRY/usher@DIGEST
T
