/**
 * Owns what `usher doctor` checks for an owner. Contract: "Owner API": she reaches it, and knows where.
 */
import type { ClientConfig } from '../config.ts'
import { WELL_KNOWN } from '../wire/names.ts'
import { checkOwnerApi, publishedOwnerApi, Unwell } from './checks.ts'
import { examinePeer, withOutbound, type Look } from './look.ts'

const API_SETTING = 'UMA_OWNER_API'

/**
 * Her authority, and her API at its published address or at the one that she configured. If she names no
 * authority, `localIssuer` is that of the authority whose settings are beside hers, if there is one.
 */
export async function examineOwner(
  look: Look,
  read: () => ClientConfig,
  localIssuer: () => string | undefined,
): Promise<void> {
  const config = await look('settings', read, () => 'they can be read')
  if (config === undefined) return
  const { ownerIssuer, ownerApi, devLoopback } = config
  await withOutbound({ devLoopback }, async outbound => {
    const authority = ownerIssuer ?? localIssuer()
    const setting =
      ownerIssuer === undefined && authority !== undefined ? 'UMA_AS_ISSUER' : 'UMA_OWNER_ISSUER'
    const issuer = await look('issuer', () => authority ?? missing(setting))
    if (issuer === undefined) return
    const document = WELL_KNOWN.umaConfiguration
    const found = await examinePeer(look, outbound, {
      what: 'authority',
      issuer,
      document,
      setting,
    })
    const api = ownerApi ?? (found && publishedOwnerApi(found))
    const remedy =
      ownerApi === undefined
        ? 'The operator of the authority lets /owner lead there to UMA_AS_OWNER_LISTEN, or names in UMA_AS_OWNER_URL where it is.'
        : `Correct ${API_SETTING}, which is the address before /owner, or leave it out: the authority publishes its own.`
    if (api !== undefined)
      await look('API', () => checkOwnerApi(outbound, { api, setting: API_SETTING, remedy }))
  })
}

function missing(setting: string): never {
  throw new Unwell(`it is not named. Set ${setting} to the issuer of the authority.`)
}
