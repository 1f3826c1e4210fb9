/**
 * Owns the answer to "which methods does this path take?", so that a wrong method is 405 with `Allow` (RFC
 * 9110 §15.5.6) and not an unknown path; and to "may a page of any origin read what is there?". Contract:
 * "Endpoints": each entry names one method.
 */
import type { FastifyInstance } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a GET answers here is everybody's, also a page's of any origin. */
    anyOrigin?: boolean
  }
}

/** What the routes of a raw path take. */
export interface PathRoutes {
  methods: string[]
  anyOrigin: boolean
}

interface PathMethods {
  pattern: RegExp
  methods: Set<string>
  anyOrigin: boolean
}

/** Watches a server's routes as they are added, and returns what those take that match a raw path. */
export function trackRoutes(server: FastifyInstance): (path: string) => PathRoutes {
  const entries = new Map<string, PathMethods>()
  server.addHook('onRoute', route => {
    const entry = entries.get(route.url) ?? {
      pattern: routePattern(route.url),
      methods: new Set<string>(),
      anyOrigin: false,
    }
    for (const method of [route.method].flat()) entry.methods.add(method)
    entry.anyOrigin ||= route.config?.anyOrigin === true
    entries.set(route.url, entry)
  })
  return path => {
    const matching = [...entries.values()].filter(({ pattern }) => pattern.test(path))
    const methods = new Set(matching.flatMap(one => [...one.methods]))
    return {
      methods: [...methods].filter(method => method !== 'HEAD').sort(),
      anyOrigin: matching.some(one => one.anyOrigin),
    }
  }
}

function routePattern(url: string): RegExp {
  const parts = url.split('/').map(part => {
    if (part.startsWith(':')) return '[^/]+'
    return part === '*' ? '.*' : part.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  })
  return new RegExp(`^${parts.join('/')}$`)
}
