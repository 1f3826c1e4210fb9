/**
 * What verifies an owner's ledger without usher's command line: a program of a stranger reads the file of a
 * ledger, and judges it by keys, heads and receipts that it has; and it judges calls on record by a signed
 * revocation. It asks nobody. docs/proof.md. Contract: "Events" (row 5), "Grant answer (beat 4)".
 */
export { type HeadProofs, type HeadAt } from '../rules/ledger/known-heads.ts'
export { type ReceiptAt } from '../rules/ledger/known-receipts.ts'
export { type LedgerFault, type LedgerFaultCode } from '../rules/ledger/ledger-faults.ts'
export {
  endedGrants,
  judgeCall,
  USUAL_BOUNDS,
  type CallBounds,
  type CallJudgement,
  type CallOutside,
  type CallVerdict,
  type EndedGrants,
} from '../rules/ledger/revocation-verdicts.ts'
export { verifyLedger, type LedgerKnowledge, type LedgerVerdict } from '../rules/ledger/verify-ledger.ts'
export { verifyLedgerLines, type LedgerLines } from '../rules/ledger/verify-lines.ts'
export { verifyRecord } from '../rules/ledger/verify-record.ts'
export { verifyCosignatures, type Cosignature } from '../wire/ledger/cosignature.ts'
export {
  readLedgerExport,
  readLedgerFile,
  type LedgerFile,
  type LedgerFileEntry,
  type LedgerFileStart,
  type LedgerFileTile,
  type LedgerRecord,
  type ProvedEntry,
} from '../wire/ledger/ledger-file.ts'
export { readLedgerHead, verifyLedgerHead, type LedgerHead } from '../wire/ledger/ledger-head.ts'
export { readRecordedCall, type RecordedCall } from '../wire/ledger/recorded-call.ts'
export { verifyRevocation, type RevocationClaims } from '../wire/ledger/revocation.ts'
export { parseVerifierKey, parseWitnessKey, type VerifierKey } from '../wire/ledger/verifier-key.ts'
export { verifyReceipt } from '../wire/negotiation/receipt.ts'
export { Refusal } from '../wire/refusal.ts'
export { parseJwks, type PublishedKey } from '../wire/signatures/keys.ts'
