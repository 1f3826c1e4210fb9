/**
 * Owns one request as she sees it: every fact comes from the record that her decision is bound to, and the
 * agent's own words from the bytes that the agent signed. Contract: "Owner API" (`item`), "Agreement".
 */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { vouchedText } from '../../rules/words/request-sentences.ts'
import { becauseText, wasRevoked } from '../../rules/words/rule-words.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import type { PendingItem } from '../../wire/owner/owner-api.ts'
import { Chips } from '../parts/parts.tsx'
import { ResourceName } from '../parts/resource-name.tsx'
import { Field, sentenceOf, Shown } from '../parts/shown.tsx'
import { agoText, whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { Claims } from './claims.tsx'
import { Decide } from './decide.tsx'
import { lastingText, laterText, opensBy, opensText } from './lasting.ts'
import { outcomeText, type ItemOutcome } from './outcome.ts'
import { Parameters } from './parameters.tsx'
import { useWhole, type EarlierCall, type Whole } from './whole.ts'

const W = WORDS.waiting

interface CardProps {
  pending: PendingItem
  outcome: ItemOutcome | undefined
  onSettled: (outcome: ItemOutcome) => void
  /** The waiting item is no longer the one that was shown. */
  onChanged: () => void
  onDismiss: () => void
}

export function Card({ pending, outcome, onSettled, onChanged, onDismiss }: CardProps) {
  const { item } = pending
  const titleId = `title-${item.family}`
  return (
    <li>
      <article
        class={`card${outcome === undefined ? '' : ` settled ${outcome.what}`}`}
        data-family={item.family}
        tabIndex={-1}
        aria-labelledby={titleId}
      >
        <header class="card-head">
          <p class="card-tags">
            <span class={`tag kind-${item.kind}`}>{W.kinds[item.kind] ?? item.kind}</span>
            <Consequence word={item.consequence} />
          </p>
          <RequestAge at={item.requested_at * 1_000} />
        </header>
        <h2 id={titleId}>
          <Title item={item} />
        </h2>
        <div role="status">
          {outcome === undefined ? null : (
            <p class="outcome">
              <Shown text={outcomeText(outcome)} />
              <button type="button" class="plain" onClick={onDismiss}>
                {W.dismiss}
              </button>
            </p>
          )}
        </div>
        {outcome === undefined ? <Open item={item} onSettled={onSettled} onChanged={onChanged} /> : null}
      </article>
    </li>
  )
}

type OpenProps = Pick<CardProps, 'onSettled' | 'onChanged'> & { item: DecisionItem }

function Open({ item, onSettled, onChanged }: OpenProps) {
  const { whole, fault } = useWhole(item)
  // What is said about an approval and what it lets in are the same.
  const [only, setOnly] = useState(false)
  return (
    <>
      <div class="card-facts">
        <What item={item} earlier={whole?.earlier} />
        <Who item={item} connection={whole?.connection ?? null} />
        <Terms item={item} />
        <Why item={item} />
        <Lasts item={item} only={only} />
        <Others item={item} />
      </div>
      <Claims ownWords={whole?.ownWords} fault={fault} />
      <Decide item={item} only={only} onOnly={setOnly} onSettled={onSettled} onChanged={onChanged} />
    </>
  )
}

function RequestAge({ at }: { at: number }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000)
    return () => clearInterval(timer)
  }, [])
  return (
    <time class="quiet" dateTime={new Date(at).toISOString()} title={whenText(at)}>
      {W.since} {agoText(at, now)}
    </time>
  )
}

function Consequence({ word }: { word: string | undefined }) {
  if (word === undefined) return <span class="tag warn">{W.consequence['unknown']}</span>
  const known = Object.hasOwn(W.consequence, word) ? W.consequence[word] : undefined
  const tone = word === 'reversible' ? 'good' : word === 'compensatable' ? 'warn' : 'bad'
  return <span class={`tag ${tone}`}>{known ?? <Shown text={word} isName />}</span>
}

function Title({ item }: { item: DecisionItem }) {
  const { operation, resource_id, because } = item
  const asksIn = wasRevoked(because) ? W.asksToEnterAgain : W.asksToEnter
  return (
    <>
      <span class="title-lead">{operation === undefined ? asksIn : W.asksFor}</span>
      <span class="title-what">
        {operation === undefined ? <ResourceName id={resource_id} /> : <Shown text={operation.tool} isName />}
      </span>
    </>
  )
}

function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="facts">
      <h3>{title}</h3>
      <dl>{children}</dl>
    </section>
  )
}

function What({ item, earlier }: { item: DecisionItem; earlier: EarlierCall | null | undefined }) {
  const { operation, resource_id, scopes } = item
  return (
    <Section title={W.what}>
      <Field name={W.resource}>
        <ResourceName id={resource_id} />
      </Field>
      {operation === undefined ? (
        <Field name={W.parameters}>{W.anyCall}</Field>
      ) : (
        <Field name={W.parameters}>
          <Parameters params={operation.params} earlier={earlier} />
        </Field>
      )}
      <Field name={W.allowed}>
        <Chips texts={scopes} />
      </Field>
    </Section>
  )
}

function Who({ item, connection }: { item: DecisionItem; connection: Whole['connection'] }) {
  const { agent, operator, assurance } = item
  return (
    <Section title={W.who}>
      <Field name={W.agent}>
        <Shown text={agent.handle} isName mono />
        <span class="note">{W.known[agent.identity]}</span>
      </Field>
      {connection === null ? null : <Standing connection={connection} />}
      <Field name={W.operator}>
        {operator === undefined ? (
          W.noOperator
        ) : (
          <>
            <Shown text={operator.origin} isName mono />
            <span class={`note ${operator.attested ? 'good' : 'warn'}`}>
              {operator.attested ? W.attested : W.unattested}
            </span>
          </>
        )}
      </Field>
      <Field name={W.vouchedFor}>{vouchedText(assurance)}</Field>
    </Section>
  )
}

/** What she herself knows about it; nothing here comes from the agent. */
function Standing({ connection }: { connection: NonNullable<Whole['connection']> }) {
  const { label, first_seen, last_access, revocations } = connection
  return (
    <>
      {label === null ? null : (
        <Field name={W.youCall}>
          <Shown text={label} />
        </Field>
      )}
      <Field name={WORDS.agents.since}>{whenText(first_seen)}</Field>
      <Field name={WORDS.agents.last}>
        {last_access === null ? WORDS.agents.never : whenText(last_access)}
        {revocations === 0 ? null : <span class="note warn">{W.revokedBefore(revocations)}</span>}
      </Field>
    </>
  )
}

function Terms({ item }: { item: DecisionItem }) {
  const { terms, tier, template_id } = item
  return (
    <Section title={W.terms}>
      <Field name={W.purpose}>
        <Shown text={terms.purpose} />
      </Field>
      <Field name={W.prohibited}>
        <Chips texts={terms.prohibited} none={W.nothingProhibited} />
        <span class="note">{W.promised}</span>
      </Field>
      <Field name={W.tier}>
        <Shown text={tier} isName />{' '}
        <span class="quiet small mono">
          <Shown text={template_id} isName />
        </span>
      </Field>
    </Section>
  )
}

function Why({ item }: { item: DecisionItem }) {
  return (
    <section class="facts">
      <h3>{W.why}</h3>
      <p class="sentence">
        <Shown text={sentenceOf(becauseText({ kind: item.kind, because: item.because }))} />
      </p>
    </section>
  )
}

function Lasts({ item, only }: { item: DecisionItem; only: boolean }) {
  const opens = opensBy(item, only)
  const later = laterText(item, only)
  return (
    <section class="facts">
      <h3>{W.long}</h3>
      <p class="sentence">{lastingText(item, opens)}</p>
      {opens.length > 0 ? (
        <div class="opens">
          <p class="sentence">{opensText([item])}</p>
          <Chips texts={opens} />
        </div>
      ) : item.kind === 'connection' && item.opens.length === 0 ? (
        <p class="sentence">{W.opensNone}</p>
      ) : item.kind === 'operation' && item.opens.length > 0 ? (
        <p class="sentence">{WORDS.allowances.opensNoTier}</p>
      ) : null}
      {later === undefined ? null : <p class="sentence">{later}</p>}
    </section>
  )
}

function Others({ item }: { item: DecisionItem }) {
  const { organization, account, holders, rule } = item
  if (organization === undefined && account === undefined) return null
  return (
    <Section title={W.others}>
      {organization === undefined ? null : (
        <Field name={W.organization}>
          <Shown text={organization.name} />
          <span class="note mono">
            <Shown text={organization.issuer} isName />
          </span>
          <span class="note">
            <Shown text={organizationText(organization)} />
          </span>
        </Field>
      )}
      {account === undefined ? null : (
        <Field name={W.account}>
          <Shown text={account} isName />
        </Field>
      )}
      {holders === undefined ? null : (
        <Field name={W.holders}>
          <Chips texts={holders.map(holder => holderText(holder, rule?.total_weight !== holders.length))} />
          {rule === undefined ? null : (
            <span class="note">
              {rule.kind === 'threshold' ? W.threshold(rule.threshold, rule.total_weight) : W.rule[rule.kind]}
            </span>
          )}
        </Field>
      )}
    </Section>
  )
}

/** What her organization says, and for which of its rules. */
function organizationText({ effect, because }: NonNullable<DecisionItem['organization']>): string {
  const effectText = Object.hasOwn(W.organizationSays, effect) ? W.organizationSays[effect]! : effect
  const why = becauseText({ because: because.map(word => `organization:${word}`) })
  return sentenceOf(why === '' ? effectText : `${effectText}: ${why}`)
}

/** Who holds it with her, and how much their word weighs where not each weighs the same. */
function holderText(
  { owner, issuer, weight }: NonNullable<DecisionItem['holders']>[number],
  showsWeight: boolean,
): string {
  return `${owner} at ${issuer}${showsWeight ? W.weighs(weight) : ''}`
}
