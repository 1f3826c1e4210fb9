# One image, one command, a subcommand per party:
#
#   docker build -t usher .
#   docker run usher authority      (settings: docs/configuration.md)
#   docker run usher sidecar --config /etc/usher/sidecar.yaml
#
# It holds Node, the bundle with the binaries of libsodium, the migrations and nothing else: no node_modules, and nothing that is written at run time, so it runs with a read-only
# root. The version of Node is that of package.json; a release names the base by its digest (release/image.sh). `usher dev` is not for this image.
ARG BASE=node:24.21.0-slim

# On the machine that builds, whatever the image is for: what is made here is text.
FROM --platform=$BUILDPLATFORM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No package's own commands: the bundler needs none.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json rolldown.config.js rolldown.console.config.js ./
COPY src src
# The bundle, and a list of the packages in it, which nobody could read from the bundle.
RUN node_modules/.bin/rolldown --config && \
  node_modules/.bin/rolldown --config rolldown.console.config.js --dir dist/console && \
  npm sbom --omit dev --package-lock-only --sbom-format cyclonedx > sbom.cdx.json

FROM ${BASE}
ARG BASE
ARG VERSION=0.0.0-dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="usher" \
  org.opencontainers.image.description="Owner-decided authorization for software agents: an Envoy ext_authz sidecar and its UMA 2.0 control plane." \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.base.name="${BASE}" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
# Every thread with a part of the heap of its own would keep what it freed; and so does the one heap, more than it needs, unless it is given a bound.
ENV NODE_ENV=production MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072
WORKDIR /app
COPY package.json LICENSE ./
COPY --from=build /app/sbom.cdx.json ./
COPY --from=build /app/dist/bin dist/bin
COPY --from=build /app/dist/console dist/console
COPY migrations dist/migrations
COPY proto dist/proto
# By number, so that a cluster can see that it is not root.
USER 1000:1000
# The process is its container's first: it handles SIGTERM itself and starts no children. Left to itself Node would take memory for a young
# generation that calls do not need, and mark the old one thrice a second to save a few MiB of it (docs/performance.md). How large that may grow,
# it takes from the container's limit.
ENTRYPOINT ["node", "--max-semi-space-size=8", "--heap-growing-percent=60", "/app/dist/bin/usher/cli.js"]
CMD ["--help"]
