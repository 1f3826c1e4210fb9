/**
 * Owns what `usher doctor` checks for a witness: its database and certificate, that logs reach it, and the
 * keys by which others name it. docs/details/witness.md. Contract: "Events" (row 5), "Limits" (clocks).
 */
import type { WitnessConfig } from '../config.ts'
import { encodeVerifierKey } from '../wire/ledger/verifier-key.ts'
import { checkDoor } from './doors.ts'
import { COMPLETE, withOutbound, type Look } from './look.ts'
import { examineDatabases } from './servers.ts'
import { checkTakesHeads } from './witnesses.ts'

/** Its settings, database, clock, certificate, address and keys. */
export async function examineWitness(look: Look, read: () => WitnessConfig): Promise<void> {
  const config = await look('settings', read, COMPLETE)
  if (config === undefined) return
  const { issuer: url, name, keys, devLoopback, listen: address, tls } = config
  await examineDatabases(look, config, { party: 'witness', command: 'usher witness migrate' })
  if (tls !== undefined)
    await look('certificate', () =>
      checkDoor({ address, setting: 'UMA_WITNESS_TLS_CERT_FILE', tls: tls.initial }),
    )
  await withOutbound({ devLoopback }, async outbound => {
    await look(
      'address',
      () => checkTakesHeads(outbound, { url, setting: 'UMA_WITNESS_ISSUER' }),
      () => `${url} is reached, and takes the heads of logs`,
    )
  })
  const lines = keys.map(key => encodeVerifierKey({ name, type: 'cosignature', key }))
  await look('keys', () => `others name it ${lines.join(', ')}`)
}
