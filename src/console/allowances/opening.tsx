/**
 * Owns the step in which a tier is opened within an allowance: she reads to whom it opens at once and what
 * each may then do unasked, says yes, and both are stored: first the allowance, then the rules of the tier.
 * Contract: "Policy vocabulary and tiers", "Owner API" (`/owner/allowances/{id}`,
 * `/owner/policies/{tier_id}`).
 */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Connection } from '../../wire/owner/owner-api.ts'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { Part } from '../organization/commitment.tsx'
import { AgreementBox, useAgreement } from '../parts/agreement-box.tsx'
import { takeLostFocus, useFocusHandover } from '../parts/focus.ts'
import { Form, FormEnd } from '../parts/form.tsx'
import { Awaited, Chips, Fault } from '../parts/parts.tsx'
import { Shown, shownText } from '../parts/shown.tsx'
import { RuleLines } from '../rules/rule-lines.tsx'
import { Warnings } from '../rules/trial.tsx'
import { WORDS } from '../words.ts'
import { AllowanceCard } from './card.tsx'
import { membersOf } from './record.ts'
import { openWithin, readTierToOpen, storeNew, type TierReading } from './store.ts'
import { hasOtherWay, isOpen, mayName, missingRules, unnamedAt } from './tier-rules.ts'

const W = WORDS.allowances

interface OpeningProps {
  allowance: OwnerAllowance
  /** It is not stored yet. */
  isNew: boolean
  tierId: string
  /** Something was stored. */
  onChanged: () => void
  /** The allowance itself was. */
  onStored?: () => void
  onLeave: () => void
}

/** What changes who is let through, and how far. */
const EVENTS = /^(allowance|policy_changed|decided|connection|organization|joint|reset)/

export function Opening({ allowance, isNew, tierId, onChanged, onStored, onLeave }: OpeningProps) {
  const { id } = allowance
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [isStored, setStored] = useState(!isNew)
  const {
    data,
    fault: unread,
    reload,
  } = useLoaded(at => readTierToOpen(at, tierId, isStored ? id : undefined), EVENTS)
  /** What the authority warned of when it was opened. */
  const [warnings, setWarnings] = useState<readonly string[]>()
  const heading = useRef<HTMLHeadingElement>(null)
  /** What has the focus until there is a heading. */
  const unreadPart = useRef<HTMLDivElement>(null)
  const tier = data?.tier
  const tierName = tier?.name ?? tierId
  const title = W.opensTitle(id, shownText(tierName))
  const isRead = data !== undefined
  const isDone = warnings !== undefined || (isStored && tier !== undefined && isOpen(tier, id))
  // What has the focus goes away with each step; the button that opens is disabled before it does.
  useLayoutEffect(() => takeLostFocus(heading.current ?? unreadPart.current), [isRead, isDone])
  useFocusHandover(() => heading.current?.closest('form') ?? unreadPart.current)
  // Once it is stored, another device may have changed it: her yes is to what is stored.
  const asRead = data?.stored ?? allowance
  const { isAgreed, setAgreed } = useAgreement(data === undefined ? '' : nameOf(data, asRead))
  const open = async (): Promise<void> => {
    if (tier === undefined) return
    try {
      const agreed = isStored ? asRead : await storeNew(access, id, membersOf(allowance))
      setStored(true)
      onStored?.()
      setWarnings(await openWithin(access, tier, agreed))
    } finally {
      // Whatever came of it, she is shown what is stored now.
      reload()
      onChanged()
    }
  }
  const awaited = <Awaited data={data} fault={unread} reload={reload} />
  if (data === undefined)
    return (
      <div class="panel preview" role="group" aria-label={title} tabIndex={-1} ref={unreadPart}>
        <Leaving onLeave={onLeave}>{awaited}</Leaving>
      </div>
    )
  // The card of one that she has stands above, as the page read it last.
  const hasCard = isNew || asRead.version !== allowance.version
  const missing = missingRules(tier?.rules ?? [], id)
  // If a rule let through before, the allowance only takes back.
  const opensNew = missing.some(({ then }) => then === 'auto')
  // The page does not know who passes by another rule: it may go by the age of an agent, or by its past.
  const isOpenOtherwise = hasOtherWay(tier?.rules ?? [])
  const none = isOpenOtherwise ? W.approvedNobody : opensNew ? W.opensToNobody : W.boundsNobody
  // An attempt may have stored something, though its answer was lost.
  const isTried = busy || fault !== undefined
  return (
    <Form class="panel preview" aria-label={title} data-opening={tierId} onSubmit={() => run(open)}>
      {isNew ? (
        <h2 tabIndex={-1} ref={heading}>
          {title}
        </h2>
      ) : (
        <h3 tabIndex={-1} ref={heading}>
          {title}
        </h3>
      )}
      {awaited}
      <Outcome isDone={isDone} isHalf={isNew && isStored && !busy} id={id} tierName={tierName} />
      {isDone ? (
        <Leaving onLeave={onLeave}>
          <Warnings warnings={warnings ?? []} />
        </Leaving>
      ) : tier === undefined || !mayName(tier, id) ? (
        <Leaving onLeave={onLeave}>
          <p class="notice warn">
            {tier === undefined ? W.noSuchTier : tier.ask_me ? W.namesOther : W.notAsking}
          </p>
        </Leaving>
      ) : (
        <>
          {isStored || isTried ? null : <p class="quiet">{W.opensLead}</p>}
          <Part title={opensNew ? W.opensTo : W.boundsFor}>
            <OpenedAgents agents={data.agents} none={none} />
            {isOpenOtherwise ? <p class="note">{W.opensOtherwise}</p> : null}
            <p class="note">{W.opensToThen}</p>
          </Part>
          {hasCard ? (
            <>
              <p>{W.eachMay}</p>
              <AllowanceCard allowance={asRead} tierId={tierId} tierName={tierName} />
            </>
          ) : null}
          <Unnamed unnamed={unnamedAt(asRead, tierId, data.waiting)} isWritten={isNew && !isStored} />
          <AddedRules rules={missing} />
          <AgreementBox text={W.agree(id, tierName)} isAgreed={isAgreed} onChange={setAgreed} />
          <Fault text={fault} />
          <FormEnd disabled={busy || unread !== undefined || !isAgreed} onCancel={onLeave}>
            {isStored ? W.openNow : W.save}
          </FormEnd>
        </>
      )}
    </Form>
  )
}

/** What came of it, also for whoever hears the page. `isHalf`: the allowance is stored; no rule names it. */
function Outcome(props: { isDone: boolean; isHalf: boolean; id: string; tierName: string }) {
  const { isDone, isHalf, id, tierName } = props
  const notice = isDone ? (
    <p class="notice good">
      <Shown text={W.opened(id, tierName)} />
    </p>
  ) : isHalf ? (
    <p class="notice warn">
      <Shown text={W.halfStored(id, tierName)} />
    </p>
  ) : null
  return <div role="status">{notice}</div>
}

/**
 * What her yes is about: if another version of the allowance or of the tier, or another agent, comes up, it
 * is said anew.
 */
function nameOf({ tier, agents }: TierReading, { version }: OwnerAllowance): string {
  return JSON.stringify([version, tier?.terms.template_id ?? null, ...agents.map(({ handle }) => handle)])
}

function AddedRules({ rules }: { rules: ReturnType<typeof missingRules> }) {
  return (
    <Part title={W.rulesThen}>
      <RuleLines rules={rules} />
      <p class="note">{W.newVersion}</p>
    </Part>
  )
}

/** Of so many parameters the names are shown: an agent chose them. */
const NAMES_SHOWN = 10

/** Parameters that put whatever has one beyond the allowance. `isWritten`: going back leads to its form. */
function Unnamed(props: { unnamed: ReturnType<typeof unnamedAt>; isWritten: boolean }) {
  const { unnamed, isWritten } = props
  if (unnamed === undefined) return null
  return (
    <div class="notice warn">
      <p>
        {unnamed === 'none' ? W.namesNone : W.namesTooFew} {isWritten ? W.nameThem : W.nameThemLater}
      </p>
      {unnamed === 'none' ? null : <Chips texts={unnamed.slice(0, NAMES_SHOWN)} />}
    </div>
  )
}

function Leaving({ children, onLeave }: { children: ComponentChildren; onLeave: () => void }) {
  return (
    <>
      {children}
      <div class="row">
        <button type="button" class="plain" onClick={onLeave}>
          {W.close}
        </button>
      </div>
    </>
  )
}

function OpenedAgents({ agents, none }: { agents: readonly Connection[]; none: string }) {
  if (agents.length === 0) return <p>{none}</p>
  return (
    <ul class="sentences">
      {agents.map(({ handle, label }) => (
        <li key={handle} data-agent={handle}>
          {label === null ? WORDS.agents.unnamed : <Shown text={label} />}{' '}
          <span class="quiet small mono">
            <Shown text={handle} isName mono />
          </span>
        </li>
      ))}
    </ul>
  )
}
