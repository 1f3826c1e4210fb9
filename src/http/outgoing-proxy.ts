/**
 * Owns the proxy on the way out of the commands that people run. Contract: "What the service does": an agent
 * reaches its tools, and an owner her authority, from where she is. Servers do not use it: they check the
 * address that a name resolves to, and a proxy would resolve it again.
 */
import * as http from 'node:http'

/** This machine is reached without it, as each program that reads the variables is told to by hand. */
const NEVER_BY_PROXY = 'localhost,127.0.0.1,::1,[::1]'

const isHttp = (proxy: string): boolean => /^https?:$/.test(URL.parse(proxy)?.protocol ?? '')

interface Named {
  http_proxy?: string
  https_proxy?: string
  all_proxy?: string
  no_proxy?: string
}

/**
 * Has every request of this process go out as these say; `all_proxy` is for what has no variable of its own.
 * @returns what is not used and why, as a sentence; undefined if nothing is left out, or if no proxy is
 * named.
 */
export function useProxy({ all_proxy, no_proxy, ...own }: Named): string | undefined {
  // Node knows the star only where it stands alone, and we add this machine.
  if (no_proxy?.split(/[\s,]+/).includes('*') === true) return undefined
  for (const [name, proxy] of Object.entries(own))
    if (!isHttp(proxy))
      return `Give ${name.toUpperCase()} as the URL of a proxy, such as http://proxy.example.com:3128. No proxy is used.`
  const isComplete = own.http_proxy !== undefined && own.https_proxy !== undefined
  const fallback = isComplete || all_proxy === undefined ? undefined : all_proxy
  // Whoever names a SOCKS proxy there often names one for HTTPS beside it, which is enough.
  const unheeded = fallback !== undefined && !isHttp(fallback) ? SOCKS : undefined
  const used = unheeded === undefined && fallback !== undefined ? bothOf(fallback, own) : own
  if (Object.keys(used).length === 0) return unheeded
  // Node 22 has none.
  const use = (http as { setGlobalProxyFromEnv?: typeof http.setGlobalProxyFromEnv }).setGlobalProxyFromEnv
  if (use === undefined) return 'HTTPS_PROXY and HTTP_PROXY need Node 24.14 or later. No proxy is used.'
  use({ ...used, no_proxy: no_proxy === undefined ? NEVER_BY_PROXY : `${no_proxy},${NEVER_BY_PROXY}` })
  return own.https_proxy === undefined ? unheeded : undefined
}

const SOCKS =
  'ALL_PROXY is not used: it is no URL of an HTTP proxy, and no other kind is spoken here. Give HTTPS_PROXY, such as http://proxy.example.com:3128.'

function bothOf(all: string, own: Pick<Named, 'http_proxy' | 'https_proxy'>): Record<string, string> {
  return { http_proxy: all, https_proxy: all, ...own }
}
