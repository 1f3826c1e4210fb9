/**
 * Batches reads of grants that resource servers ask about: those of one owner that are asked for at the same
 * time go to Postgres as one statement. Contract: "Grant (RPT) liveness".
 */
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from './batch.ts'
import { takesNoWrites } from './connection.ts'
import type { Prepared, Runner } from './database.ts'

/** One grant that is asked about, and the server that asks. */
export interface GrantQuestion {
  /** Of a person, or of an account that several hold. */
  owner: Owner
  clientId: ClientId
  rptSha256: Buffer
  /** The lease that the asking sidecar names; only if `read` takes it. */
  lease?: string
}

/** The columns of every row beside the grant. */
export interface PlacedRow {
  /** Of its question among those asked together, from 1. */
  place: number
  /** Whether this server takes no writes, and so cannot say which grants are live. */
  standby: boolean
}

/**
 * A reader of grants. `read` takes the owner, the client ids and the digests of the RPTs, where `leases` says
 * so the leases, too, and answers a row for each place. Nothing is consumed and nothing remembered; the
 * statement itself proves that it was answered by the primary.
 */
export function grantReads<Row extends PlacedRow, Reading>(
  read: Prepared<Row>,
  readingOf: (row: Row) => Reading | undefined,
  { leases = false }: { leases?: boolean } = {},
): (calls: Runner, question: GrantQuestion) => Promise<Reading | undefined> {
  const readTogether = async (
    calls: Runner,
    questions: GrantQuestion[],
  ): Promise<(Reading | undefined)[]> => {
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
