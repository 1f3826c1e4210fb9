/**
 * Owns the proxy on the way out of the commands that people run. Contract: "What the service does": an agent
 * reaches its tools, and an owner her authority, from where she is. Servers do not use it: they check the
 * address that a name resolves to, and a proxy would resolve it again.
 */
import * as http from 'node:http'

/** This machine is reached without it, as each program that reads the variables is told to by hand. */
const NEVER_BY_PROXY = 'localhost,127.0.0.1,::1,[::1]'

/**
 * Has every request of this process go out as these say. @returns why it cannot, as a sentence; undefined if
 * it does, or if no proxy is named.
 */
export function useProxy(named: {
  http_proxy?: string
  https_proxy?: string
  no_proxy?: string
}): string | undefined {
  const { http_proxy, https_proxy, no_proxy } = named
  if (http_proxy === undefined && https_proxy === undefined) return undefined
  for (const [name, proxy] of Object.entries({ http_proxy, https_proxy }))
    if (proxy !== undefined && !/^https?:$/.test(URL.parse(proxy)?.protocol ?? ''))
      return `Give ${name.toUpperCase()} as the URL of a proxy, such as http://proxy.example.com:3128. No proxy is used.`
  // Node 22 has none.
  const use = (http as { setGlobalProxyFromEnv?: typeof http.setGlobalProxyFromEnv }).setGlobalProxyFromEnv
  if (use === undefined) return 'HTTPS_PROXY and HTTP_PROXY need Node 24.14 or later. No proxy is used.'
  use({ ...named, no_proxy: no_proxy === undefined ? NEVER_BY_PROXY : `${no_proxy},${NEVER_BY_PROXY}` })
  return undefined
}
