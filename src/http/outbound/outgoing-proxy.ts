/**
 * Owns the proxy on the way out of the commands that people run. Contract: "What the service does": an agent
 * reaches its tools, and an owner her authority, from where she is. Servers do not use it: they check the
 * address that a name resolves to, and a proxy would resolve it again.
 */
import * as http from 'node:http'
import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'

/** This machine is reached without it, as each program that reads the variables is told to by hand. */
const NEVER_BY_PROXY = 'localhost,127.0.0.1,::1,[::1]'

const isHttp = (proxy: string): boolean => /^https?:$/.test(URL.parse(proxy)?.protocol ?? '')

/** The proxies that the environment names; a variable that is empty is left out. */
export interface ProxyVariables {
  http_proxy?: string
  https_proxy?: string
  /** For requests whose own variable names none. */
  all_proxy?: string
  no_proxy?: string
}

/**
 * Has every request of this process go out as these say; `all_proxy` is for what has no variable of its own.
 * @returns what is not used and why, in sentences; undefined if nothing is left out, or if no proxy is named.
 */
export function useProxy({ all_proxy, no_proxy, ...own }: ProxyVariables): string | undefined {
  // Node knows the star only where it stands alone, and we add this machine.
  const exempt = no_proxy?.split(/[\s,]+/).filter(entry => entry !== '') ?? []
  if (exempt.includes('*')) return undefined
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
  const ranges = exempt.filter(isRange)
  use({ ...used, no_proxy: [...exempt.map(asCompared), NEVER_BY_PROXY].join() })
  const warnings = [
    own.https_proxy === undefined ? (unheeded ?? []) : [],
    ranges.length === 0 ? [] : RANGES(ranges),
  ]
  return warnings.flat().join(' ') || undefined
}

/** A network, or a range from one address to another. */
const isRange = (entry: string): boolean =>
  /^[\d.:a-f[\]]+\/\d+$/i.test(entry) || /^[\d.]+-[\d.]+$/.test(entry)

const RANGES = (ranges: readonly string[]): string =>
  `${ranges.join(', ')} in NO_PROXY is not used: no address is compared with a range here. Name each host, or .example.com for all below a name.`

/**
 * An entry of NO_PROXY, which Node compares as text, as the host of a URL is spelt: without the full stop
 * that ends a name, in ASCII, an IPv6 address short and in brackets.
 */
function asCompared(entry: string): string {
  if (isIP(entry) === 6) return URL.parse(`http://[${entry}]`)?.hostname ?? entry
  const [, before = '', name = '', port = ''] = /^(\*?\.?)(.*?)\.?(:\d+)?$/.exec(entry) ?? []
  return `${before}${domainToASCII(name) || name}${port}`
}

const SOCKS =
  'ALL_PROXY is not used: it is no URL of an HTTP proxy, and no other kind is spoken here. Give HTTPS_PROXY, such as http://proxy.example.com:3128.'

function bothOf(
  all: string,
  own: Pick<ProxyVariables, 'http_proxy' | 'https_proxy'>,
): Record<string, string> {
  return { http_proxy: all, https_proxy: all, ...own }
}
