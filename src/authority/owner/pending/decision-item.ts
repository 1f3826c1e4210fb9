/**
 * The record of a waiting item that a decision is bound to, and how bound a decision is: to nothing, to the
 * record's hash, or by her signature over that. Contract: "Owner API" (`/owner/pending/{family}/decision`).
 */
import { admissionIn, isFirstContact, statementFault } from '../../../rules/owner-statement.ts'
import type { OwnerDecision } from '../../../rules/grant-content.ts'
import { mayLetThrough, type TierRules } from '../../../rules/tier.ts'
import type { Db } from '../../../storage/authority/database.ts'
import { standingDeviceKeys } from '../../../storage/authority/credentials/device-keys.ts'
import type { PendingRow } from '../../../storage/authority/negotiations/pending.ts'
import { listPassingTiers, type PassingTier } from '../../../storage/authority/policies/tiers.ts'
import { itemDigest, withoutParameters, type DecisionItem } from '../../../wire/owner/decision-item.ts'
import {
  statementClaimsDigest,
  statementDigest,
  verifyStatement,
  type SignedStatement,
  type StatementClaims,
  type StatementKeys,
} from '../../../wire/owner/decision-statement.ts'
import { s256Json } from '../../../wire/encoding.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Json, JsonObject } from '../../../wire/json.ts'
import { importPublicJwk } from '../../../wire/signatures/keys.ts'
import type { DecisionRecord } from '../../../wire/owner/owner-api.ts'
import { refuse, refusingAs } from '../../../wire/refusal.ts'
import type { RelyingParty } from '../../../wire/passkeys/relying-party.ts'
import type { OwnerApi } from '../api.ts'
import { passkeyOf } from '../credentials/own-passkeys.ts'

/** The owner's tiers that approving an item among `rows` could open: of an operation, its own alone. */
export async function tiersFor(db: Db, owner: Owner, rows: readonly PendingRow[]): Promise<PassingTier[]> {
  const hers = rows.filter(({ item }) => item.account === undefined)
  const named = [...new Set(hers.map(({ item }) => item.tier))]
  if (named.length > 1 || hers.some(({ kind }) => kind === 'connection')) return listPassingTiers(db, owner)
  return named[0] === undefined ? [] : listPassingTiers(db, owner, named[0])
}

/** The record of an item; `tiers` are the result of `tiersFor`. */
export function recordOf(row: PendingRow, tiers: readonly PassingTier[]): DecisionItem {
  const { owner, family, handle, held, template, item, operator, attested } = row
  const { account, rule, holders, operation, organization } = item
  const { purpose, scope, expires_in, prohibited } = template
  return {
    v: 1,
    owner,
    family,
    kind: account === undefined ? row.kind : 'joint',
    ...(account !== undefined && { account }),
    ...(rule !== undefined && { rule }),
    ...(holders !== undefined && { holders }),
    resource: held.aud,
    resource_id: held.resource_id,
    scopes: held.scopes,
    tier: held.tier_id,
    template_id: held.template_id,
    terms: { purpose, scope, expires_in, prohibited },
    terms_s256: item.terms_s256 ?? null,
    ...(operation !== null && operationMembers(operation)),
    ...(typeof held.consequence === 'string' && { consequence: held.consequence }),
    agent: { handle, jkt: held.jkt, identity: item.identity.kind },
    ...(operator !== null && { operator: { origin: operator, attested } }),
    ...(organization ? { organization } : {}),
    opens: opensOf(row, tiers),
    assurance: item.assurance,
    because: item.because,
    expires_in: held.expires_in,
    single_use: held.single_use,
    agreement_s256: held.agreement,
    requested_at: Math.floor(Date.parse(row.requested_at) / 1000),
  }
}

function operationMembers({
  tool,
  params,
}: {
  tool: string
  params: unknown
}): Pick<DecisionItem, 'operation' | 'params_s256'> {
  const json = params as Json
  return { operation: { tool, params: json }, params_s256: s256Json(json) }
}

/**
 * The tiers that could let the agent through unasked once she has approved it. An operation is of an agent
 * that is connected already, so its approval opens no tier but its own, and that only if a rule there goes by
 * her approval. The checks of an operation's signer run again with its next call, so what they found closes
 * no tier. Nothing that is held jointly opens any.
 */
function opensOf({ kind, item }: PendingRow, tiers: readonly PassingTier[]): string[] {
  if (item.account !== undefined) return []
  const { tier } = item
  const assurance = kind === 'operation' ? UNKNOWN_ASSURANCE : item.assurance
  const letsThrough = ({ ask_me, rules }: TierRules, approvedAtTier: boolean): boolean =>
    mayLetThrough(
      { ask_me, rules },
      {
        connection: 'active',
        standing: { ...UNKNOWN_STANDING, approvedAtTier },
        assurance,
        request: UNKNOWN_REQUEST,
      },
    )
  // Each `auto` rule is looked at without the others, because nobody knows that another will ever hold.
  const opensByApproval = ({ ask_me, rules }: PassingTier): boolean =>
    rules.some(rule => {
      const alone = { ask_me, rules: rules.filter(one => one === rule || one.then !== 'auto') }
      return letsThrough(alone, true) && !letsThrough(alone, false)
    })
  const isOpened = (one: PassingTier): boolean =>
    kind === 'operation'
      ? one.tier_id === tier && opensByApproval(one)
      : letsThrough(one, one.tier_id === tier)
  return tiers.filter(isOpened).map(({ tier_id }) => tier_id)
}

/** Its later requests are not known now, nor how long she will have known it by then. */
const UNKNOWN_STANDING = {
  neverRevoked: undefined,
  firstParty: undefined,
  firstAtTier: undefined,
  revokedBefore: undefined,
  introduced: undefined,
  lineageNewAtTier: undefined,
}
const UNKNOWN_ASSURANCE = { binding: undefined, provenance: undefined, accountability: undefined }
const UNKNOWN_REQUEST = { expiresInSeconds: undefined, reasonAbsent: undefined, missionAbsent: undefined }

type SubmissionContext = Pick<OwnerApi, 'issuer' | 'now' | 'relyingParty'>

/** What she sends with her decision. */
export interface DecisionSubmission extends Pick<DecisionRecord, 'decision'> {
  item_s256?: string | undefined
  reason?: string | undefined
  statement?: SignedStatement | undefined
  /** A first contact is let in for its tier only; an operation is approved, and nothing at its tier. */
  only?: boolean | undefined
}

/** How a decision is bound, for the ledger; `signed` is kept with it. */
export interface DecisionBinding {
  binding: 'signed' | 'digest' | 'unbound'
  reason?: string | undefined
  signed?: OwnerDecision | undefined
  statement_s256?: string | undefined
}

/**
 * Compares what she sent with the item as it waits now, in the transaction that decides. Refuses 400
 * `invalid_statement`, 403 `statement_key`, and 409 `item_changed` with the present item if she decided on
 * another version; the item then goes on waiting.
 */
export async function boundTo(
  api: SubmissionContext,
  tx: Db,
  row: PendingRow,
  submission: DecisionSubmission,
): Promise<DecisionBinding> {
  const { statement, decision } = submission
  const reason = decision === 'denied' ? submission.reason : undefined
  if (statement === undefined && submission.item_s256 === undefined) return { binding: 'unbound', reason }
  const claims = statement === undefined ? undefined : await verifiedStatement(api, tx, row.owner, statement)
  const item = recordOf(row, await tiersFor(tx, row.owner, [row]))
  const item_s256 = itemDigest(item)
  const named = [submission.item_s256, claims?.item_s256].filter(one => one !== undefined)
  if (named.some(one => one !== item_s256))
    refuse(
      'item_changed',
      'Look at it again: the request that waits is not the one that this decision is about.',
      {
        extra: { item, item_s256 },
      },
    )
  if (claims === undefined || statement === undefined) return { binding: 'digest', reason }
  checkAgrees(claims, { item, item_s256, decision, only: submission.only === true })
  const signed = { item: withoutParameters(item), item_s256, statement }
  return { binding: 'signed', reason, signed, statement_s256: statementDigest(statement) }
}

/**
 * Refuses 409 `statement_replayed` if the statement sent is the one that an item was already `decided` by,
 * and 400 `invalid_statement` if it cannot be read. A statement that was made for the item and not used, as
 * by her other device at the same moment, is not replayed.
 */
export function refuseReplayed(
  { statement }: Pick<DecisionSubmission, 'statement'>,
  decided: OwnerDecision | null | undefined,
  extra: JsonObject,
): void {
  if (statement === undefined || !decided) return
  const sent = refusingAs('invalid_statement', () => statementClaimsDigest(statement))
  if (sent === statementClaimsDigest(decided.statement))
    refuse('statement_replayed', 'This statement decided the request already: what it decided stands.', {
      extra,
    })
}

async function verifiedStatement(
  { issuer, now, relyingParty }: SubmissionContext,
  tx: Db,
  owner: Owner,
  statement: SignedStatement,
): Promise<StatementClaims> {
  const keys = await keysFor(tx, owner, { statement, party: relyingParty() })
  return refusingAs('invalid_statement', () =>
    verifyStatement(statement, keys, { audience: issuer, now: now() }),
  )
}

/** Her credentials that could have signed it; of her passkeys, only the one that it names. */
async function keysFor(
  tx: Db,
  owner: Owner,
  { statement, party }: { statement: SignedStatement; party: RelyingParty | undefined },
): Promise<StatementKeys> {
  if (typeof statement === 'string') {
    const jwks = await standingDeviceKeys(tx, owner)
    return { devices: jwks.map(jwk => importPublicJwk(jwk)), passkeys: [] }
  }
  const named = await passkeyOf(tx, owner, { id: statement.webauthn.id, party })
  return { devices: [], passkeys: named === undefined ? [] : [named] }
}

function checkAgrees(
  claims: StatementClaims,
  of: { item: DecisionItem; item_s256: string; decision: DecisionSubmission['decision']; only: boolean },
): void {
  const { item, item_s256, decision, only } = of
  const fault = statementFault(claims, { ...item, item_s256 })
  if (fault !== undefined) refuse('invalid_statement', `Sign over the ${fault} of the item.`)
  if (claims.decision !== decision) refuse('invalid_statement', 'Sign the decision that you send.')
  if (claims.admits !== admissionIn({ decision, isFirstContact: isFirstContact(item), only }))
    refuse(
      'invalid_statement',
      'Give admits as "all" for an approved first contact, as "tier" for one with only: true, else as null.',
    )
}
