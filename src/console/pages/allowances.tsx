/**
 * Her allowances: what agents may do at a tier that asks her each time, without asking her. She reads how
 * much is used, lowers or ends one, and makes another. Contract: "Owner API" (`/owner/allowances*`), "Policy
 * vocabulary and tiers".
 */
import { useEffect, useState } from 'preact/hooks'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { nowOf } from '../access/api.ts'
import { useLoaded, useSession } from '../access/session.ts'
import { newForm, type AllowanceForm } from '../allowances/draft.ts'
import { NewAllowance } from '../allowances/form.tsx'
import { AllowanceItem } from '../allowances/item.tsx'
import { Opening } from '../allowances/opening.tsx'
import { nextTurnMs, type ListedAllowance } from '../allowances/record.ts'
import { readAllowances } from '../allowances/store.ts'
import { mayName } from '../allowances/tier-rules.ts'
import { Awaited, Nothing, PageHead } from '../parts/parts.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.allowances

export function AllowancesPage() {
  const { data, fault, reload } = useLoaded(
    readAllowances,
    /^(allowance|policy_changed|decided|connection|organization|reset)/,
  )
  useTurns(data?.allowances, reload)
  const [isMaking, setMaking] = useState(false)
  // A tier keeps to one allowance at most.
  const free = data?.tiers.filter(tier => mayName(tier, '')) ?? []
  return (
    <>
      <PageHead title={W.title} lead={W.lead}>
        {data === undefined || isMaking ? null : (
          <div class="row">
            <button type="button" class="plain" onClick={reload}>
              {W.again}
            </button>
            {free.length === 0 ? null : (
              <button type="button" class="plain" onClick={() => setMaking(true)}>
                {W.add}
              </button>
            )}
          </div>
        )}
      </PageHead>
      <Awaited data={data} fault={fault} reload={reload} />
      {data === undefined ? null : (
        <>
          {free.length === 0 && !isMaking ? <p class="quiet">{W.noTier}</p> : null}
          {isMaking ? <Making tiers={free} onChanged={reload} onLeave={() => setMaking(false)} /> : null}
          {data.allowances.length === 0 && !isMaking ? <Nothing title={W.none} hint={W.noneHint} /> : null}
          <ul class="list">
            {data.allowances.map(one => (
              <AllowanceItem
                key={one.id}
                allowance={one}
                tiers={data.tiers}
                labels={data.labels}
                onChanged={reload}
              />
            ))}
          </ul>
        </>
      )}
    </>
  )
}

/** How much later than a turn the page reads again: its idea of the clock may be ahead by 5 s. */
const TURN_MARGIN_MS = 7_000
/** Within this time more, so that not every open page asks at the same midnight. */
const TURN_SPREAD_MS = 10_000
/** The longest time that a timer of a browser takes. */
const TIMER_MAX_MS = 2 ** 31 - 1

/** Reads again when the clock has made untrue what was read. */
function useTurns(allowances: readonly ListedAllowance[] | undefined, reload: () => void): void {
  const { access } = useSession()
  useEffect(() => {
    const nowMs = nowOf(access) * 1_000
    const next = allowances === undefined ? undefined : nextTurnMs(allowances, nowMs)
    if (next === undefined) return undefined
    const laterMs = TURN_MARGIN_MS + Math.random() * TURN_SPREAD_MS
    const timer = setTimeout(reload, Math.min(next - nowMs + laterMs, TIMER_MAX_MS))
    return () => clearTimeout(timer)
  }, [access, allowances, reload])
}

/** First the form, then what it means. Going back keeps what she wrote. */
function Making(props: { tiers: readonly Tier[]; onChanged: () => void; onLeave: () => void }) {
  const { onChanged, onLeave } = props
  // Those that she could choose when she began: once the rules of one name the allowance, it is none of them.
  const [tiers] = useState(props.tiers)
  const [form, setForm] = useState<AllowanceForm>(() => newForm(tiers[0]?.id ?? '', zoneHere()))
  const [made, setMade] = useState<OwnerAllowance>()
  const [isStored, setStored] = useState(false)
  if (made === undefined)
    return (
      <NewAllowance
        form={form}
        tiers={tiers}
        onChange={changed => setForm(before => ({ ...before, ...changed }))}
        onRead={setMade}
        onLeave={onLeave}
      />
    )
  return (
    <Opening
      allowance={made}
      isNew
      tierId={form.tier}
      onChanged={onChanged}
      onStored={() => setStored(true)}
      onLeave={() => (isStored ? onLeave() : setMade(undefined))}
    />
  )
}

/** The time zone of this device. */
function zoneHere(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone
}
