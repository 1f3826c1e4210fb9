/**
 * Owns reading the certificate that a listener shows, without a request. Contract: "Authentication": TLS is
 * the trust root between the parties.
 */
import type { X509Certificate } from 'node:crypto'
import { connect } from 'node:tls'
import type { ListenAddress } from '../servers/listen-address.ts'

/**
 * The certificate that is shown at `address`, whoever signed it. It is shown before the listener asks for one
 * of ours, so a door that takes only known clients is looked at the same way.
 * @throws what the connection met: nothing listens there, no TLS, or no answer in time.
 */
export function shownCertificate(address: ListenAddress, timeoutMs: number): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    // Looked at, never trusted: nothing is sent.
    const socket = connect({ ...address, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error('it did not answer in time')))
    socket.on('error', reject)
    socket.on('secureConnect', () => {
      const shown = socket.getPeerX509Certificate()
      socket.destroy()
      if (shown === undefined) reject(new Error('it shows no certificate'))
      else resolve(shown)
    })
  })
}
