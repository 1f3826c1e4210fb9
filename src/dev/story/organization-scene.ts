/**
 * Owns what steps about an organization share: who administers it, and how she joins. Contract: "Parties".
 */
import { createAdminClient, type AdminClient } from '../../admin/index.ts'
import type { JsonObject } from '../../wire/json.ts'
import { until } from '../stack/child-process.ts'
import { object } from './held-grants.ts'
import { OWNER } from '../stack/household.ts'
import { SUBJECT, type OrganizationPlace } from '../stack/organization-place.ts'
import { openScene, present, show, type Scene } from './scene.ts'
import type { Stack } from '../stack/stack.ts'

/** Sets the scene: the agents in it are sent by alice, and the firm's provider says so. */
export async function openOrganizationScene(stack: Stack): Promise<Scene> {
  const provider = present('There is an organization.', stack.organization).identityProvider
  return openScene(stack, await provider.signIn(SUBJECT))
}

export const MEMBERSHIP = '/owner/organization'

/** Invites her as ines does. @returns the code, which is shown once. */
export async function invite(scene: Scene): Promise<string> {
  const body = { owner: OWNER, as_uri: scene.stack.issuer, note: 'Welcome to the desk' }
  return show((await adminOf(scene).ask({ method: 'POST', path: '/admin/invites', body }))['code'])
}

/** What a code would bind her to. */
export async function previewOf({ owner }: Scene, code: string): Promise<JsonObject> {
  return object(await owner.ask({ method: 'POST', path: `${MEMBERSHIP}/preview`, body: { code } }))
}

/** She agrees to exactly what she read. @returns how she stands then. */
export async function agreeTo({ owner }: Scene, code: string, preview: JsonObject): Promise<JsonObject> {
  const { charter_version, binds_s256 } = preview
  const body = { code, agreed: true, charter_version, binds_s256 }
  return object(await owner.ask({ method: 'POST', path: MEMBERSHIP, body }))
}

export const CLEARANCE = `/admin/members/${OWNER}/clearance`

/** Attests it about her as ines does, and waits until her authority knows; `nothing` withdraws it. */
export async function attest(scene: Scene, clearance: JsonObject): Promise<void> {
  const body = { clearance }
  const { version } = object(await adminOf(scene).ask({ method: 'PUT', path: CLEARANCE, body }))
  await until('her authority to hear of the clearance', async () => {
    const { charter_version } = await membershipOf(scene)
    return Number(charter_version) >= Number(version)
  })
}

/** She edits what each of these tiers requires to be attested about her. */
export async function askClearances({ owner }: Scene, clearances: Record<string, JsonObject>): Promise<void> {
  for (const [tier, clearance] of Object.entries(clearances))
    await owner.ask({ method: 'PUT', path: `/owner/policies/${tier}`, body: { clearance } })
}

/** The organization of her stack. */
export function organizationOf({ stack }: Scene): OrganizationPlace {
  return present('There is an organization.', stack.organization)
}

/** A client that acts as ines, who administers the organization. */
export function adminOf(scene: Scene): AdminClient {
  const { replicas, issuer, adminKey } = organizationOf(scene)
  return createAdminClient({ api: replicas[0]!.adminApi, issuer, key: adminKey })
}

/** How she stands, as her authority tells her. */
export async function membershipOf({ owner }: Scene): Promise<JsonObject> {
  return object(await owner.ask({ method: 'GET', path: MEMBERSHIP }))
}

/** The terms of her tier for reading. */
export async function readingTerms({ owner }: Scene): Promise<{ expires_in: number }> {
  const tiers = await owner.policies()
  return present(
    'She has a tier for reading.',
    tiers.find(({ id }) => id === 'reading'),
  ).terms
}
