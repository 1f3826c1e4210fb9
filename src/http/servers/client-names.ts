/**
 * Owns which certificates of a client CA may connect, by the names in them. Contract: "Resource server
 * enforcement point" (`/check` is for the gateway). It knows no party.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** Who may connect, beside having a certificate of the CA. */
export interface ClientNames {
  /** One of them must be in the certificate, as a DNS name or a URI. */
  readonly allowed: readonly string[]
  /** Told of the names in a certificate that has none of them. */
  readonly onStranger: (names: readonly string[]) => void
}

/**
 * Whether the client's certificate, which was verified before, has one of the names; if not, the connection
 * is cut, and nothing that it sent is read. A common name counts for nothing, and `*` is no wildcard here.
 */
export function admits(socket: Socket, { allowed, onStranger }: ClientNames): boolean {
  const names = socket instanceof TLSSocket ? namesIn(socket.getPeerX509Certificate()?.subjectAltName) : []
  if (names.some(name => allowed.includes(name))) return true
  onStranger(names)
  socket.destroy()
  return false
}

/** A name in lower case if it is a host's, because those are compared so. */
export function clientName(text: string): string {
  return text.includes('://') ? text : text.toLowerCase()
}

/** Node writes a value with a special character in it as a JSON string, so that no name can hold another. */
const ENTRY = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?=, |$)/gy

/**
 * The DNS names and URIs of a subjectAltName, as Node prints it. None at all if any part of it cannot be
 * read.
 */
function namesIn(subjectAltName = ''): string[] {
  const entries = [...subjectAltName.matchAll(ENTRY)]
  const length = entries.reduce((sum, [whole]) => sum + whole.length, 0)
  if (length !== subjectAltName.length) return []
  return entries.flatMap(([, kind, value = '']) =>
    (kind === 'DNS' || kind === 'URI') && !value.startsWith('"') ? [clientName(value)] : [],
  )
}
