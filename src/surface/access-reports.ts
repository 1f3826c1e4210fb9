/**
 * POST /audit/access: the enforcement point reports allowed calls, at least once; each is kept once, where the party tells
 * its owners what happened. Contract: "Protection API" (/audit/access), "Events" (row 2).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/endpoint.ts'
import { invalidPat, PAT, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
import type { OnBehalfOf, ResourceServers } from './resource-servers.ts'
import { asFamily, type ClientId, type Family, type Owner } from '../wire/identifiers.ts'

const SUMMARY_BYTES_MAX = 1_024
const ENTRIES_MAX = 500
const noNul = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine(text => !text.includes('\0'), 'must not contain NUL')

const ENTRY = z.object({
  /** One call, however often it is reported; without it every report is another call. */
  id: noNul(100).optional(),
  family: noNul(100),
  /** Of the grant that was used; the family's own where left out. */
  jti: noNul(100).optional(),
  tool: z.string().min(1).max(400),
  summary: z
    .string()
    .refine(
      text => Buffer.byteLength(text) <= SUMMARY_BYTES_MAX,
      `must be at most ${SUMMARY_BYTES_MAX} bytes`,
    )
    .optional(),
  /** Seconds since the epoch at which the call was let through; now where left out. */
  at: z.number().int().nonnegative().optional(),
})
const REPORT = z.union([z.object({ entries: z.array(ENTRY).min(1).max(ENTRIES_MAX) }), ENTRY])
export type AccessReport = z.infer<typeof ENTRY> & { family: Family }

/** Where reports are kept. */
export interface AccessRecord {
  /**
   * Keeps reports of a resource server, in their order, each id once, and each that has no id.
   * @returns how many were newly recorded, and the positions of those that name no grant of this owner for this server.
   */
  record(
    by: { owner: Owner; client_id: ClientId; aud: string },
    reports: readonly AccessReport[],
  ): Promise<{ recorded: number; unknown: readonly number[] }>
}

export interface AccessReports {
  guard: PatGuard
  onBehalfOf: OnBehalfOf
  servers: ResourceServers
  accesses: AccessRecord
}

const RECORDED = z.object({
  recorded: z.int().min(0),
  /** Reports without an id were among them: sent again, they are recorded again. */
  idempotent: z.literal(false).optional(),
  error: z.string().optional(),
  unknown: z.array(z.string()).optional(),
})

/** `{recorded: n}`, n the newly recorded; entries of no grant of this server are named, by id or else by family. */
export const AUDIT_ACCESS: Endpoint<AccessReports> = endpoint({
  method: 'post',
  path: '/audit/access',
  rows: ['post-audit-access'],
  summary: 'Reports allowed calls; idempotent by id, where there is one',
  credential: PAT,
  body: { schema: REPORT, form: 'unlisted' },
  answers: {
    200: {
      says: 'How many were newly recorded.',
      schema: RECORDED,
      headers: { 'cache-control': 'no-store' },
    },
  },
  handle: async (of: AccessReports, { caller, body, answer }) =>
    answer(200, await record(of, caller, reportsIn(body))),
})

function reportsIn(body: z.output<typeof REPORT>): AccessReport[] {
  const entries = 'entries' in body ? body.entries : [body]
  return entries.map(entry => ({ ...entry, family: asFamily(entry.family) }))
}

async function record(
  { servers, accesses }: AccessReports,
  holder: PatHolder,
  reports: AccessReport[],
): Promise<z.output<typeof RECORDED>> {
  const { owner, client_id } = holder
  const server = await servers.read(owner, client_id)
  if (server === undefined || !standsFor(server, holder)) throw invalidPat()
  const { recorded, unknown } = await accesses.record({ owner, client_id, aud: server.resource_uri }, reports)
  const named = unknown.map(position => reports[position]!.id ?? reports[position]!.family)
  return {
    recorded,
    ...(reports.some(({ id }) => id === undefined) ? { idempotent: false } : {}),
    ...(named.length > 0 ? { error: 'unknown_token', unknown: named } : {}),
  }
}
