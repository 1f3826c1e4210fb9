/**
 * Owns the subcommands of `usher verify`; each loads what it verifies only when it is asked for. Contract:
 * "Grant answer (beat 4)", "Events" (row 5).
 */
import type { Command } from 'commander'
import { processTerminal as terminal, UsageError } from './command.ts'
import type { FetchProofs, VerifyLedgerOptions } from './verify-ledger.ts'
import type { VerifyRevocationOptions } from './verify-revocation.ts'

const DOCUMENTS = {
  receipt: 'what an agent signed, what it was granted, and, if her key is given too, what the owner signed',
  grant: 'a grant (RPT), which must live still',
  statement: 'a decision that the owner signed',
}
const LOG_KEYS = 'the keys of the log: what the authority publishes at /ledger/jwks'

/** Adds them to `usher verify`. `loadFetch` gives what asks an authority for proofs, where one is named. */
export function addVerifiers(verify: Command, loadFetch: () => Promise<FetchProofs>): void {
  verify.description(
    'whether a receipt, a grant, a signed decision, a head or a ledger holds, or a call came after a revocation, by keys that you have; asks nobody',
  )
  for (const kind of ['receipt', 'grant', 'statement'] as const)
    verify
      .command(kind)
      .argument('<file>', 'the document, as it was given out; - reads it from the input')
      .requiredOption(
        '--keys <file>',
        "the keys: a JWKS of the authority, or the owner's of `usher owner key export`",
      )
      .description(DOCUMENTS[kind])
      .action(async (file: string, { keys }: { keys: string }) => {
        const { verifyDocument } = await import('./verify-command.ts')
        await verifyDocument(kind, { file, keys }, { terminal, now: nowInSeconds() })
      })
  verify
    .command('heads')
    .argument('<files...>', 'what `usher sidecar heads --json` printed, or receipts, one a line')
    .requiredOption('--keys <file>', `${LOG_KEYS}; or {issuer, log_keys, keys}`)
    .option('--ledger <file>', 'a whole ledger that they must fit: what `usher owner ledger export` wrote')
    .description('whether heads of ledgers that several people hold contradict each other, or a ledger')
    .action(async (files: string[], { keys, ledger }: { keys: string; ledger?: string }) =>
      (await import('./verify-heads.ts')).verifyHeads(
        { files, keys, ledger },
        { terminal, now: nowInSeconds() },
      ),
    )
  addLedger(verify, loadFetch)
  addRevocation(verify)
}

function addLedger(verify: Command, loadFetch: () => Promise<FetchProofs>): void {
  verify
    .command('ledger')
    .argument('<file>', 'what `usher owner ledger export` wrote; - reads it from the input')
    .requiredOption('--keys <file>', `${LOG_KEYS}; or {issuer, log_keys, keys}`)
    .option('--heads <files...>', 'heads that you have: of `usher sidecar heads --json`, or receipts')
    .option('--receipts <files...>', 'receipts, one a line, whose promises must be on record')
    .option('--origin <origin>', 'which ledger it must be, as a head names it')
    .option('--from <position>', 'the first entry that the retention has left', position)
    .option('--fetch <issuer>', 'ask this authority to prove that later heads continue the file')
    .description(
      'whether a ledger, or the record of one agent, is what its log signed, and fits heads and receipts of others',
    )
    .action(async (file: string, options: VerifyLedgerOptions) => {
      const { verifyLedgerFile } = await import('./verify-ledger.ts')
      const fetchProofs: FetchProofs = async (...request) => (await loadFetch())(...request)
      await verifyLedgerFile(file, options, { terminal, now: nowInSeconds(), fetchProofs })
    })
}

function addRevocation(verify: Command): void {
  verify
    .command('revocation')
    .argument('<jwt>', 'what `usher owner revocation` printed, or its file; - reads it from the input')
    .requiredOption('--calls <files...>', 'logs of enforcement points; - reads one from the input')
    .requiredOption('--keys <file>', '{issuer, keys, log_keys}: /jwks and /ledger/jwks of the authority')
    .option('--ended <file>', 'the handles that ended, of the entry, if the revocation has only their hash')
    .option(
      '--time-out <ms>',
      'how long a check may take: `deadline_ms`, or what the gateway waits; 2000 if left out',
      milliseconds,
    )
    .option('--lease <ms>', 'how long an answer may be used again; 1900 if left out', milliseconds)
    .description('whether calls were let through after the access was ended, and who is at fault')
    .action(async (jwt: string, options: VerifyRevocationOptions) => {
      const { verifyRevocationCalls } = await import('./verify-revocation.ts')
      await verifyRevocationCalls(jwt, options, { terminal, now: nowInSeconds() })
    })
}

const nowInSeconds = (): number => Math.floor(Date.now() / 1_000)

function position(value: string): number {
  if (!/^[1-9]\d{0,14}$/.test(value))
    throw new UsageError(`Give --from the position of an entry, not ${value}.`)
  return Number(value)
}

function milliseconds(value: string): number {
  if (!/^\d{1,7}$/.test(value)) throw new UsageError(`Give a time in whole milliseconds, not ${value}.`)
  return Number(value)
}
