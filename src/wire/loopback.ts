/**
 * Owns which hosts are this machine. Contract: "Authentication": tokens and signatures go only to https, and
 * in development to a literal loopback address. A name, including `localhost`, does not count, because a
 * resolver decides what it means.
 */

const IPV4 = /^127(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/

/** Whether a host is a literal loopback address (127.0.0.0/8 or ::1), as it is written in a URL or alone. */
export function isLoopbackHost(host: string): boolean {
  return host === '[::1]' || host === '::1' || IPV4.test(host)
}
