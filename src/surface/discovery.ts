/**
 * What anybody may know of an authorization server: its metadata and its keys.
 * Contract: "Owner's authorization server: public", "Authorization server metadata members".
 */
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { JsonObject } from '../wire/json.ts'
import { publicJwk } from '../wire/keys.ts'
import { AUTHORITY_PATH, WELL_KNOWN } from '../wire/names.ts'
import type { Issuer } from './issuer.ts'

/** As long as others keep what they fetched here. */
const KEPT = 'public, max-age=300'

/** Registers both well-known paths (one document) and /jwks. `metadata` is what the party offers. */
export function registerDiscovery(
  app: FastifyInstance,
  { keys }: Pick<Issuer, 'keys'>,
  metadata: JsonObject,
): void {
  const jwks = { keys: keys.map(key => publicJwk(key)) }
  const kept = (body: object) => (_request: unknown, reply: FastifyReply) =>
    reply.header('cache-control', KEPT).header('access-control-allow-origin', '*').send(body)
  app.get(WELL_KNOWN.agentsConfiguration, kept(metadata))
  app.get(WELL_KNOWN.umaConfiguration, kept(metadata))
  app.get(AUTHORITY_PATH.jwks, kept(jwks))
}
