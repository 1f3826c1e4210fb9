# One image, one command, a subcommand per party:
#
#   docker build -t usher .
#   docker run usher authority      (settings: docs/configuration.md)
#   docker run usher sidecar --config /etc/usher/sidecar.yaml
#
# The version of Node is that of package.json. `usher dev` is not for this image: it needs the devDependencies.
FROM node:24.21.0-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json rolldown.config.js ./
COPY src src
COPY migrations migrations
COPY proto proto
COPY envoy envoy
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM node:24.21.0-slim
# Every thread with a part of the heap of its own would keep what it freed.
ENV NODE_ENV=production MALLOC_ARENA_MAX=2
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY LICENSE ./
# By number, so that a cluster can see that it is not root.
USER 1000:1000
# The process is its container's first: it handles SIGTERM itself and starts no children. Left to itself Node would take memory for a young
# generation that calls do not need, and mark the old one thrice a second to save a few MiB of it (docs/performance.md). How large that may grow,
# it takes from the container's limit.
ENTRYPOINT ["node", "--max-semi-space-size=8", "--heap-growing-percent=60", "/app/dist/bin/usher/cli.js"]
CMD ["--help"]
