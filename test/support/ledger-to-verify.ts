/**
 * Owns what the tests of `usher verify` and of the rules behind it have in common: a ledger's heads and
 * receipts as others hold them, files of them, and what is found.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Terminal } from '../../src/terminal/command.ts'
import type { LedgerKnowledge, LedgerVerdict } from '../../src/verify/index.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { LedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { signAgreement, verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { signReceipt, type ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { runCaptured, type CommandRun } from './captured-terminal.ts'
import { configFolder } from './config-files.ts'
import { BEGINS_MS, LOG_KEY, OWNER } from './sample-ledger.ts'
import { agreementContent, newKey, receiptClaims } from './wire-samples.ts'

export const ISSUER = 'https://as.example'
/** A key that no log has. */
export const OTHER_KEY = newKey()
/** The document with the log's key alone. */
export const KEYS = { keys: [publicJwk(LOG_KEY)] }

const [authority, agent] = [newKey(), newKey()]
/** What every receipt is about. */
export const AGREEMENT = verifyAgreement(signAgreement(agreementContent(), agent))
/** The keys by which receipts of that authority hold, too. */
export const RECEIPT_KEYS = { issuer: ISSUER, log_keys: KEYS.keys, keys: [publicJwk(authority)] }

/** A receipt that the authority signed for `jkt:0`, so many seconds after the first entry. */
export const signedReceipt = (seconds: number, claims: Partial<ReceiptClaims> = {}): string => {
  const iat = BEGINS_MS / 1_000 + seconds
  const its = { iss: ISSUER, owner: asOwner(OWNER), sub: asHandle('jkt:0'), iat }
  return signReceipt(receiptClaims(agent, AGREEMENT, { ...its, ...claims }), authority)
}

/** The claims of a receipt for the entry at that position, as they are known once it is verified. */
export const knownReceipt = (position: number, claims: object = {}) => ({
  claims: {
    iss: ISSUER,
    owner: OWNER as never,
    sub: 'jkt:0' as never,
    agreement: `s256:${position}`,
    iat: (BEGINS_MS + position * 1_000) / 1_000,
    ...claims,
  },
  from: 'receipts.txt:1',
})
/** The full hour after the last of 600 entries, in seconds. */
export const LATER_HOUR = Date.parse('2026-11-28T19:00:00Z') / 1_000

/** Heads as they stand in one file, each in a line. */
export const known = (...heads: LedgerHead[]) =>
  heads.map((head, n) => ({ head, from: `heads.jsonl:${n + 1}` }))

/** What `verify` finds in a file whose log's key is known: codes with positions, and sentences. */
export function findingsOf<Exported>(verify: (file: Exported, knowledge: LedgerKnowledge) => LedgerVerdict) {
  const faults = (file: Exported, knowledge: Partial<LedgerKnowledge>) =>
    verify(file, { keys: [LOG_KEY], ...knowledge }).faults
  return {
    found: (file: Exported, knowledge: Partial<LedgerKnowledge> = {}) =>
      faults(file, knowledge).map(({ code, position, to }) =>
        [code, position, to].filter(one => one !== undefined),
      ),
    sentences: (file: Exported, knowledge: Partial<LedgerKnowledge> = {}) =>
      faults(file, knowledge).map(({ sentence }) => sentence),
  }
}

/** Bytes with one of them changed. */
export const spoil = (bytes: Uint8Array, place: number, by: number) =>
  bytes.map((byte, n) => (n === place % bytes.length ? byte ^ by : byte))

/** The same of a text in ASCII. */
export const spoilText = (text: string, place: number, by: number) =>
  String.fromCharCode(...spoil(Buffer.from(text), place, by & 0x7f || 1))

/** Files for a command to read, called `<name>-<n>.jsonl`. */
export function filesToVerify(name: string): {
  folder: string
  fileOf: (text: string) => string
  linesOf: (...lines: string[]) => string
} {
  const { folder } = configFolder()
  let files = 0
  const fileOf = (text: string): string => {
    const path = join(folder, `${name}-${++files}.jsonl`)
    writeFileSync(path, text)
    return path
  }
  return { folder, fileOf, linesOf: (...lines) => fileOf(lines.map(one => `${one}\n`).join('')) }
}

/** Runs a command that fails by its error, whose sentence is on the error stream then. */
export const endOf = (command: (terminal: Terminal) => Promise<void>): Promise<CommandRun> =>
  runCaptured(terminal =>
    command(terminal).then(
      () => 0,
      (error: { code?: number; name: string; message: string }) => {
        terminal.err(error.message)
        return error.name === 'UsageError' ? 2 : (error.code ?? -1)
      },
    ),
  )
