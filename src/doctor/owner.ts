/**
 * Owns what `usher doctor` checks for an owner. Contract: "Owner API": she reaches it, and knows where.
 */
import type { ClientConfig } from '../config.ts'
import { WELL_KNOWN } from '../wire/names.ts'
import { checkReached, Unwell } from './checks.ts'
import { examinePeer, withOutbound, type Look } from './look.ts'

/** Her authority, and her API at its published address or at the one that she configured. */
export async function examineOwner(look: Look, read: () => ClientConfig): Promise<void> {
  const config = await look('settings', read, () => 'they can be read')
  if (config === undefined) return
  const { ownerIssuer, ownerApi, devLoopback } = config
  await withOutbound({ devLoopback }, async outbound => {
    const issuer = await look('issuer', () => ownerIssuer ?? missing('UMA_OWNER_ISSUER'))
    if (issuer === undefined) return
    const document = WELL_KNOWN.umaConfiguration
    const found = await examinePeer(look, outbound, {
      what: 'authority',
      issuer,
      document,
      setting: 'UMA_OWNER_ISSUER',
    })
    const published = found?.['owner_endpoint']
    const url = ownerApi ?? (typeof published === 'string' ? published : undefined)
    if (url !== undefined) await look('API', () => checkReached(outbound, { url, setting: 'UMA_OWNER_API' }))
  })
}

function missing(setting: string): never {
  throw new Unwell(`it is not named. Set ${setting} to the issuer of the authority.`)
}
