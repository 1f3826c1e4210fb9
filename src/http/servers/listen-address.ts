/**
 * Owns the text form of an address to listen on. Contract: "Owner's authorization server: public": every
 * listener is configured by one line, `host:port`, `[v6]:port` or `unix:/path`.
 */
import { isIP } from 'node:net'
import { isLoopbackHost } from '../../wire/loopback.ts'

export type ListenAddress = { host: string; port: number } | { path: string }

/**
 * Reads `127.0.0.1:9100`, `[::1]:9100`, `localhost:0` or `unix:/run/check.sock`; undefined if it is none
 * of these.
 */
export function parseListenAddress(text: string): ListenAddress | undefined {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length)
    return path.startsWith('/') ? { path } : undefined
  }
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):(\d{1,5})$/i.exec(text)
  if (match === null) return undefined
  const [, v6, name, digits] = match
  const port = Number(digits)
  if (port > 65_535 || (v6 !== undefined && isIP(v6) !== 6)) return undefined
  return { host: v6 ?? name!, port }
}

/** The text that `parseListenAddress` reads back. */
export function formatListenAddress(address: ListenAddress): string {
  if ('path' in address) return `unix:${address.path}`
  return `${isIP(address.host) === 6 ? `[${address.host}]` : address.host}:${address.port}`
}

/** Whether only this machine can reach it: a Unix socket or a literal loopback address. */
export function isLocalAddress(address: ListenAddress): boolean {
  return 'path' in address || isLoopbackHost(address.host)
}
