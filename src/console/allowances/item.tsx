/**
 * Owns one allowance as she sees it: its card in words, how much of it is used, and her acts. Contract:
 * "Owner API" (`/owner/allowances*`).
 */
import { useState } from 'preact/hooks'
import { otherLine } from '../../rules/words/allowance-words.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { nowOf } from '../access/api.ts'
import { useSession } from '../access/session.ts'
import { Part } from '../organization/commitment.tsx'
import { Asking } from '../parts/parts.tsx'
import { sentenceOf, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { TimePart, Unbounded } from './card.tsx'
import { EditNotice, LimitList, useEdits } from './edits.tsx'
import { Opening } from './opening.tsx'
import { endedAt, isOver, type ListedAllowance } from './record.ts'
import { TierCard, TierStanding } from './tier-card.tsx'
import { isOpen } from './tier-rules.ts'
import { LineageUse } from './use.tsx'

const W = WORDS.allowances

interface ItemProps {
  allowance: ListedAllowance
  tiers: readonly Tier[]
  /** Her names for agents, by handle. */
  labels: ReadonlyMap<string, string>
  onChanged: () => void
}

export function AllowanceItem({ allowance, tiers, labels, onChanged }: ItemProps) {
  const { access } = useSession()
  const edits = useEdits(allowance, onChanged)
  const [openingAt, setOpeningAt] = useState<string>()
  const { id, version, among, use } = allowance
  const hasEnded = isOver(allowance, nowOf(access))
  const tierOf = (tier_id: string): Tier | undefined => tiers.find(one => one.id === tier_id)
  const ids = Object.keys(allowance.tiers)
  const isInForce = tiers.some(one => ids.includes(one.id) && isOpen(one, id))
  return (
    <li class={`item${hasEnded ? ' past' : ''}`} data-allowance={id}>
      <div class="item-head">
        <h2>
          <Shown text={id} isName />
        </h2>
        <span class={`tag ${isInForce && !hasEnded ? 'good' : ''}`}>
          {hasEnded ? W.over : isInForce ? W.inForce : W.idle}
        </span>
      </div>
      <p class="small quiet">{W.version(version)}</p>
      <EditNotice edits={edits} />
      <Part title={W.limits}>
        <LimitList allowance={allowance} {...(hasEnded ? {} : { edits })} />
        <Unbounded allowance={allowance} />
        {among === 'all' && use?.[0] === undefined ? <p class="quiet">{W.useUnknown}</p> : null}
      </Part>
      {among === 'all' ? null : (
        <Part title={W.use} hint={W.lineage}>
          <LineageUse allowance={allowance} labels={labels} />
        </Part>
      )}
      <TimePart allowance={allowance} />
      {ids.length === 0 ? <p class="note">{sentenceOf(otherLine(allowance))}</p> : null}
      {ids.map(one => (
        <TierCard key={one} allowance={allowance} id={one} name={tierOf(one)?.name ?? one}>
          {openingAt === one ? (
            <Opening
              allowance={allowance}
              isNew={false}
              tierId={one}
              onChanged={onChanged}
              onLeave={() => setOpeningAt(undefined)}
            />
          ) : (
            <TierStanding
              allowance={id}
              tier={tierOf(one)}
              onOpen={hasEnded ? undefined : () => setOpeningAt(one)}
            />
          )}
        </TierCard>
      ))}
      {hasEnded ? null : (
        <div class="row">
          <Asking
            kind="plain deny"
            label={W.end}
            about={id}
            asks={W.endAsk}
            confirm={W.endNow}
            busy={edits.busy}
            onConfirm={() =>
              edits.store({ shown: allowance, body: endedAt(allowance, nowOf(access)), what: 'ended' })
            }
          />
        </div>
      )}
    </li>
  )
}
