/**
 * Owns `usher verify`: it checks whether a document holds, with keys that the reader has, and without any
 * request. Contract: "Grant answer (beat 4)" (both sides hold the receipt), "RPT claims", "Owner API"
 * (`/owner/pending/{family}/decision`).
 */
import {
  parseStatement,
  statementPayload,
  verifyStatement,
  type SignedStatement,
  type StatementClaims,
} from '../wire/owner/decision-statement.ts'
import { thumbprintHandle } from '../wire/agents/handles.ts'
import { parseJson, type JsonObject } from '../wire/json.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { parseJwks, type PublishedKey } from '../wire/signatures/keys.ts'
import { integerMember, textMember } from '../wire/json-members.ts'
import { readPasskeys, type PinnedPasskey } from '../wire/signatures/pinned-keys.ts'
import { verifyReceipt } from '../wire/negotiation/receipt.ts'
import { Refusal } from '../wire/refusal.ts'
import { verifyRpt } from '../wire/negotiation/tokens.ts'
import { EXIT, Exit, readInput, UsageError, type Terminal } from './command.ts'
import { printable, printableJson } from './printable.ts'

/** What can be verified. */
export type Verifiable = 'receipt' | 'grant' | 'statement'

/** A document's file and the file of the keys; `-` reads the document from the standard input. */
export interface DocumentFiles {
  file: string
  keys: string
}

/**
 * Prints the claims of a document that holds. Fails with exit code 1 and a sentence for one that does not,
 * with `UsageError` if a file cannot be read or the keys are none. `now` in seconds: a grant must still be
 * live; a receipt and a statement are judged as of the time at which they were made, which must not be in the
 * future.
 */
export async function verifyDocument(
  kind: Verifiable,
  files: DocumentFiles,
  { terminal, now }: { terminal: Terminal; now: number },
): Promise<void> {
  const keys = readKeys(files.keys, await readInput(files.keys))
  const compact = (await readInput(files.file)).trim()
  try {
    terminal.out(`${printableJson(VERIFY[kind](compact, keys, now))}\n`)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    terminal.err(`This ${kind} does not hold: ${printable(error.detail ?? error.code)}\n`)
    throw new Exit(EXIT.refused)
  }
}

/** The contents of a file of keys: published keys, and passkeys, which only sign decisions. */
interface KeySets {
  readonly devices: PublishedKey[]
  readonly passkeys: PinnedPasskey[]
}

type Verify = (document: string, keys: KeySets, now: number) => object

const VERIFY: Record<Verifiable, Verify> = {
  receipt: (compact, keys, now) => {
    const issuer = textMember(payloadOf(compact, RECEIPT_BYTES_MAX), 'iss')
    const { claims } = verifyReceipt(compact, keys.devices, { issuer, now })
    const { owner_decision: decision } = claims
    if (decision === undefined) return claims
    const { iss } = statementPayload(decision.statement)
    const isHers = [...keys.devices, ...keys.passkeys].some(key => thumbprintHandle(key) === iss)
    // Her key may be in another file than the authority's keys.
    if (!isHers) return { ...claims, owner_decision: { ...decision, verified: false } }
    const signed = statementAt(decision.statement, keys, claims.iat)
    if (signed.item_s256 !== decision.item_s256 || signed.owner !== claims.owner || signed.aud !== issuer)
      throw new Refusal('invalid_statement', 'The decision in it is about something else.')
    return { ...claims, owner_decision: { ...decision, verified: true } }
  },
  grant: (compact, keys, now) => verifyRpt(compact, keys.devices, { now }),
  statement: (document, keys, now) => statementAt(parseStatement(document), keys, now),
}

/** Judged as of the time when it was signed: her decision stays valid after it can no longer be used. */
function statementAt(statement: SignedStatement, keys: KeySets, now: number): StatementClaims {
  const payload = statementPayload(statement)
  const signedAt = integerMember(payload, 'iat')
  return verifyStatement(statement, keys, {
    audience: textMember(payload, 'aud'),
    now: Math.min(now, signedAt),
  })
}

const RECEIPT_BYTES_MAX = 128 * 1024

function payloadOf(compact: string, bytesMax?: number): JsonObject {
  return parseJws(compact, bytesMax).payload
}

/** A JWKS: of an authority, or what `usher owner key export` wrote; one file may have both. */
function readKeys(path: string, source: string): KeySets {
  try {
    const jwks = parseJson(source)
    const keys = { devices: parseJwks(jwks), passkeys: readPasskeys(jwks) }
    if (keys.devices.length + keys.passkeys.length > 0) return keys
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
  }
  throw new UsageError(`${path} holds no Ed25519 key and no passkey: give a JWKS, {"keys": [public JWK, …]}.`)
}
