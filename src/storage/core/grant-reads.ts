/**
 * Batches reads of grants that resource servers ask about: those of one owner that are asked for at the same
 * time go to Postgres as one statement. Contract: "Grant (RPT) liveness".
 */
import type { GrantClaims, GrantRecord } from '../../rules/grant-content.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from './batch.ts'
import { TAKES_NO_WRITES, takesNoWrites } from './connection.ts'
import type { Prepared, Runner } from './database.ts'

/** One grant that is asked about, and the server that asks. */
export interface GrantLookup {
  /** A person, or an account that several hold. */
  owner: Owner
  clientId: ClientId
  rptSha256: Buffer
  /** The lease that the asking sidecar names; only if `read` takes it. */
  lease?: string
}

/** The asking server as recorded now, and the grant, if there is one. */
export interface GrantRecords<Status extends string> {
  server: { status: Status; generation: number; resource_uri: string }
  grant?: GrantRecord
}

/** What `grantColumns` selects. */
export interface GrantRow<Status extends string> extends Omit<GrantRecord, 'claims'> {
  /** The place of its question among those asked together, from 1. */
  place: number
  /** Whether this server takes no writes, and so cannot say which grants are live. */
  standby: boolean
  /** Null if the owner has no such resource server. */
  rs_status: Status | null
  rs_generation: number
  resource_uri: string
  /** Null if no such grant was made. */
  claims: GrantClaims | null
}

/** SQL: the lifetime of the grant `g` is over. */
export const LAPSED = 'g.expires_at <= clock_timestamp()'

/** Columns of the question `asked`, the resource server `rs` and the grant `g`; `expired` is SQL, too. */
export const grantColumns = (
  expired: string,
): string => `asked.place::int, ${TAKES_NO_WRITES} AS standby, rs.status AS rs_status, rs.generation AS rs_generation, rs.resource_uri,
      g.claims, g.client_id, g.aud, g.single_use, g.consumed_at IS NOT NULL AS consumed, ${expired} AS expired`

/** Undefined if the owner has no such resource server. */
export function recordsOf<Status extends string>(row: GrantRow<Status>): GrantRecords<Status> | undefined {
  if (row.rs_status === null) return undefined
  const server = { status: row.rs_status, generation: row.rs_generation, resource_uri: row.resource_uri }
  if (row.claims === null) return { server }
  const { claims, client_id, aud, single_use, consumed, expired } = row
  return { server, grant: { claims, client_id, aud, single_use, consumed, expired } }
}

/**
 * A reader of grants. `read` takes the owner, the client ids and the digests of the RPTs, where `leases` says
 * so the leases, too, and answers a row for each place. Nothing is consumed and nothing remembered; the
 * statement itself proves that it was answered by the primary.
 */
export function grantReads<Row extends Pick<GrantRow<string>, 'place' | 'standby'>, Reading>(
  read: Prepared<Row>,
  readingOf: (row: Row) => Reading | undefined,
  { leases = false }: { leases?: boolean } = {},
): (calls: Runner, question: GrantLookup) => Promise<Reading | undefined> {
  const readTogether = async (calls: Runner, questions: GrantLookup[]): Promise<(Reading | undefined)[]> => {
    const { rows } = await read(calls, [
      questions[0]!.owner,
      questions.map(({ clientId }) => clientId),
      questions.map(({ rptSha256 }) => rptSha256),
      ...(leases ? [questions.map(({ lease }) => lease)] : []),
    ])
    const answers: (Reading | undefined)[] = questions.map(() => undefined)
    for (const row of rows) {
      if (row.standby) throw takesNoWrites()
      answers[row.place - 1] = readingOf(row)
    }
    return answers
  }
  return gatheringOf(readTogether, {
    owner: ({ owner }) => owner,
    together: TOGETHER_MAX,
    atOnce: READS_AT_ONCE,
  })
}
