/**
 * Measures a whole negotiation of an agent that the owner knows, beats 1 to 4 at the authority: a ticket for
 * the resource server (/perm), the terms for it, the signed agreement, the grant with its receipt.
 */
import { Agent } from 'undici'
import { signAgreement } from '../../src/wire/negotiation/agreement.ts'
import { parseJson, type JsonObject } from '../../src/wire/json.ts'
import { importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { DEFAULT_SPEC_NS, GRANT_TYPE_UMA_TICKET, specNames } from '../../src/wire/names.ts'
import { offeredTerms, parseGrantAnswer, parseNeedInfo } from '../../src/wire/negotiation/negotiation.ts'
import type { Scenario, Share, WorldOfOwner } from '../world.ts'

const { agreementFormat } = specNames(DEFAULT_SPEC_NS)

export const negotiation: Scenario = {
  name: 'negotiation',
  title: 'whole negotiation, known agent',
  processes: 2,
  reported: false,
  open: async (world, share) => {
    const authority = await openAuthority(world, share)
    const keys = world.agents.map(({ jwk }) => importPrivateJwk(jwk))
    let sent = 0
    return {
      prepare: async () => {},
      next: () => authority.negotiate(keys[sent++ % keys.length]!).then(() => undefined),
    }
  },
}

export interface AuthorityDoor {
  /**
   * Beats 1 to 4 for the resource, with the operation if its tier asks for one. Returns the RPT; rejects with
   * `Unexpected` if anything else is answered. `onGrant` gets the milliseconds of the last request, which
   * presents the agreement at `/token` and is answered with the grant.
   */
  negotiate(key: PrivateKey, operation?: AgreedOperation, onGrant?: (ms: number) => void): Promise<string>
  /** The same but for the last request, which the answer sends; that returns the RPT. */
  agree(key: PrivateKey, operation?: AgreedOperation): Promise<() => Promise<string>>
  /** One poll of what waits; likewise. */
  poll(ticket: string): Promise<string>
  close(): Promise<void>
}

/** What an agreement at a tier that asks per operation is about. */
export interface AgreedOperation {
  tool: string
  params: JsonObject
}

/** The answer in place of the expected one. */
export class Unexpected extends Error {
  readonly status: number
  /** Its `error`, if the answer is JSON that has one. */
  readonly code: string
  /** With which it is asked again; empty if there is none. */
  readonly ticket: string
  constructor(path: string, status: number, text: string) {
    super(`${path} answered ${status} ${text}`)
    this.status = status
    this.code = /"error":"(\w+)"/.exec(text)?.[1] ?? ''
    this.ticket = /"ticket":"([^"]+)"/.exec(text)?.[1] ?? ''
  }
}

/** Opens connections to the authority, and fetches the PAT that the resource server has in beat 1. */
export async function openAuthority(
  world: WorldOfOwner,
  { inFlight }: Share,
  resource = 'portfolio',
): Promise<AuthorityDoor> {
  const http = new Agent({ connections: inFlight, pipelining: 1, keepAliveTimeout: 60_000 })
  const post = async (path: string, body: object | URLSearchParams, status: number, pat?: string) => {
    const form = body instanceof URLSearchParams
    const answer = await http.request({
      origin: world.issuer,
      path,
      method: 'POST',
      headers: {
        'content-type': form ? 'application/x-www-form-urlencoded' : 'application/json',
        ...(pat === undefined ? {} : { authorization: `Bearer ${pat}` }),
      },
      body: form ? body.toString() : JSON.stringify(body),
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
    })
    const text = await answer.body.text()
    if (answer.statusCode !== status) throw new Unexpected(path, answer.statusCode, text)
    return parseJson(text)
  }
  const present = (fields: Record<string, string>, status: number) =>
    post('/token', new URLSearchParams({ grant_type: GRANT_TYPE_UMA_TICKET, ...fields }), status)
  const { owner, clientId: client_id, clientSecret: client_secret } = world
  const credentials = {
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner,
    client_id,
    client_secret,
  }
  const { access_token: pat } = (await post('/token', new URLSearchParams(credentials), 200)) as {
    access_token: string
  }
  const wanted = { resource_id: `${owner}/${resource}`, resource_scopes: ['read'] }
  const agree = async (key: PrivateKey, operation?: AgreedOperation): Promise<() => Promise<string>> => {
    const { ticket } = (await post('/perm', wanted, 201, pat)) as { ticket: string }
    const needed = parseNeedInfo(await present({ ticket }, 403))
    const template = offeredTerms(needed, DEFAULT_SPEC_NS)!
    const iat = Math.floor(Date.now() / 1_000)
    const claim_token = signAgreement({ template, aud: world.issuer, iat, operation }, key)
    const agreed = { ticket: needed.ticket, claim_token, claim_token_format: agreementFormat }
    return async () => parseGrantAnswer(await present(agreed, 200)).access_token
  }
  return {
    agree,
    negotiate: async (key, operation, onGrant) => {
      const presented = await agree(key, operation)
      const from = performance.now()
      const rpt = await presented()
      onGrant?.(performance.now() - from)
      return rpt
    },
    poll: async ticket => parseGrantAnswer(await present({ ticket }, 200)).access_token,
    close: () => http.close(),
  }
}
