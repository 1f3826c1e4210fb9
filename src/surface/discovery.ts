/**
 * What anybody may know of an authorization server: its metadata, its keys, and that it signs nobody in.
 * Contract: "Owner's authorization server: public", "Authorization server metadata members".
 */
import { z } from 'zod'
import { ANY_ORIGIN } from '../http/servers/any-origin.ts'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import type { JsonObject } from '../wire/json.ts'
import { publicJwk } from '../wire/signatures/keys.ts'
import { ALIAS, AUTHORITY_PATH, WELL_KNOWN } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import type { Issuer } from './issuer.ts'

/** How long others keep what they fetched here. */
const headers = { 'cache-control': 'public, max-age=300', ...ANY_ORIGIN }

export interface Discovery {
  issuer: Pick<Issuer, 'keys' | 'aliases'>
  /** What the party offers. */
  metadata: JsonObject
}

const METADATA = z.looseObject({ issuer: z.string(), jwks_uri: z.string() })

/** The well-known paths (one document) and the keys. */
export const DISCOVERY: readonly Endpoint<Discovery>[] = [
  metadataAt(WELL_KNOWN.agentsConfiguration, ['get-agents-configuration']),
  metadataAt(WELL_KNOWN.umaConfiguration, { addedUnder: 'Authorization server metadata members' }),
  metadataAt(WELL_KNOWN.oauthConfiguration, { addedUnder: 'Authorization server metadata members' }),
  metadataAt(ALIAS.configuration, { addedUnder: 'Authorization server metadata members' }, ({ issuer }) => {
    if (!issuer.aliases.includes(ALIAS.configuration)) refuse('not_found', 'Nothing is served at this path.')
  }),
  endpoint({
    method: 'get',
    path: AUTHORITY_PATH.authorize,
    rows: { addedUnder: 'Authorization server metadata members' },
    summary: 'Says to whoever was sent here by a client of OAuth alone what to do',
    // Whatever such a client asks for, the answer is the same.
    query: z.looseObject({}),
    answers: {},
    handle: async () =>
      refuse(
        'invalid_request',
        'Nobody is let in here by signing in: the owner lets agents in on terms that they sign (UMA 2.0). Connect this client by `usher agent bridge <resource>`, or use a client that speaks UMA 2.0.',
      ),
  }),
  endpoint({
    method: 'get',
    path: AUTHORITY_PATH.jwks,
    rows: ['get-jwks'],
    summary: 'Signing keys for RPTs, receipts and PATs',
    answers: {
      200: { says: 'A JWK set.', schema: z.object({ keys: z.array(z.looseObject({})) }), headers },
    },
    handle: async ({ issuer }: Discovery, { answer }) =>
      answer(200, { keys: issuer.keys.map(key => ({ ...publicJwk(key) })) }),
  }),
]

function metadataAt(
  path: string,
  rows: Endpoint<Discovery>['rows'],
  first: (of: Discovery) => void = () => {},
): Endpoint<Discovery> {
  return endpoint({
    method: 'get',
    path,
    rows,
    summary: 'Authorization server metadata',
    first,
    answers: { 200: { says: 'The metadata.', schema: METADATA, headers } },
    handle: async ({ metadata }: Discovery, { answer }) => answer(200, metadata as z.output<typeof METADATA>),
  })
}
