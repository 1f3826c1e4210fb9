/**
 * The owner's allowances: what agents may do at her ask-me tiers without asking each time. She reads, makes
 * and edits them; none is deleted. Contract: "Owner API", "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { allowanceEditFault, allowanceFault, ALLOWANCES_MAX } from '../../../rules/allowance/allowance.ts'
import { listUses, readUses } from '../../../storage/authority/policies/allowance-uses.ts'
import { isZoneName, readAllowance, storeAllowance } from '../../../storage/authority/policies/allowances.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import {
  ALLOWANCE_CONTENT,
  ALLOWANCE_IN_USE,
  OWNER_ALLOWANCE,
  type AllowanceContent,
  type OwnerAllowance,
} from '../../../wire/documents/allowance.ts'
import { namesTag } from '../../../wire/entity-tags.ts'
import { ALLOWANCE_ID } from '../../../wire/names.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { withCeilings } from './allowance-ceiling.ts'
import { allowanceInUse } from './allowance-use.ts'

const rows = { addedUnder: 'Owner API' } as const
const UNKNOWN = 'You have no allowance of this id; an id has small letters, digits and `-`, at most 32.'
const ID = { schema: z.strictObject({ id: z.string().regex(ALLOWANCE_ID) }), unknown: UNKNOWN }

/** Hers to read, make and edit. */
export const ALLOWANCES: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/allowances',
    rows,
    summary: 'What agents may do at her ask-me tiers without asking each time, and what is used of it',
    says: 'By id; Link rel=next if there are more.',
    item: ALLOWANCE_IN_USE,
    list: async (db, owner, page) =>
      withCeilings(db, owner, (await listUses(db, owner, page)).map(allowanceInUse)),
    key: 'id',
    show: allowance => allowance,
    isLarge: true,
  }),
  endpoint({
    method: 'get',
    path: '/owner/allowances/{id}',
    rows,
    summary: 'One allowance, and what is used of it',
    credential: OWNER,
    parameters: ID,
    answers: {
      200: { says: 'The allowance; the ETag is its quoted version.', schema: ALLOWANCE_IN_USE },
    },
    refuses: { 404: ['not_found'] },
    handle: async ({ database }: OwnerApi, { caller: { owner }, parameters: { id }, answer }) => {
      const db = database.of(owner)
      const reading = await readUses(db, owner, id)
      if (reading === undefined) refuse('not_found', UNKNOWN)
      const [shown] = await withCeilings(db, owner, [allowanceInUse(reading)])
      return answer(200, shown!, { etag: etagOf(reading.allowance) })
    },
  }),
  endpoint({
    method: 'put',
    path: '/owner/allowances/{id}',
    rows,
    summary: 'Makes an allowance, or edits one as a whole: what is left out has its default',
    credential: OWNER,
    parameters: ID,
    reads: {
      'if-match': 'The quoted version she edited; if it is stale, or there is none, 412.',
      'if-none-match': '`*`: makes a new one and edits none, which is 412.',
    },
    body: { schema: ALLOWANCE_CONTENT },
    answers: {
      200: { says: 'Edited.', schema: OWNER_ALLOWANCE },
      201: { says: 'Made.', schema: OWNER_ALLOWANCE },
    },
    refuses: { 404: ['not_found'], 409: ['conflict'], 412: ['precondition_failed'] },
    handle: async (api: OwnerApi, { caller, parameters: { id }, body, request, answer }) => {
      if (body.id !== undefined && body.id !== id)
        refuse(
          'invalid_request',
          'Leave out the id, or repeat the one in the path: an allowance keeps its id.',
        )
      const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers
      const saved = await save(api, caller, { id, content: body, ifMatch, ifNoneMatch })
      return answer(saved.version === 1 ? 201 : 200, saved, { etag: etagOf(saved) })
    },
  }),
]

interface AllowanceEdit {
  id: string
  content: AllowanceContent
  ifMatch: string | undefined
  ifNoneMatch: string | undefined
}

/** Holds the owner's queue lock from the start, so what is read here stays as it is until it is stored. */
function save(api: OwnerApi, credential: OwnerCredential, edit: AllowanceEdit): Promise<OwnerAllowance> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const before = await readAllowance(tx, owner, edit.id)
    checkConditions(before, edit)
    const fault = allowanceFault(edit.content)
    if (fault !== undefined) refuse('invalid_request', fault)
    const after = await allowanceAfter(tx, edit, before)
    const outcome = await storeAllowance(tx, owner, after)
    if (outcome === 'full')
      refuse('conflict', `You have ${ALLOWANCES_MAX} allowances, and no more are possible: edit one of them.`)
    if (outcome === 'moved') refuse('precondition_failed', STALE)
    const saved = (await readAllowance(tx, owner, edit.id))!
    await recordAllowance(tx, credential, saved)
    return saved
  })
}

/** Known everywhere. */
const UTC = 'UTC'
const STALE = 'The allowance is not as you read it: read it again, then edit it.'

/** RFC 9110 §13.1.1 and §13.1.2. */
function checkConditions(
  before: OwnerAllowance | undefined,
  { ifMatch, ifNoneMatch }: Pick<AllowanceEdit, 'ifMatch' | 'ifNoneMatch'>,
): void {
  const isNamed = (header: string): boolean => before !== undefined && namesTag(header, etagOf(before))
  if (ifMatch !== undefined && !isNamed(ifMatch)) refuse('precondition_failed', STALE)
  if (ifNoneMatch !== undefined && isNamed(ifNoneMatch))
    refuse('precondition_failed', 'You have an allowance of this id: edit it, or choose another id.')
}

/** The allowance as it will be stored; refuses what an edit may not change, and a zone that nobody knows. */
async function allowanceAfter(
  tx: Tx,
  { id, content }: Pick<AllowanceEdit, 'id' | 'content'>,
  before: OwnerAllowance | undefined,
): Promise<OwnerAllowance> {
  const { hold_s, amounts, tiers } = content
  const windows = content.windows.map(({ of, per, max }) => ({ of, per, max }))
  const until = content.until === null ? null : new Date(content.until).toISOString()
  const members = { until, hold_s, amounts, windows, tiers }
  if (before !== undefined) {
    const fault = allowanceEditFault(before, content)
    if (fault !== undefined) refuse('conflict', fault)
    return { ...before, ...members, version: before.version + 1 }
  }
  const { zone = UTC, among = 'all' } = content
  if (zone !== UTC && !(await isZoneName(tx, zone)))
    refuse('invalid_request', 'zone: give the name of a time zone, such as Europe/Zurich.')
  return { id, version: 1, zone, among, ...members }
}

/**
 * Writes the whole allowance, as it is from now on, to the ledger: no earlier version stands elsewhere. Her
 * other portals are told that it changed.
 */
async function recordAllowance(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  { id, version, ...members }: OwnerAllowance,
): Promise<void> {
  const was = version === 1 ? null : version - 1
  const data = { allowance: id, version, was, ...members, by: 'owner', actor }
  await appendLedger(tx, owner, { kind: 'allowance_changed', data })
  await appendEvent(tx, owner, 'allowance_changed', { allowance: id, version, by: 'owner', actor })
}

function etagOf({ version }: OwnerAllowance): string {
  return `"${version}"`
}
