/**
 * Owns what `usher doctor` says about a listener with TLS, and about one that accepts only known clients.
 * Contract: "Authentication": TLS is the trust root between the parties.
 */
import { X509Certificate } from 'node:crypto'
import { formatListenAddress, type ListenAddress } from '../http/servers/listen-address.ts'
import { shownCertificate } from '../http/outbound/shown-certificate.ts'
import { connectionWords } from '../terminal/connection-words.ts'
import { Unwell } from './checks.ts'

const ANSWER_MS_MAX = 3_000

/** A listener, and the contents of its configuration; `setting` names where its certificate is configured. */
export interface Door {
  address: ListenAddress
  setting: string
  /** PEM; `ca` belongs to a listener that accepts only clients with a certificate. */
  tls: { cert: Buffer; ca?: Buffer }
}

/** The listener shows the configured certificate, and no certificate in its chain has expired. */
export async function checkDoor({ address, setting, tls: { cert, ca } }: Door): Promise<string> {
  const own = current(cert, `the certificate of ${setting}`)
  const clients = ca && current(ca, `the CA of clients beside ${setting}`)
  const at = formatListenAddress(address)
  const shown = await shownCertificate(address, ANSWER_MS_MAX).catch((cause: unknown) => {
    const words =
      connectionWords(cause) ?? `${(cause as Error).message}. Start it, or see what listens there.`
    throw new Unwell(`${at} shows no certificate: ${words}`, { cause })
  })
  if (shown.fingerprint256 !== own.fingerprint256)
    throw new Unwell(
      `${at} shows another certificate than ${setting} holds. See the log, if it was renewed and not taken over; else see what listens there.`,
    )
  const clientsText = clients === undefined ? '' : `, and takes clients of ${oneLine(clients.subject)}`
  return `${at} shows the certificate of ${setting}, good until ${day(own)}${clientsText}`
}

function current(pem: Buffer, what: string): X509Certificate {
  const certificate = new X509Certificate(pem)
  if (certificate.validToDate.getTime() <= Date.now())
    throw new Unwell(`${what} has expired (${day(certificate)}). Renew it: no restart is needed.`)
  return certificate
}

function day({ validToDate }: X509Certificate): string {
  return validToDate.toISOString().slice(0, 10)
}

function oneLine(subject: string): string {
  return subject.replaceAll('\n', ', ')
}
