/**
 * POST /audit/access: the enforcement point reports allowed calls, at least once; each is kept once, where the party tells
 * its owners what happened. Contract: "Protection API" (/audit/access), "Events" (row 2).
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { parseBody } from '../http/bodies.ts'
import { invalidPat, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
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
export type AccessReport = z.infer<typeof ENTRY> & { family: Family }

/** Where reports are kept. */
export interface AccessRecord {
  /**
   * Keeps reports of a resource server, in their order, each id once.
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

/** Registers POST /audit/access: `{recorded: n}`, n the newly recorded; entries of no grant of this server are named. */
export function registerAccessReports(app: FastifyInstance, of: AccessReports): void {
  app.post('/audit/access', async (request, reply) => {
    const holder = of.guard(request.headers.authorization)
    const report = parseBody(REPORT, request.body)
    const entries = 'entries' in report ? report.entries : [report]
    const reports = entries.map(entry => ({ ...entry, family: asFamily(entry.family) }))
    const answer = await of.onBehalfOf(holder.owner, () => record(of, holder, reports))
    return reply.header('cache-control', 'no-store').send(answer)
  })
}

async function record(
  { servers, accesses }: AccessReports,
  holder: PatHolder,
  reports: AccessReport[],
): Promise<object> {
  const { owner, client_id } = holder
  const server = await servers.read(owner, client_id)
  if (server === undefined || !standsFor(server, holder)) throw invalidPat()
  const { recorded, unknown } = await accesses.record({ owner, client_id, aud: server.resource_uri }, reports)
  const ids = unknown.map(position => reports[position]!.id)
  return { recorded, ...(ids.length > 0 ? { error: 'unknown_token', unknown: ids } : {}) }
}
