/**
 * POST /audit/access: the enforcement point reports allowed calls, at least once; the ledger's touched
 * entries hold each once. Contract: "Protection API" (/audit/access), "Events" (row 2).
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { parseBody } from '../../http/bodies.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import { readResourceServer } from '../../storage/authority/resources.ts'
import { recordTouches } from '../../storage/authority/last-access.ts'
import type { Authority } from '../context.ts'
import { invalidPat, standsFor, type PatGuard, type PatHolder } from '../../surface/pat-guard.ts'

const SUMMARY_BYTES_MAX = 1_024
const ENTRIES_MAX = 500
const noNul = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine(text => !text.includes('\0'), 'must not contain NUL')

const ENTRY = z.object({
  id: noNul(100),
  family: noNul(100),
  jti: noNul(100),
  tool: z.string().min(1).max(400),
  summary: z
    .string()
    .refine(
      text => Buffer.byteLength(text) <= SUMMARY_BYTES_MAX,
      `must be at most ${SUMMARY_BYTES_MAX} bytes`,
    )
    .optional(),
  /** Seconds since the epoch at which the call was let through. */
  at: z.number().int().nonnegative(),
})
export const REPORT = z.union([z.object({ entries: z.array(ENTRY).min(1).max(ENTRIES_MAX) }), ENTRY])
type Entry = z.infer<typeof ENTRY>

/** Registers POST /audit/access: `{recorded: n}`, n the newly recorded; entries of no grant of this server are named. */
export function registerAudit(app: FastifyInstance, authority: Authority, guard: PatGuard): void {
  app.post('/audit/access', async (request, reply) => {
    const holder = guard(request.headers.authorization)
    const report = parseBody(REPORT, request.body)
    const entries = 'entries' in report ? report.entries : [report]
    const answer = await onBehalfOf(holder.owner, () => record(authority, holder, entries))
    return reply.header('cache-control', 'no-store').send(answer)
  })
}

async function record(authority: Authority, holder: PatHolder, entries: Entry[]): Promise<object> {
  const server = await readResourceServer(authority.database.db, holder.owner, holder.client_id)
  if (server === undefined || !standsFor(server, holder)) throw invalidPat()
  const { owner, client_id } = holder
  const calls = entries.map(({ id, family, jti, tool, summary, at }) => ({
    id,
    family,
    jti,
    data: { tool, at, jti, client_id, ...(summary === undefined ? {} : { summary }) },
  }))
  const by = { owner, client_id, aud: server.resource_uri }
  const { recorded, unknown } = await inTransaction(authority.database.db, tx => recordTouches(tx, by, calls))
  const ids = unknown.map(position => entries[position]!.id)
  return { recorded, ...(ids.length > 0 ? { error: 'unknown_token', unknown: ids } : {}) }
}
