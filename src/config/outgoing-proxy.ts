/**
 * Owns the variables that name a proxy on the way out, in either case, as curl reads them. Contract: "What
 * the service does": an agent reaches its tools, and an owner her authority, from where she is.
 */
import type { ProxyVariables } from '../http/outbound/outgoing-proxy.ts'

/** Reads them. */
export function proxyVariables(environment: NodeJS.ProcessEnv = process.env): ProxyVariables {
  const names = ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'] as const
  const pairs = names.map(name => [name, environment[name] || environment[name.toUpperCase()]] as const)
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined && value !== ''))
}
