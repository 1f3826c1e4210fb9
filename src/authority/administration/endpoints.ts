/**
 * The administration of owners, on a listener of its own: what `usher authority owner` does, by a named
 * administrator. It reads no ledger, decides nothing and edits no policy. Contract: "Parties" (owner's
 * authorization server), "Authentication".
 */
import { z } from 'zod'
import { endpoint, type Described, type Endpoint } from '../../http/servers/endpoint.ts'
import { HEALTH, READY } from '../../http/servers/health.ts'
import { deviceKeyScheme, OPENAPI_ENDPOINT, RUNNING, type AboutListener } from '../../http/openapi/openapi.ts'
import { nextLink, PAGE, pageOf } from '../../http/servers/pages.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { listOwnerLives, type OwnerLife } from '../../storage/authority/owners/owner-lives.ts'
import { asOwner } from '../../wire/identifiers.ts'
import type { StillWaiting } from '../../wire/owner/owner-api.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { LEASES_AWAITED, runAndAwaitLeases } from '../protection/lease-wait.ts'
import { ADMINISTRATOR, type AuthorityAdminCredential, type OwnerAdministration } from './guard.ts'
import { finishBehind } from './removal-completion.ts'
import { addOwner, removeOwner, setSuspended, showOwner } from './owner-accounts.ts'
import { issueCode, type IssuedCode } from './recovery.ts'

const rows = { addedUnder: 'Owner API' } as const
const text = z.string()
const name = z
  .string()
  .regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit')
  .transform(asOwner)
const ONE_OWNER = {
  schema: z.strictObject({ owner: name }),
  unknown: 'This authority serves no owner of this name.',
}
const MEMBERS = {
  owner: text,
  state: z.enum(['active', 'suspended', 'removing', 'removed']),
  created_at: text,
  suspended_at: text.nullable(),
  removed_at: text.nullable(),
  enrolled: z.boolean(),
  recovery_at: text.nullable(),
}
type Life = Omit<OwnerLife, 'owner'> & { owner: string }
const LIFE: z.ZodType<Life> = z.strictObject(MEMBERS).meta({ id: 'Owner' })
const ENDED_ACCESS: z.ZodType<Life & Pick<StillWaiting, 'leases'>> = z
  .strictObject({ ...MEMBERS, ...LEASES_AWAITED })
  .meta({ id: 'OwnerEnded' })
const ISSUED: z.ZodType<IssuedCode> = z
  .strictObject({
    owner: text,
    code: text,
    expires_at: text,
    in_force_at: text.exactOptional(),
  })
  .meta({ id: 'EnrolmentCode' })

/** The value that `suspended` gets, as an operation of its own. */
const suspending = (suspended: boolean): Endpoint<OwnerAdministration> =>
  endpoint({
    method: 'post',
    path: suspended ? '/admin/owners/{owner}/suspend' : '/admin/owners/{owner}/resume',
    rows,
    summary: suspended
      ? 'Ends every grant on her resources, and lets no agent in until she is resumed'
      : 'Takes a suspension back; no grant of before lives',
    credential: ADMINISTRATOR,
    parameters: ONE_OWNER,
    answers: { 200: { says: 'Done.', schema: ENDED_ACCESS } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerAdministration, { caller, parameters: { owner }, answer }) => {
      const change = { suspended, actor: caller.actor }
      const act = (): Promise<OwnerLife> => changeAs(api, caller, tx => setSuspended(tx, owner, change))
      return answer(200, await runAndAwaitLeases(act))
    },
  })

export const OWNER_ADMINISTRATION: readonly Endpoint<OwnerAdministration>[] = [
  endpoint({
    method: 'get',
    path: '/admin/owners',
    rows,
    summary: 'Owners, removed ones included',
    credential: ADMINISTRATOR,
    query: PAGE,
    answers: { 200: { says: 'By name.', schema: LIFE.array() } },
    handle: async ({ database }: OwnerAdministration, { query: { after, limit }, answer }) => {
      const lives = await listOwnerLives(database.ofNobody, { after, limit: limit + 1 })
      const { items, last } = pageOf(lives, limit)
      return answer(200, items, nextLink('/admin/owners', last && { after: last.owner, limit }))
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/owners',
    rows,
    summary: 'Serves an owner from now on',
    credential: ADMINISTRATOR,
    body: { schema: z.strictObject({ owner: name }) },
    answers: { 201: { says: 'Served.', schema: LIFE } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerAdministration, { caller, body: { owner }, answer }) =>
      answer(201, await changeAs(api, caller, tx => addOwner(tx, owner))),
  }),
  endpoint({
    method: 'get',
    path: '/admin/owners/{owner}',
    rows,
    summary: 'One owner',
    credential: ADMINISTRATOR,
    parameters: ONE_OWNER,
    answers: { 200: { says: 'As she is now.', schema: LIFE } },
    handle: async ({ database }: OwnerAdministration, { parameters: { owner }, answer }) =>
      answer(200, await showOwner(database.ofNobody, owner)),
  }),
  endpoint({
    method: 'post',
    path: '/admin/owners/{owner}/enrolment',
    rows,
    summary:
      'Issues a one-time code for her first credential; if she has one, starts a recovery, of which she is notified',
    credential: ADMINISTRATOR,
    parameters: ONE_OWNER,
    body: { schema: z.strictObject({ recover: z.boolean().default(false) }) },
    answers: { 201: { says: 'It is shown here and nowhere again.', schema: ISSUED } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerAdministration, { caller, parameters: { owner }, body, answer }) => {
      const enrolment = { owner, recover: body.recover, actor: caller.actor }
      return answer(201, await changeAs(api, caller, tx => issueCode(tx, api.enrolling, enrolment)))
    },
  }),
  suspending(true),
  suspending(false),
  endpoint({
    method: 'delete',
    path: '/admin/owners/{owner}',
    rows,
    summary:
      'Removes her: her access has ended with the answer; her archive is written and her data deleted afterwards',
    credential: ADMINISTRATOR,
    parameters: ONE_OWNER,
    answers: {
      202: { says: 'Begun. If an earlier removal was interrupted, this resumes it.', schema: ENDED_ACCESS },
    },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerAdministration, { caller, parameters: { owner }, answer }) => {
      const { database, archives } = api
      if (archives === undefined)
        refuse('conflict', 'Set UMA_AS_ARCHIVES first: nobody is removed without an archive.')
      const { actor } = caller
      const removing = async (): Promise<OwnerLife> => {
        const removal = await removeOwner(database, { owner, actor, archives }, tx => caller.spend(tx))
        finishBehind(api, async () => removal)
        return showOwner(database.ofNobody, owner)
      }
      return answer(202, await runAndAwaitLeases(removing))
    },
  }),
]

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

/** All that the listener serves. */
export const ADMIN_LISTENER: readonly Described[] = [...OWNER_ADMINISTRATION, ...EVERYWHERE]

/** What its document says of it as a whole. */
export const aboutAdministration: AboutListener = {
  title: 'usher: administration of owners',
  description: 'What named administrators of the authority do. It reads no ledger and decides nothing.',
  server: '/',
  chapters: [
    { name: 'owners', description: 'Whom this authority serves.', paths: ['/admin/owners'] },
    RUNNING,
  ],
  securitySchemes: {
    admin: deviceKeyScheme('an administrator’s'),
    bearer: { type: 'http', scheme: 'bearer', description: "An access token of the administrators' realm." },
  },
}

/** Runs a change in one transaction, which marks the request as spent first. */
function changeAs<T>(
  { database }: OwnerAdministration,
  caller: AuthorityAdminCredential,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return inTransaction(database.ofNobody, async tx => {
    await caller.spend(tx)
    return work(tx)
  })
}
