/**
 * Whether a resource server proved itself by a key: one that the provisioning file lists for it, or one that
 * its resource publishes, read as its registration is. Contract: "Authentication" (resource server at the
 * token endpoint).
 */
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { createRateShares } from '../../limits/rate-shares.ts'
import { endFormerProof } from '../../storage/authority/policies/operator-values.ts'
import { touchPatIssued } from '../../storage/authority/registry/resources.ts'
import type { ResourceServer } from '../../surface/resource-servers.ts'
import type { SignatureProofs } from '../../surface/token/client-credentials.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { SignedMessage } from '../../wire/signatures/http-signature.ts'
import { parseJwks, type PublicJwk } from '../../wire/signatures/keys.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Documents, Store } from '../context.ts'
import { PublicationFault } from '../registry/published-resources.ts'

/** For all that is fetched to judge one request. */
const FETCHING_MS_MAX = 3_000

/**
 * How often a wrong proof of one server is told. A sidecar asks again every few seconds, and anybody who
 * knows the name can send a wrong one. So seldom, the time of an answer does not tell who is on record.
 */
const WRONG_PROOFS = { perMinute: 1, sourcesMax: 10_000 }

const CURRENT = { secret: 'the new client secret', signature: 'a key of the provisioning file' } as const

/** What is wrong, and what to do, by what was sent and by what is on record. */
const WRONG = {
  secret: {
    secret:
      'a wrong client secret was sent: give its sidecar the secret of the provisioning file, or send this authority SIGHUP if the file has a newer one',
    signature:
      'a client secret was sent for a resource server that proves itself by its keys: write signature: true for it in the file of its sidecar, in place of the secret',
  },
  signature: {
    secret:
      'a signature was sent for a resource server that has a secret: write jwks for it in the provisioning file, in place of the secret, or give its sidecar the secret',
    signature:
      'a signature was sent that no key of the provisioning file made: list in jwks the key that its sidecar signs with (the first of keys_file), or send this authority SIGHUP if the file lists it already',
  },
} as const

export function signatureProofs({
  database,
  publishers,
  log,
  now,
}: Signer & Store & Documents): SignatureProofs {
  const lines = createRateShares({ ...WRONG_PROOFS, clock: () => now() * 1_000 })
  const wrong = ({ owner, client_id, auth }: ResourceServer, kind: ResourceServer['auth'], why?: string) => {
    if (lines.take(JSON.stringify([owner, client_id])) > 0) return
    log.warn({ owner, client_id, why }, WRONG[kind][auth])
  }
  /** Why none of these keys signed the message; undefined if one did. Nothing is fetched. */
  const faultOf = async (
    keys: readonly PublicJwk[] | null | undefined,
    message: SignedMessage,
  ): Promise<string | undefined> => {
    const listed = { keys: async () => parseJwks({ keys: keys ?? [] }), find: async () => undefined }
    try {
      await verifyByPublishedKeys(message, listed, { now: now() })
      return undefined
    } catch (cause) {
      if (!(cause instanceof Refusal)) throw cause
      return cause.message
    }
  }
  const proveByListed = async (
    server: ResourceServer,
    message: SignedMessage,
  ): Promise<'current' | 'former' | 'unproven'> => {
    const fault = await faultOf(server.client_keys, message)
    if (fault === undefined) return 'current'
    if ((await faultOf(server.former_keys, message)) === undefined) return 'former'
    wrong(server, 'signature', fault)
    return 'unproven'
  }
  return {
    async prove(server, message) {
      const { owner, client_id, resource_uri, status, client_keys, former_keys } = server
      if (client_keys != null || former_keys != null) return proveByListed(server, message)
      const patience = { deadline: Date.now() + FETCHING_MS_MAX, favoured: status === 'active' }
      try {
        return await publishers.at<'current'>(resource_uri, patience, async ({ published }, within) => {
          const document = await published.document(resource_uri, within)
          await verifyByPublishedKeys(message, published.keys(document, within), { now: now() })
          return 'current'
        })
      } catch (cause) {
        if (!(cause instanceof Refusal || cause instanceof PublicationFault)) throw cause
        log.info({ owner, client_id, why: cause.message }, 'a resource server did not prove itself')
        return cause instanceof PublicationFault && cause.passing ? 'unread' : 'unproven'
      }
    },
    async issued(server, byCurrent) {
      const { owner, client_id, former_secret_sha256, former_keys } = server
      const db = database.of(owner)
      await touchPatIssued(db, owner, client_id)
      if (!byCurrent || (former_secret_sha256 == null && former_keys == null)) return
      if (await endFormerProof(db, server))
        log.info(
          { owner, client_id },
          `${CURRENT[server.auth]} was used: what it replaced is no longer taken`,
        )
    },
    wrongProof: wrong,
  }
}
