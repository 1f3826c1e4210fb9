/**
 * Checks who acts at `/org/admin/{owner}/...`: an administrator of the owner's organization, with a token
 * that the organization signed for this one request. Contract: "Authentication" (organization notice:
 * verified against published keys), "Organization membership, on the member's authorization server".
 */
import type { FastifyRequest } from 'fastify'
import type { Credential } from '../../http/servers/endpoint.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { readMembership, type Membership } from '../../storage/authority/membership/membership.ts'
import { lockQueue, readOwner, spendSignature } from '../../storage/authority/owners/owners.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Actor } from '../../wire/owner/actor.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import {
  ORGANIZATION_ADMIN_SECONDS,
  organizationAdminIssuer,
  verifyOrganizationAdmin,
  type OrganizationAdminClaims,
} from '../../wire/organization/organization-admin.ts'
import { ALIAS, aliasIn } from '../../wire/names.ts'
import { Refusal, refuse, refusingAs } from '../../wire/refusal.ts'
import type { Issuer } from '../../surface/issuer.ts'
import type { Documents, Limits, Store } from '../context.ts'
import { asRefused } from './membership.ts'

/** How long a token is remembered after its end, because the clocks of replicas differ. */
const TOKEN_RETENTION_SECONDS = 3 * ORGANIZATION_ADMIN_SECONDS

const CHALLENGE = { headers: { 'www-authenticate': 'Bearer realm="organization", error="invalid_token"' } }

/** What administrators' requests need; `ownerUrl` is the address under which `/org/admin` is published. */
export interface Administered extends Issuer, Store, Documents, Limits {
  ownerUrl(): string
}

/** An administrator, for one request about one member. */
export interface OrganizationAdministrator {
  readonly owner: Owner
  readonly claims: OrganizationAdminClaims
}

export const ORGANIZATION_ADMINISTRATOR: Credential<Administered, OrganizationAdministrator> = {
  names: ['organization_admin'],
  refusal: 'invalid_token',
  async admit(api, request, run) {
    const claims = await proven(api, request)
    const { sub: owner } = claims
    const { owner: named } = request.params as { owner?: string }
    if (named !== owner) refuse('invalid_token', 'Get a token for this owner: its sub is another.', CHALLENGE)
    const db = api.database.of(owner)
    if ((await readOwner(db, owner)) === undefined)
      refuse('not_found', 'This server has no owner of that name.')
    await standingMembership(db, claims)
    return run({ owner, claims })
  },
}

/**
 * Refuses 401 if no listed organization signed the token for this request; 503 if the keys cannot be fetched.
 */
async function proven(api: Administered, request: FastifyRequest): Promise<OrganizationAdminClaims> {
  const token = /^bearer +([A-Za-z0-9._-]+)$/i.exec(request.headers.authorization ?? '')?.[1]
  if (token === undefined)
    refuse('invalid_token', 'Send the token of an organization’s administrator as Bearer.', CHALLENGE)
  const { organizations, aliases } = api
  const typAlias = aliasIn(aliases, ALIAS.organizationAdminTyp)
  const named = refusingAs('invalid_token', () => organizationAdminIssuer(token, typAlias), CHALLENGE)
  const { issuer, kid } = named
  if (!organizations.issuers.includes(issuer))
    refuse('invalid_token', 'Ask the operator of this server to list your organization.', CHALLENGE)
  const keys = await organizations.keys(issuer, kid).catch(asRefused)
  const { method, rawBody: body } = request
  const url = api.ownerUrl() + (request.raw.url ?? '').split('?')[0]!
  const bound = { method, url, body }
  const expected = { issuer, audience: api.issuer, now: api.now(), request: bound, typAlias }
  return refusingAs('invalid_token', () => verifyOrganizationAdmin(token, keys, expected), CHALLENGE)
}

/** The membership that a token is for. Refuses 403 if she is no member there, 409 if it has ended. */
async function standingMembership(db: Db, claims: OrganizationAdminClaims): Promise<Membership> {
  const membership = await readMembership(db, claims.sub)
  if (membership?.issuer !== claims.iss) refuse('request_denied', 'She is no member of your organization.')
  if (membership.join_id !== claims.membership)
    refuse('conflict', 'That membership has ended; she joined again.')
  return membership
}

/** A change by an administrator, under the lock of the member's queue. */
export interface Acting {
  readonly tx: Tx
  readonly owner: Owner
  readonly membership: Membership
  /** The administrator, as her records name him. */
  readonly by: { by: 'administrator'; actor: Extract<Actor, { kind: 'organization' }> }
}

/**
 * Runs a change in one transaction in which the membership is checked again and the token is spent first: 409
 * if it was presented before, so of two presentations the second changes nothing.
 */
export function actAs<T>(
  { database }: Pick<Administered, 'database'>,
  { owner, claims }: OrganizationAdministrator,
  change: (acting: Acting) => Promise<T>,
): Promise<T> {
  return inTransaction(database.of(owner), async tx => {
    await lockQueue(tx, owner)
    const membership = await standingMembership(tx, claims)
    const digest = sha256(JSON.stringify(['org_admin', claims.iss, claims.jti]))
    if (!(await spendSignature(tx, owner, digest, TOKEN_RETENTION_SECONDS)))
      refuse('conflict', 'Get a new token: this one was presented before.')
    const { org, name } = membership.view
    const actor = { kind: 'organization', org, name, admin: claims.admin } as const
    return change({ tx, owner, membership, by: { by: 'administrator', actor } })
  })
}

/** Refuses 403 if she took this power away from the administrators of her organization. */
export function requirePower({ membership }: Pick<Acting, 'membership'>, power: string): void {
  if (!membership.administrators_may.includes(power))
    throw new Refusal('request_denied', 'Ask her: she has not left you this power.', {
      extra: { reason: 'not_permitted' },
    })
}
