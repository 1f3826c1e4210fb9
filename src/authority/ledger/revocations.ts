/**
 * Signs revocations once the act has committed, no enforcement point relies on what it ended, and a
 * checkpoint covers its entry. No act waits for more than 2 s for it, and none fails by it. docs/choices.md,
 * "Revocations that prove themselves". Contract: "What the service does" (row 9: revocation is immediate).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { readCheckpoint } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import type { Db } from '../../storage/authority/database.ts'
import { number } from '../../storage/authority/ledger/positions.ts'
import { keepRevocation, listUnsigned, readRevocation } from '../../storage/authority/ledger/revocations.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { headOfCheckpoint } from '../../wire/ledger/ledger-head.ts'
import { signRevocation } from '../../wire/ledger/revocation.ts'
import type { Issuer } from '../../surface/issuer.ts'
import type { LedgerLog, Store } from '../context.ts'

type RevocationSigner = Pick<Issuer, 'issuer' | 'keys'> & Store & Pick<LedgerLog, 'checkpoints'>

/** How long the answer to an act waits for its revocation. */
const WAIT_MS = 2_000
/** A tree is signed once a second, so the next attempt may have to wait for that. */
const ATTEMPT_PAUSE_MS = 200
const SIGNED_PER_SWEEP = 100

/**
 * The revocation of an act whose leases are over, signed now if it was not. Null if that takes too long, as
 * in an outage: it is signed later, and `readSigned` has it then.
 */
export async function awaitRevocation(
  of: RevocationSigner & { db: Db },
  owner: Owner,
  jti: string,
): Promise<string | null> {
  const until = performance.now() + WAIT_MS
  const attempts = async (): Promise<string | undefined> => {
    for (;;) {
      const jwt = await signNow(of, owner, jti)
      if (jwt !== undefined || performance.now() + ATTEMPT_PAUSE_MS > until) return jwt
      await delay(ATTEMPT_PAUSE_MS)
    }
  }
  const signed = await waitAtMost(
    WAIT_MS,
    attempts().catch((err: unknown) => {
      of.log.warn({ err, owner }, 'a revocation was not signed yet')
      return undefined
    }),
  )
  return signed === LATE || signed === undefined ? null : signed
}

/**
 * A revocation by its `jti`, signed now if its act is long over. `jwt` is null until it may be signed;
 * undefined: she has none of this `jti`.
 */
export async function readSigned(
  of: RevocationSigner,
  owner: Owner,
  jti: string,
): Promise<{ jwt: string | null } | undefined> {
  const db = of.database.of(owner)
  const stored = await readRevocation(db, owner, jti)
  if (stored === undefined) return undefined
  if (stored.jwt !== undefined || !stored.settled) return { jwt: stored.jwt ?? null }
  return { jwt: await awaitRevocation({ ...of, db }, owner, jti) }
}

/**
 * Signs what nobody waits for any more, such as what a replica left that ended meanwhile. Where one cannot be
 * signed now, the others cannot either: they are for a later sweep.
 */
export async function signLeftRevocations(of: RevocationSigner, owner: Owner): Promise<void> {
  if (of.checkpoints === undefined) return
  const db = of.database.ofNobody
  const left = await listUnsigned(db, owner, SIGNED_PER_SWEEP)
  for (const jti of left) if ((await awaitRevocation({ ...of, db }, owner, jti)) === null) return
}

/** Undefined while no checkpoint covers its entry. */
async function signNow(
  { db, checkpoints, issuer, keys }: RevocationSigner & { db: Db },
  owner: Owner,
  jti: string,
): Promise<string | undefined> {
  if (checkpoints === undefined) return undefined
  await number(db, owner)
  await checkpoints.sign(db, owner)
  const checkpoint = await readCheckpoint(db, owner, checkpoints.base)
  const stored = await readRevocation(db, owner, jti)
  if (stored?.jwt !== undefined) return stored.jwt
  if (stored?.entry === undefined || checkpoint === undefined || checkpoint.size < stored.entry.seq)
    return undefined
  const { ends, ended, at, entry } = stored
  const jwt = signRevocation(
    {
      iss: issuer,
      owner,
      jti,
      iat: Math.floor(Date.parse(entry.ts) / 1_000),
      at,
      ends,
      ended,
      seq: entry.seq,
      ledger_head: headOfCheckpoint(checkpoint.note, checkpoint.kid),
    },
    keys[0],
  )
  return keepRevocation(db, owner, { jti, jwt })
}
