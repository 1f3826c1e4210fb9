/**
 * Codes by which people may join, as administrators make and withdraw them; and the record of acts. Contract:
 * "The organization's authority" (`/admin/...`: invitations, activity).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, NUMBERED_PAGE, PAGE, pageOf, plainText } from '../../http/servers/pages.ts'
import { appendActivity, listActivity } from '../../storage/organization/activity.ts'
import {
  answerInvitation,
  insertInvitation,
  listInvitations,
  readInvitationByCode,
  replaceJoinCode,
} from '../../storage/organization/invitations.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { invitationCode, newCodeId, newJoinCode } from '../../wire/organization/join-code.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { ADMINISTRATOR, changeAs } from './guard.ts'

const rows = { addedUnder: "The organization's authority" } as const

const INVITATION = z
  .strictObject({
    code_id: z.string(),
    owner: z.string(),
    as_uri: z.string(),
    note: z.string().nullable(),
    invited_at: z.string(),
    expires_at: z.string(),
  })
  .meta({ id: 'Invitation' })
const INVITED = z.strictObject({ code_id: z.string(), code: z.string(), expires_at: z.string() })
const NO_SUCH_INVITATION = 'No invitation of this id waits.'

export const INVITES: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'get',
    path: '/admin/invites',
    rows,
    summary: 'Invitations that wait, without their codes',
    credential: ADMINISTRATOR,
    query: PAGE,
    answers: { 200: { says: 'By code_id.', schema: INVITATION.array() } },
    handle: async ({ database }: Administration, { query: { after, limit }, answer }) => {
      const found = await listInvitations(database.ofNobody, { after, limit: limit + 1 })
      const { items, last } = pageOf(found, limit)
      const shown = items.map(({ code_sha256: _hash, answer: _answer, ...item }) => item)
      return answer(200, shown, nextLink('/admin/invites', last && { after: last.code_id, limit }))
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/invites',
    rows,
    summary: 'Invites a named person: her owner name, and the authority that serves her',
    credential: ADMINISTRATOR,
    body: {
      schema: z.strictObject({
        owner: z.string().regex(NAME_PATTERN, 'give the name of an owner'),
        as_uri: plainText(512),
        note: plainText(500).optional(),
      }),
    },
    answers: { 201: { says: 'The code: shown once here, and told to her authority.', schema: INVITED } },
    handle: async (api: Administration, { caller, body, answer }) => {
      const { as_uri, note = null } = body
      if (!api.authorities.includes(as_uri))
        refuse('invalid_request', 'Correct the member "as_uri": name one of UMA_ORG_AUTHORITIES.')
      const owner = asOwner(body.owner)
      const code_id = newCodeId()
      const code = invitationCode(code_id, api.keys[0])
      const expires_at = await changeAs(api, caller, async tx => {
        const invitation = { code_id, owner, as_uri, note, code_sha256: sha256(code) }
        const until = await insertInvitation(tx, invitation, api.invitationSeconds)
        await appendActivity(tx, { kind: 'invited', admin: caller.admin, owner, data: { code_id, as_uri } })
        return until
      })
      return answer(201, { code_id, code, expires_at })
    },
  }),
  endpoint({
    method: 'delete',
    path: '/admin/invites/{code_id}',
    rows,
    summary: 'Withdraws an invitation: its code is dead',
    credential: ADMINISTRATOR,
    parameters: { schema: z.strictObject({ code_id: plainText(64) }), unknown: NO_SUCH_INVITATION },
    answers: { 200: { says: 'Withdrawn.', schema: z.strictObject({ withdrawn: z.string() }) } },
    handle: async (api: Administration, { caller, parameters: { code_id }, answer }) => {
      await changeAs(api, caller, async tx => {
        const row = await readInvitationByCode(tx, code_id)
        if (row === undefined || !(await answerInvitation(tx, code_id, 'withdrawn')))
          refuse('not_found', NO_SUCH_INVITATION)
        const { owner, as_uri } = row
        const data = { code_id, as_uri }
        await appendActivity(tx, { kind: 'invitation_withdrawn', admin: caller.admin, owner, data })
      })
      return answer(200, { withdrawn: code_id })
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/join-code/rotate',
    rows,
    summary: 'Makes a shared code, and ends the one before',
    credential: ADMINISTRATOR,
    answers: { 200: { says: 'The code, shown once.', schema: z.strictObject({ code: z.string() }) } },
    handle: async (api: Administration, { caller, answer }) => {
      const code = newJoinCode()
      await changeAs(api, caller, async tx => {
        await replaceJoinCode(tx, sha256(code))
        await appendActivity(tx, { kind: 'join_code_rotated', admin: caller.admin, data: {} })
      })
      return answer(200, { code })
    },
  }),
  endpoint({
    method: 'get',
    path: '/admin/activity',
    rows,
    summary: 'What administrators and members did',
    credential: ADMINISTRATOR,
    query: NUMBERED_PAGE,
    answers: {
      200: {
        says: 'Oldest first; `next` is the `after` of the following page.',
        schema: z.strictObject({
          entries: z
            .strictObject({
              seq: z.int(),
              ts: z.string(),
              kind: z.string(),
              admin: z.string().optional(),
              owner: z.string().optional(),
              data: z.looseObject({}),
            })
            .array(),
          next: z.int().nullable(),
        }),
      },
    },
    handle: async ({ database }: Administration, { query: { after, limit }, answer }) => {
      const found = await listActivity(database.ofNobody, { after, limit: limit + 1 })
      const { items, last } = pageOf(found, limit)
      const entries = items.map(({ admin, owner, ...entry }) => ({
        ...entry,
        ...(admin === null ? {} : { admin }),
        ...(owner === null ? {} : { owner }),
      }))
      return answer(200, { entries, next: last?.seq ?? null })
    },
  }),
]
