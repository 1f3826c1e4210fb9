/**
 * The owner's page on the listener of the owner API: built files under one strict content policy, and what
 * the page must know to sign, or to log in at her realm. Contract: "Owner API", "Authentication"; it speaks
 * the owner API and nothing else.
 */
import { z } from 'zod'
import type { Realm } from '../../credentials/oidc.ts'
import { RealmUnreachable, type RealmEndpoints } from '../../credentials/realm-keys.ts'
import { answerConsole, CONSOLE_FILES, type ConsoleFile, type ConsolePath } from '../../files/console.ts'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import { publicJwk, type PublicKey } from '../../wire/signatures/keys.ts'
import type { RelyingParty } from '../../wire/passkeys/relying-party.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'

/** The files, and the address that signatures cover. */
export interface ConsolePage {
  issuer: string
  /** The endpoints that the realm publishes. */
  keys: readonly PublicKey[]
  /** Those of the log; none if ledgers are not signed. */
  logKeys: readonly PublicKey[]
  files: Record<ConsolePath, ConsoleFile>
  deviceKeys: boolean
  relyingParty: () => RelyingParty | undefined
  /** The realm and the public client by which the page lets her log in; if undefined, it does not. */
  login: ConsoleLogin | undefined
}

export interface ConsoleLogin {
  realm: Pick<Realm, 'issuer' | 'endpoints'>
  clientId: string
  scope: string
  audience: string
}

/** A page that loads waits no longer than this for a realm, and then says that the realm does not answer. */
const REALM_MS_MAX = 2_000

const text = z.string()
const SETTINGS: z.ZodType<ConsoleSettings> = z.strictObject({
  signs: z.enum(['page', 'server']),
  issuer: text,
  device_keys: z.boolean(),
  passkeys: z.strictObject({ rp_id: text, origins: text.array() }).optional(),
  log_keys: z.looseObject({}).array().optional(),
  realm: z
    .union([
      z.strictObject({
        issuer: text,
        client_id: text,
        scope: text,
        resource: text.optional(),
        authorization_endpoint: text,
        token_endpoint: text,
      }),
      z.strictObject({ issuer: text, unreachable: z.literal(true) }),
    ])
    .optional(),
})

const ADDED = { addedUnder: 'Owner API' }

/** Nobody needs a credential to load the page, because it contains nothing about anybody. */
export const CONSOLE: readonly Endpoint<ConsolePage>[] = [
  ...(Object.keys(CONSOLE_FILES) as ConsolePath[]).map(fileEndpoint),
  endpoint({
    method: 'get',
    path: AUTHORITY_PATH.jwks,
    rows: ADDED,
    summary: 'The keys that the authority publishes, here too: the page asks nobody but its own server',
    answers: { 200: { says: 'A JWK set.', schema: z.object({ keys: z.array(z.looseObject({})) }) } },
    handle: async ({ keys }: ConsolePage, { answer }) =>
      answer(200, { keys: keys.map(key => ({ ...publicJwk(key) })) }),
  }),
  endpoint({
    method: 'get',
    path: '/console.json',
    rows: ADDED,
    summary:
      'What the page has to know: who signs, the issuer whose scheme and authority are signed over, and where she may log in',
    answers: { 200: { says: 'Its settings.', schema: SETTINGS } },
    handle: async ({ issuer, deviceKeys, relyingParty, logKeys, login }: ConsolePage, { answer }) => {
      const { rp_id, origins } = relyingParty() ?? {}
      return answer(200, {
        signs: 'page',
        issuer,
        device_keys: deviceKeys,
        ...(rp_id !== undefined && origins !== undefined && { passkeys: { rp_id, origins: [...origins] } }),
        ...(logKeys.length > 0 && { log_keys: logKeys.map(key => ({ ...publicJwk(key) })) }),
        ...(login && (await realmOf(login))),
      })
    },
  }),
]

function fileEndpoint(path: ConsolePath): Endpoint<ConsolePage> {
  const { type } = CONSOLE_FILES[path]
  return endpoint({
    method: 'get',
    path,
    rows: ADDED,
    summary: path === '/' ? 'The page of the owner' : `A file of the page of the owner (${path.slice(1)})`,
    reads: { 'if-none-match': 'Answered 304 if the file has not changed.' },
    answers: { 200: { says: 'The file, as it was built.', type }, 304: { says: 'As it was.' } },
    handle: async ({ files, login }: ConsolePage, { request, answer }) => {
      // The policy of the document is the one that counts.
      const endpoints = path === '/' && login !== undefined ? await endpointsOf(login) : undefined
      const { status, headers, body } = answerConsole(files[path], {
        acceptEncoding: request.headers['accept-encoding']?.toString(),
        ifNoneMatch: request.headers['if-none-match'],
        connects: endpoints === undefined ? [] : [new URL(endpoints.token).origin],
      })
      return answer(status, body, headers)
    },
  })
}

async function realmOf(login: ConsoleLogin): Promise<Pick<ConsoleSettings, 'realm'>> {
  const { clientId: client_id, scope, audience } = login
  const { issuer } = login.realm
  const endpoints = await endpointsOf(login)
  if (endpoints === undefined) return { realm: { issuer, unreachable: true } }
  const { authorization: authorization_endpoint, token: token_endpoint } = endpoints
  // RFC 8707: a resource is a URL. Realms that use other names choose the audience by the scope.
  const resource = audience.startsWith('https://') ? { resource: audience } : {}
  return { realm: { issuer, client_id, scope, ...resource, authorization_endpoint, token_endpoint } }
}

/** Undefined if the realm does not answer in time. The next caller finds an answer that came later. */
async function endpointsOf({ realm }: ConsoleLogin): Promise<RealmEndpoints | undefined> {
  try {
    const found = await waitAtMost(REALM_MS_MAX, realm.endpoints())
    return found === LATE ? undefined : found
  } catch (error) {
    if (error instanceof RealmUnreachable) return undefined
    throw error
  }
}
