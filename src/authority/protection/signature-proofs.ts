/**
 * Whether a resource server proved itself by a key that its resource publishes, read as its registration is.
 * Contract: "Authentication" (resource server at the token endpoint).
 */
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { createRateShares } from '../../limits/rate-shares.ts'
import { endFormerSecret } from '../../storage/authority/policies/operator-values.ts'
import { touchPatIssued } from '../../storage/authority/registry/resources.ts'
import type { SignatureProofs } from '../../surface/token/client-credentials.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Documents, Store } from '../context.ts'
import { PublicationFault } from '../registry/published-resources.ts'

/** For all that is fetched to judge one request. */
const FETCHING_MS_MAX = 3_000

/**
 * How often a wrong secret of one server is told. A sidecar asks again every few seconds, and anybody who
 * knows the name can send a wrong secret. So seldom, the time of an answer does not tell who is on record.
 */
const WRONG_SECRETS = { perMinute: 1, sourcesMax: 10_000 }

export function signatureProofs({
  database,
  publishers,
  log,
  now,
}: Signer & Store & Documents): SignatureProofs {
  const lines = createRateShares({ ...WRONG_SECRETS, clock: () => now() * 1_000 })
  return {
    async prove({ owner, client_id, resource_uri, status }, message) {
      const patience = { deadline: Date.now() + FETCHING_MS_MAX, favoured: status === 'active' }
      try {
        return await publishers.at<'proven'>(resource_uri, patience, async ({ published }, within) => {
          const document = await published.document(resource_uri, within)
          await verifyByPublishedKeys(message, published.keys(document, within), { now: now() })
          return 'proven'
        })
      } catch (cause) {
        if (!(cause instanceof Refusal || cause instanceof PublicationFault)) throw cause
        log.info({ owner, client_id, why: cause.message }, 'a resource server did not prove itself')
        return cause instanceof PublicationFault && cause.passing ? 'unread' : 'unproven'
      }
    },
    async issued({ owner, client_id, secret_sha256, former_secret_sha256: former }, bySecret) {
      const db = database.of(owner)
      await touchPatIssued(db, owner, client_id)
      if (!bySecret || secret_sha256 === null || former == null) return
      if (await endFormerSecret(db, { owner, client_id, secret_sha256 }))
        log.info({ owner, client_id }, 'the new client secret was used: the former one is no longer taken')
    },
    wrongSecret({ owner, client_id }) {
      if (lines.take(JSON.stringify([owner, client_id])) > 0) return
      log.warn(
        { owner, client_id },
        'a wrong client secret was sent: give its sidecar the secret of the provisioning file, or send this authority SIGHUP if the file has a newer one',
      )
    },
  }
}
