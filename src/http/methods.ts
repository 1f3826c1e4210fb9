/**
 * Owns the answer to "which methods does this path take?", so that a wrong method is 405 with `Allow` (RFC
 * 9110 §15.5.6) and not an unknown path. Contract: "Endpoints": each entry names one method.
 */
import type { FastifyInstance } from 'fastify'

/** Watches a server's routes as they are added, and returns the methods of those that match a raw path. */
export function trackRoutes(server: FastifyInstance): (path: string) => string[] {
  const methodsByPattern = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  server.addHook('onRoute', route => {
    const entry = methodsByPattern.get(route.url) ?? { pattern: routePattern(route.url), methods: new Set() }
    for (const method of [route.method].flat()) entry.methods.add(method)
    methodsByPattern.set(route.url, entry)
  })
  return path => {
    const matching = [...methodsByPattern.values()].filter(({ pattern }) => pattern.test(path))
    return [...new Set(matching.flatMap(({ methods }) => [...methods]))]
      .filter(method => method !== 'HEAD')
      .sort()
  }
}

function routePattern(url: string): RegExp {
  const parts = url.split('/').map(part => {
    if (part.startsWith(':')) return '[^/]+'
    return part === '*' ? '.*' : part.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  })
  return new RegExp(`^${parts.join('/')}$`)
}
