/**
 * POST /audit/access: the enforcement point reports allowed calls, at least once; the ledger's touched
 * entries hold each once. Contract: "Protection API" (/audit/access), "Events" (row 2).
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { parseBody } from '../http/bodies.ts'
import { touchConnection } from '../storage/connections.ts'
import { inTransaction, type Tx } from '../storage/database.ts'
import { grantOfReport } from '../storage/grants.ts'
import { appendLedgerOnce } from '../storage/ledger.ts'
import { readResourceServer } from '../storage/resources.ts'
import type { Authority } from './context.ts'
import { invalidPat, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'

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
    return reply.header('cache-control', 'no-store').send(await record(authority, holder, entries))
  })
}

async function record(authority: Authority, holder: PatHolder, entries: Entry[]): Promise<object> {
  const server = await readResourceServer(authority.database.db, holder.owner, holder.client_id)
  if (server === undefined || !standsFor(server, holder)) throw invalidPat()
  return inTransaction(authority.database.db, async tx => {
    let recorded = 0
    const unknown: string[] = []
    for (const entry of entries) {
      const outcome = await recordOne(tx, holder, server.resource_uri, entry)
      if (outcome === 'recorded') recorded += 1
      if (outcome === 'unknown') unknown.push(entry.id)
    }
    return { recorded, ...(unknown.length > 0 ? { error: 'unknown_token', unknown } : {}) }
  })
}

async function recordOne(
  tx: Tx,
  holder: PatHolder,
  resourceUri: string,
  entry: Entry,
): Promise<'recorded' | 'repeated' | 'unknown'> {
  const { owner, client_id } = holder
  const grant = await grantOfReport(tx, owner, entry.jti)
  if (grant === undefined || grant.family !== entry.family) return 'unknown'
  if (grant.client_id !== client_id || grant.aud !== resourceUri) return 'unknown'
  const { id, tool, summary, at, jti } = entry
  const fresh = await appendLedgerOnce(tx, owner, `touched ${client_id} ${id}`, {
    kind: 'touched',
    family: grant.family,
    handle: grant.handle,
    data: { tool, at, jti, client_id, ...(summary === undefined ? {} : { summary }) },
  })
  if (!fresh) return 'repeated'
  await touchConnection(tx, owner, grant.handle)
  return 'recorded'
}
