/**
 * The charter as administrators read and publish it. Contract: "The organization's authority" (`/admin/...`:
 * charter versions), "Versioning".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { NUMBERED_PAGE, pageOf } from '../../http/servers/pages.ts'
import { charterFault } from '../../rules/organization/charter.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import {
  listCharters,
  publishCharter,
  readCharter,
  readCharterVersion,
  type CharterRow,
} from '../../storage/organization/charters.ts'
import type { Db, Tx } from '../../storage/organization/database.ts'
import { otherRoleWithMembers } from '../../storage/organization/members.ts'
import { insertNoticeToAll } from '../../storage/organization/notices.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { charterDigest, parseCharter, type Charter } from '../../wire/organization/charter.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { ADMINISTRATOR, changeAs } from './guard.ts'

/**
 * This form is ours: the contract says that the administration has these endpoints, but not how they look.
 */
const rows = { addedUnder: "The organization's authority" } as const

const VERSION_MEMBERS = z.strictObject({
  version: z.int(),
  s256: z.string(),
  published_at: z.string(),
  by: z.string(),
})
const PUBLISHED = VERSION_MEMBERS.extend({ charter: z.looseObject({}) })
/** The answer after a publication. */
export const VERSION = z.strictObject({ version: z.int(), s256: z.string() })
/** The version that the change was made for. */
export const BASE_VERSION = z.int().min(0)

export const CHARTER: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'get',
    path: '/admin/charter',
    rows,
    summary: 'The charter in force',
    credential: ADMINISTRATOR,
    answers: { 200: { says: 'The version in force, with its digest.', schema: PUBLISHED } },
    refuses: { 409: ['conflict'] },
    handle: async ({ database }: Administration, { answer }) =>
      answer(200, shown(await charterInForce(database.ofNobody))),
  }),
  endpoint({
    method: 'put',
    path: '/admin/charter',
    rows,
    summary: 'Publishes another charter; base_version names the one in force, 0 where there is none',
    credential: ADMINISTRATOR,
    body: { schema: z.strictObject({ charter: z.unknown(), base_version: BASE_VERSION }) },
    answers: { 200: { says: 'What is in force now.', schema: PUBLISHED } },
    refuses: { 409: ['conflict'] },
    handle: async (api: Administration, { caller, body, answer }) => {
      const charter = parseCharter(body.charter)
      refuseFault(charterFault(charter))
      const published = await changeAs(api, caller, async (tx, version) => {
        refuseStale(version, body.base_version)
        await refuseLosingMembers(tx, charter)
        const row = await publish(tx, charter, { admin: caller.admin, affects: 'everybody' })
        const data = { charter_version: row.version, s256: row.s256 }
        await appendActivity(tx, { kind: 'charter_published', admin: caller.admin, data })
        return row
      })
      return answer(200, shown(published))
    },
  }),
  endpoint({
    method: 'get',
    path: '/admin/charter/versions',
    rows,
    summary: 'Every version that was published, without its text',
    credential: ADMINISTRATOR,
    query: NUMBERED_PAGE,
    answers: {
      200: {
        says: 'Oldest first; `next` is the `after` of the following page.',
        schema: z.strictObject({ versions: VERSION_MEMBERS.array(), next: z.int().nullable() }),
      },
    },
    handle: async ({ database }: Administration, { query, answer }) => {
      const { after, limit } = query
      const found = await listCharters(database.ofNobody, { after, limit: limit + 1 })
      const { items, last } = pageOf(found, limit)
      return answer(200, { versions: items, next: last?.version ?? null })
    },
  }),
  endpoint({
    method: 'get',
    path: '/admin/charter/versions/{version}',
    rows,
    summary: 'One version as it was published',
    credential: ADMINISTRATOR,
    parameters: {
      schema: z.strictObject({
        version: z
          .string()
          .regex(/^[1-9]\d{0,14}$/)
          .transform(Number),
      }),
      unknown: 'No charter of this version was published.',
    },
    answers: { 200: { says: 'The version, with its digest.', schema: PUBLISHED } },
    handle: async ({ database }: Administration, { parameters: { version }, answer }) => {
      const row = await readCharterVersion(database.ofNobody, version)
      if (row === undefined) refuse('not_found', 'No charter of this version was published.')
      return answer(200, shown(row))
    },
  }),
]

/** The charter in force. Refuses 409 if none was published yet. */
export async function charterInForce(db: Db): Promise<CharterRow> {
  return (await readCharter(db)) ?? refuse('conflict', 'Publish a charter first: there is none yet.')
}

/** Publishes the next version; if it affects everybody, every member's authority is notified. */
export async function publish(
  tx: Tx,
  charter: Charter,
  { admin, affects }: { admin: string; affects: 'everybody' | Owner },
): Promise<CharterRow> {
  const row = await publishCharter(tx, { charter, s256: charterDigest(charter), by: admin, affects })
  if (affects === 'everybody')
    await insertNoticeToAll(tx, { kind: 'charter_changed', charter_version: row.version })
  return row
}

/**
 * Refuses 409 if a group with members would disappear, because a group is not deleted while anybody is in it.
 */
async function refuseLosingMembers(tx: Tx, { roles }: Charter): Promise<void> {
  const lost = await otherRoleWithMembers(tx, Object.keys(roles))
  if (lost !== undefined) refuse('conflict', `Keep the group ${lost}, or move its members first.`)
}

/** Refuses 409 if a change was made for another version than the one in force, which the refusal names. */
export function refuseStale(version: number, base_version: number): void {
  if (version === base_version) return
  refuse('conflict', `Read the charter again and repeat the change on it: version ${version} is in force.`, {
    extra: { version },
  })
}

/** Refuses 400 with the fault, if there is one. */
export function refuseFault(fault: string | undefined): void {
  if (fault !== undefined) refuse('invalid_request', `Correct ${fault}.`)
}

function shown({ version, s256, published_at, by, charter }: CharterRow): z.output<typeof PUBLISHED> {
  return { version, s256, published_at, by, charter }
}
