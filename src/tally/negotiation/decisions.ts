/**
 * A tally's answer to an agreement: it decides nothing, so it holds the agreement while holders are asked,
 * and makes a grant of what they signed. Contract: "Tally for a jointly held resource", "Grant answer (beat
 * 4)".
 */
import { operationOf } from '../../rules/agreement.ts'
import { isAllowing, lastingLongest } from '../../rules/joint/collection.ts'
import type { GrantContent } from '../../rules/grant-content.ts'
import { grantScope, operationConsequence } from '../../rules/permission.ts'
import { countAgain, readAnswers, type AnswerRow } from '../../storage/tally/answers.ts'
import { readAccount } from '../../storage/tally/accounts.ts'
import { recordGrant } from '../../storage/tally/grants.ts'
import { endNegotiation, holdNegotiation, readNegotiation } from '../../storage/tally/negotiations.ts'
import { grantContent, signGrant } from '../../surface/token/grant.ts'
import type { Agreed, Collected, Decision, Decisions } from '../../surface/token/negotiation.ts'
import { s256Json } from '../../wire/encoding.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { totalWeight, type Mandate } from '../../wire/joint/mandate.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { TallyLimits, TallyStore } from '../context.ts'
import type { Wakes } from '../wakes.ts'
import type { Collector } from './collector.ts'
import type { GovernedAccount, TallyNegotiation } from './negotiations.ts'

export interface TallyDecisionContext extends Signer, TallyStore {
  limits: TallyLimits
  collector: Collector
  wakes: Wakes
}

const DENIED = 'The holders of this resource did not allow this request.'
const TAKEN_BACK = 'The approval of the holders was taken back, or has expired: make the call again.'

/** Holders decide, at their own authorization servers. */
export function decisionsOf(of: TallyDecisionContext): Decisions<TallyNegotiation, GovernedAccount> {
  const { database } = of
  return {
    decide: agreed => hold(of, agreed),
    refuse: async ({ account, family }, _agent, { code }) => {
      await endNegotiation(database.of(account), { account, family }, 'denied')
      of.log.info({ account, family, reason: code }, 'an agreement was refused')
    },
    happened: (account, ms) => of.wakes.next(account, ms),
    collect: row => collect(of, row),
    deny: async row => {
      await endNegotiation(database.of(row.account), row, 'denied')
      return { sentence: DENIED }
    },
    withdraw: async row => {
      if (await endNegotiation(database.of(row.account), row, 'ended')) of.collector.close(row)
    },
  }
}

/** It waits for the holders, who are asked at once. */
async function hold(
  of: TallyDecisionContext,
  agreed: Agreed<TallyNegotiation, GovernedAccount>,
): Promise<Decision> {
  const { family: row, governed, template, agreement, agent, nextHash } = agreed
  const db = of.database.of(row.account)
  const { terms, mandate, version, server, resource } = governed
  const { claims } = agreement
  // Holders get only the agreement, because they would have to trust us for anything that it does not say.
  if (claims['resource_id'] === undefined) {
    await endNegotiation(db, row, 'denied')
    return {
      kind: 'refused',
      sentence: 'resource_id: repeat the resource_id of the offered terms unchanged.',
    }
  }
  const operation = operationOf(claims)
  // Members of what is stored of a grant are read by the database, which reads none beside a NUL.
  if (operation?.tool.includes('\0')) {
    await endNegotiation(db, row, 'denied')
    return { kind: 'refused', sentence: 'operation: name the tool without NUL.' }
  }
  const scopes = grantScope(row.resource_scopes, terms.scope, claims['scope'] as string[])
  if (scopes.length === 0) {
    await endNegotiation(db, row, 'denied')
    return {
      kind: 'refused',
      sentence: 'scope: nothing that the call needs is both offered and agreed.',
    }
  }
  const content = grantContent({
    family: row,
    template,
    agreement,
    handle: agent.handle,
    server,
    resource,
    scopes,
    expiresIn: Math.min(terms.expires_in, claims['expires_in'] as number),
    singleUse: terms.per_operation,
    operation,
  })
  const named = operation && { tool: operation.tool, params_s256: s256Json(operation.params) }
  const isPending = await holdNegotiation(db, {
    account: row.account,
    family: row.family,
    version,
    held: { content, named: named ?? null },
    ticketHash: nextHash,
    awaitingSeconds: of.limits.awaitingSeconds,
    holders: mandate.holders,
  })
  // The mandate has changed since the offer, so other holders must be asked, under their own terms.
  if (!isPending) return { kind: 'terms-changed' }
  const waiting = await readNegotiation(db, row.account, row.family)
  if (waiting !== undefined) of.collector.goOn(waiting)
  return { kind: 'waiting', as: 'operation' }
}

/** Makes the grant from the existing verdicts, once. */
async function collect(of: TallyDecisionContext, row: TallyNegotiation): Promise<Collected> {
  const db = of.database.of(row.account)
  const [account, answers] = await Promise.all([readAccount(db, row.account), readAnswers(db, row)])
  const now = of.now()
  const allowing = answers.filter(answer => isAllowing(answer, now))
  if (account?.version !== row.version) return refused(of, row)
  const { rule } = account.mandate
  const end = now + row.held!.content.expires_in
  const lasting = lastingLongest(allowing, { threshold: rule.threshold, end })
  if (lasting === undefined)
    return (await countAgain(db, row, rule.threshold)) ? { kind: 'terms-changed' } : refused(of, row)
  const content = contentOf(row, { mandate: account.mandate, ...lasting, now })
  const { signed, body } = signGrant(of, content, now)
  const counted = new Set(lasting.counted.map(({ verdict }) => verdict))
  const grant = { ...content, ...signed, account: row.account, version: row.version }
  const outcome = await recordGrant(db, grant, found => {
    const still = found.filter(({ verdict, withdrawn }) => counted.has(verdict) && !withdrawn)
    return still.length === counted.size
  })
  if (outcome === 'granted') return { kind: 'granted', body }
  if (outcome === 'moved') return refused(of, row)
  const current = await readNegotiation(db, row.account, row.family)
  // A holder withdrew hers meanwhile, so the others are counted again.
  if (current?.state === 'awaiting_holders') return { kind: 'terms-changed' }
  return current?.state === 'denied' ? { kind: 'refused', sentence: TAKEN_BACK } : { kind: 'gone' }
}

async function refused(of: TallyDecisionContext, row: TallyNegotiation): Promise<Collected> {
  await endNegotiation(of.database.of(row.account), row, 'denied')
  return { kind: 'refused', sentence: TAKEN_BACK }
}

/** The grant on the strength of the verdicts. */
function contentOf(
  { held }: TallyNegotiation,
  of: { mandate: Mandate; counted: readonly AnswerRow[]; end: number; now: number },
): GrantContent {
  const { mandate, counted, end, now } = of
  const { content, named } = held!
  const weight = counted.reduce((sum, answer) => sum + answer.weight, 0)
  const { threshold } = mandate.rule
  const verdicts = counted.map(({ verdict }) => verdict!)
  const tally = { weight, threshold, total_weight: totalWeight(mandate) }
  // A holder who allowed one operation allowed only one use of it.
  const isBound = content.single_use || verdicts.some(one => 'operation' in parseJws(one).payload)
  return {
    ...content,
    expires_in: end - now,
    ...(isBound && named !== null ? boundTo(content, named) : {}),
    joint: { account: mandate.account, mandate, verdicts, tally },
  }
}

function boundTo(
  { declared }: GrantContent,
  operation: NonNullable<GrantContent['operation']>,
): Pick<GrantContent, 'single_use' | 'operation' | 'consequence'> {
  const consequence = declared === undefined ? null : operationConsequence(declared, operation)
  return { single_use: true, operation, consequence }
}
