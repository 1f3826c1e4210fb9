/**
 * Owns the checks on an organization's answer about a grant of its own, before anything follows from it.
 * Contract: "The organization's authority" (`/break-glass`, `/introspect`) and "What the service does": it
 * can allow one call, once, that the owner's own authority accepted.
 */
import { acceptsGrant } from '../../rules/organization/break-glass.ts'
import { verifyBreakGlassAcceptance, type BreakGlassAcceptance } from '../../wire/organization/break-glass.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { Refusal } from '../../wire/refusal.ts'
import { presentedRpt } from '../authorities/presented-rpt.ts'
import { within, type Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import {
  readIntrospection,
  type ExpectedGrant,
  type Introspection,
  type LiveGrant,
} from '../introspection.ts'
import { exceeded, type RouteOrganization } from './ceiling.ts'

/** A token at a route with an organization. `now` is in seconds since the epoch. */
export interface BreakGlassToken {
  token: string
  /** What the route expects of grants of the owner's own authority. */
  route: ExpectedGrant
  deadline: Deadline
  now: number
}

/**
 * Whether the token says that the organization made it. This is not verified yet: it only chooses between two
 * configured issuers, and each knows only its own tokens.
 */
export function isOfOrganization({ issuer }: Pick<RouteOrganization, 'issuer'>, token: string): boolean {
  try {
    return parseJws(token).payload['iss'] === issuer
  } catch {
    return false
  }
}

/**
 * Asks only the organization. Refuses 403 `organization_envelope_exceeded` for anything beyond one call that
 * the owner's authority accepted; throws `temporarily_unavailable` if the answer or the keys of that
 * authority cannot be fetched or read.
 */
export async function introspectBreakGlass(
  organization: RouteOrganization,
  { token, route, deadline, now }: BreakGlassToken,
): Promise<Introspection> {
  const { issuer, keys } = organization
  const answer = await organization.client.introspect(token, deadline)
  const reply: JsonObject = isJsonObject(answer) ? answer : {}
  if (reply['active'] === true && typeof reply['iss'] === 'string' && reply['iss'] !== issuer)
    throw exceeded('no_break_glass')
  const expected = { ...route, authority: issuer }
  const read = await readIntrospection(answer, expected, presentedRpt(token, { ...expected, keys }, deadline))
  if (!read.active) return read
  const accepted = await acceptance(organization, reply, { route, deadline, now })
  const { owner, jti, permissions, operation, single_use, key } = read.grant
  const presented = { owner, jti, permissions, operation, single_use, cnf_jkt: key.thumbprint }
  if (!acceptsGrant(accepted, presented)) throw exceeded('no_break_glass')
  const grant: LiveGrant = { ...read.grant, breakGlass: { exp: accepted.exp } }
  return { active: true, grant }
}

async function acceptance(
  { issuer, keys, acceptedTypAlias: typAlias }: RouteOrganization,
  reply: JsonObject,
  { route: { authority }, deadline, now }: Omit<BreakGlassToken, 'token'>,
): Promise<BreakGlassAcceptance> {
  const { break_glass } = reply
  const compact = isJsonObject(break_glass) ? break_glass['accepted'] : undefined
  if (typeof compact !== 'string') throw exceeded('no_break_glass')
  const url = authority + AUTHORITY_PATH.jwks
  const verify = async (): Promise<BreakGlassAcceptance> => {
    const { kid } = parseJws(compact).header
    const named = typeof kid === 'string' ? await keys.find(url, kid) : undefined
    const published = named === undefined ? await keys.keys(url) : [named]
    const expected = { authority, organization: issuer, now, typAlias }
    return verifyBreakGlassAcceptance(compact, published, expected)
  }
  return within(deadline, 'the keys of the authority', verify()).catch((cause: unknown) => {
    if (cause instanceof Refusal)
      throw cause.code === 'invalid_request' ? exceeded('no_break_glass', cause) : cause
    throw outage("The keys of the owner's authority could not be had.", cause)
  })
}
