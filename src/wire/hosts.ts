/**
 * Owns how long the name of a host may be. Contract: "Resources and their fields": a text of strangers is
 * bounded where it is read, so that it fits wherever it goes: an index, a header, a certificate.
 */

/** RFC 1035 section 2.3.4, without the dot of the root. */
const HOST_LENGTH_MAX = 253
const LABEL_LENGTH_MAX = 63

/** Whether a host, as it is written in a URL, is an address or a name that DNS allows. */
export function isPossibleHost(hostname: string): boolean {
  if (hostname.startsWith('[')) return true
  const name = hostname.replace(/\.$/, '')
  return (
    name.length <= HOST_LENGTH_MAX &&
    name.split('.').every(label => label.length >= 1 && label.length <= LABEL_LENGTH_MAX)
  )
}
