/**
 * Owns the words about a connection that failed: the cause, and what to do about it. Contract: "Owner API":
 * an unreachable API is distinguished from one that refuses.
 */

const CA_VARIABLE = 'NODE_EXTRA_CA_CERTS'
const UNKNOWN_CA = `its certificate is by a CA that is not known here. Name that CA in ${CA_VARIABLE}.`
const SILENT = 'the host does not answer. See to the network and the firewalls between.'

const WORDS: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'nothing listens there. Start it, or correct the host and the port.'],
  ['ENOTFOUND', 'no such host is known. Correct its name.'],
  ['EAI_AGAIN', 'the name of the host cannot be looked up now. See to DNS, or try again later.'],
  ['ECONNRESET', 'the connection was cut. Try again; if it stays so, check the proxies in between.'],
  ['UND_ERR_SOCKET', 'the connection was cut. Try again; if it stays so, check the proxies in between.'],
  ['ETIMEDOUT', SILENT],
  ['UND_ERR_CONNECT_TIMEOUT', SILENT],
  ['EHOSTUNREACH', SILENT],
  ['ENETUNREACH', SILENT],
  ['CERT_HAS_EXPIRED', 'its certificate has expired. Its operator must renew it.'],
  ['CERT_NOT_YET_VALID', 'its certificate is not valid yet. See to the clock of this machine.'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another name. Use the name that it is for.'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_CA],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_CA],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_CA],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_CA],
  ['EPROTO', 'it does not speak TLS there. Use its port for https, or http:// for a loopback host.'],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER',
    'it does not speak TLS there. Use its port for https, or http:// for a loopback host.',
  ],
  [
    'ERR_SSL_PACKET_LENGTH_TOO_LONG',
    'it does not speak TLS there. Use its port for https, or http:// for a loopback host.',
  ],
])

/**
 * Why `fetch` failed and the remedy, to be put after a colon; undefined for a cause that has no words of its
 * own. @param error what `fetch` threw. @param caSetting the setting that names a CA for such connections, if
 * there is one beside the variable for all.
 */
export function connectionWords(error: unknown, caSetting?: string): string | undefined {
  if (error instanceof Error && error.name === 'TimeoutError')
    return 'it did not answer in time. Try again later.'
  const refusal = refusalByProxy(error)
  if (refusal === 407)
    return 'the proxy on the way wants a log-in (407). Give it in the URL of the proxy, as in http://user:password@host:port.'
  if (refusal !== undefined)
    return `the proxy on the way does not lead there (${refusal}). See to its rules, or name the host in NO_PROXY.`
  const code = codeOf(error)
  const words = code === undefined ? undefined : WORDS.get(code)
  const ca = caSetting === undefined ? CA_VARIABLE : `${caSetting}, or in ${CA_VARIABLE}`
  return words?.replace('. ', ` (${code}). `).replace(CA_VARIABLE, ca)
}

const NO_TUNNEL = /^Proxy response \((\d{3})\) !== 200 when HTTP Tunneling$/

/**
 * The status by which a proxy refused to lead to a host of https, from what `fetch` threw; undefined for any
 * other failure. Nothing of the request was sent then: not even TLS was begun.
 */
export function refusalByProxy(error: unknown): number | undefined {
  for (let depth = 0, at = error; depth <= 3 && at instanceof Error; depth++, at = at.cause) {
    const [, status] = NO_TUNNEL.exec(at.message) ?? []
    if (status !== undefined) return Number(status)
  }
  return undefined
}

/** `fetch` wraps what the system said, once for each address of the host. */
function codeOf(error: unknown, depth = 0): string | undefined {
  if (typeof error !== 'object' || error === null || depth > 3) return undefined
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: unknown[] }
  if (typeof code === 'string' && WORDS.has(code)) return code
  const inner = Array.isArray(errors) ? errors : [cause]
  return inner.map(one => codeOf(one, depth + 1)).find(found => found !== undefined)
}
