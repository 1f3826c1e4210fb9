/**
 * Owns which hosts are this machine. Contract: "Authentication": tokens and signatures go to https alone, and
 * in development to a literal loopback address. A name, `localhost` among them, is what a resolver makes of
 * it, and is none.
 */

const IPV4 = /^127(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/

/** Whether a host is a literal loopback address (127.0.0.0/8 or ::1), as it stands in a URL or alone. */
export function isLoopbackHost(host: string): boolean {
  return host === '[::1]' || host === '::1' || IPV4.test(host)
}
