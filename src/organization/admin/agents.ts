/**
 * Agents of a member that touch what the organization claims, as administrators see them and act on them at
 * her authorization server. That server decides what is shown and done, and its answers are passed on.
 * Contract: "The organization's authority" (`/admin/...`), "Organization membership, on the member's
 * authorization server" (`/org/admin/{owner}/...`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, NUMBERED_PAGE, PAGE, plainText } from '../../http/servers/pages.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import type { JsonObject } from '../../wire/json.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { ADMINISTRATOR, changeAs, type OrganizationAdminCredential } from './guard.ts'
import { requestName, type MemberAnswer } from './member-servers.ts'

const rows = { addedUnder: "The organization's authority" } as const
const NO_SUCH_MEMBER = 'No member has this owner name.'
const OWNER_NAME = z.strictObject({ owner: z.string().regex(NAME_PATTERN).transform(asOwner) })
const ONE_MEMBER = { schema: OWNER_NAME, unknown: NO_SUCH_MEMBER }

const PASSED_ON = z.looseObject({ error: z.string() })
const HER_NO = { says: 'Her server says no, and why.', schema: PASSED_ON }
const HER_NOES = { 400: HER_NO, 403: HER_NO, 404: HER_NO, 409: HER_NO }
const ITEM = z.looseObject({})
const AGENT = z.strictObject({ handle: plainText(2_048) })
const OPERATOR = z.strictObject({ origin: plainText(300) })
/** Before the part of a path that her server has, too. */
const MEMBER = '/admin/members/{owner}'

/** Her lists, and the acts on their items. */
export const AGENTS: readonly Endpoint<Administration>[] = [
  memberList(
    '/admin/members/{owner}/pending',
    'family',
    'Requests for what the organization governs that wait for a member',
  ),
  memberList(
    '/admin/members/{owner}/connections',
    'handle',
    'Agents of a member that reach what the organization governs',
  ),
  memberList('/admin/members/{owner}/operators', 'origin', 'Operators of those agents'),
  endpoint({
    method: 'get',
    path: '/admin/members/{owner}/ledger',
    rows,
    summary: 'What happened to what the organization governs at a member, as her server shows it',
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    query: NUMBERED_PAGE,
    answers: {
      200: {
        says: 'Oldest first; `next` is the `after` of the following page.',
        schema: z.looseObject({ entries: ITEM.array(), next: z.int().nullable() }),
      },
      ...HER_NOES,
    },
    handle: async (api: Administration, { caller, parameters: { owner }, query, answer }) => {
      const target = { below: '/ledger', query: { after: String(query.after), limit: String(query.limit) } }
      const { status, json } = await look(api, caller, owner, target)
      if (status !== 200) return answer(status, refusalOf(json))
      return answer(200, shaped(z.looseObject({ entries: ITEM.array(), next: z.int().nullable() }), json))
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/members/{owner}/pending/{family}/decision',
    rows,
    summary: 'Approves or denies one waiting request of a member, as far as she left that',
    credential: ADMINISTRATOR,
    parameters: { schema: OWNER_NAME.extend({ family: plainText(200) }), unknown: NO_SUCH_MEMBER },
    body: { schema: z.strictObject({ decision: z.enum(['approved', 'denied']) }) },
    answers: { 200: { says: 'Decided.', schema: ITEM }, ...HER_NOES },
    handle: async (api: Administration, { caller, parameters: { owner, family }, body, answer }) => {
      const below = `/pending/${encodeURIComponent(family)}/decision`
      const acted = await act(api, caller, owner, { act: body.decision, on: { family }, below, body })
      return passedOn(acted, answer)
    },
  }),
  memberAct('/admin/members/{owner}/connections/revoke', AGENT),
  memberAct('/admin/members/{owner}/connections/restore', AGENT),
  memberAct('/admin/members/{owner}/operators/block', OPERATOR),
  memberAct('/admin/members/{owner}/operators/unblock', OPERATOR),
]

function memberList(path: string, key: string, summary: string): Endpoint<Administration> {
  return endpoint({
    method: 'get',
    path,
    rows,
    summary,
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    query: PAGE,
    answers: { 200: { says: `By ${key}, as her server shows them.`, schema: ITEM.array() }, ...HER_NOES },
    refuses: { 409: ['conflict'] },
    handle: async (api: Administration, { caller, parameters: { owner }, query, answer }) => {
      const { after, limit } = query
      const listQuery = { limit: String(limit), ...(after === undefined ? {} : { after }) }
      const { status, json, more } = await look(api, caller, owner, {
        below: path.slice(MEMBER.length),
        query: listQuery,
      })
      if (status !== 200) return answer(status, refusalOf(json))
      const items = shaped(ITEM.array(), json)
      const last = items.at(-1)?.[key]
      const next = more && typeof last === 'string' ? { after: last, limit } : undefined
      return answer(200, items, nextLink(path.replace('{owner}', owner), next))
    },
  })
}

function memberAct(path: string, schema: z.ZodType<Record<string, string>>): Endpoint<Administration> {
  const below = path.slice(MEMBER.length)
  const [, noun, word] = below.split('/') as ['', string, string]
  return endpoint({
    method: 'post',
    path,
    rows,
    summary: `To ${word} one of the ${noun} of a member, on what the organization governs`,
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    body: { schema },
    answers: { 200: { says: 'So it is from now on.', schema: ITEM }, ...HER_NOES },
    refuses: { 403: ['request_denied'], 409: ['conflict'] },
    handle: async (api: Administration, { caller, parameters: { owner }, body, answer }) =>
      passedOn(await act(api, caller, owner, { act: word, on: body, below, body }), answer),
  })
}

/** Asks her server for a list, in the name of an administrator. */
// oxlint-disable-next-line eslint/max-params -- where, who, whose, and what
async function look(
  api: Administration,
  { admin }: OrganizationAdminCredential,
  owner: Owner,
  target: { below: string; query: Record<string, string> },
): Promise<MemberAnswer> {
  const member = (await readMember(api.database.ofNobody, owner)) ?? refuse('not_found', NO_SUCH_MEMBER)
  return api.members.ask({ ...memberOf(member), admin, jti: requestName(), ...target })
}

/**
 * Makes her server do something. First the request is spent and recorded, then the server is asked, once, and
 * its answer is recorded. So nothing is ever done without a record.
 */
// oxlint-disable-next-line eslint/max-params -- where, who, whose, and what
async function act(
  api: Administration,
  credential: OrganizationAdminCredential,
  owner: Owner,
  command: { act: string; on: Record<string, string>; below: string; body: object },
): Promise<MemberAnswer> {
  const { admin } = credential
  const jti = requestName()
  const member = await changeAs(api, credential, async tx => {
    const found = (await readMember(tx, owner)) ?? refuse('not_found', NO_SUCH_MEMBER)
    const data = { act: command.act, ...command.on, jti }
    await appendActivity(tx, { kind: 'member_acted_on', admin, owner, data })
    return found
  })
  const answered = (status: number): Promise<void> =>
    inTransaction(api.database.ofNobody, async tx => {
      await lockHead(tx)
      await appendActivity(tx, { kind: 'member_answered', admin, owner, data: { jti, status } })
    })
  try {
    const { below, body } = command
    const answer = await api.members.ask({ ...memberOf(member), admin, jti, below, body })
    await answered(answer.status)
    return answer
  } catch (error) {
    if (error instanceof Refusal) await answered(error.status)
    throw error
  }
}

function memberOf({ owner, as_uri, join_id: membership }: MemberRow): {
  owner: Owner
  as_uri: string
  membership: string
} {
  return { owner, as_uri, membership }
}

function passedOn<Answered>(
  { status, json }: MemberAnswer,
  answer: (status: MemberAnswer['status'], body: never) => Answered,
): Answered {
  return answer(status, (status === 200 ? shaped(ITEM, json) : refusalOf(json)) as never)
}

/** An answer of another shape is no answer. */
function shaped<T>(schema: z.ZodType<T>, json: unknown): T {
  const read = schema.safeParse(json)
  return read.success ? read.data : notUsable()
}

function refusalOf(json: unknown): JsonObject & { error: string } {
  return shaped(PASSED_ON, json) as JsonObject & { error: string }
}

function notUsable(): never {
  throw new Refusal(
    'temporarily_unavailable',
    'Ask the operator of her server: its answer has another form.',
    {
      status: 502,
    },
  )
}
