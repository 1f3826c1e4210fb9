/**
 * Owns her acts on an allowance that she has: she lowers one of its numbers, or ends it. Each is one edit,
 * over the version that she was shown. Contract: "Owner API" (`/owner/allowances/{id}`, If-Match).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { CALLS } from '../../rules/allowance/judge-operation.ts'
import { limitsOf, quantityText, type CardLimit } from '../../rules/words/allowance-words.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { ApiFault } from '../access/api.ts'
import { useDeed, useSession } from '../access/session.ts'
import { Form, FormEnd } from '../parts/form.tsx'
import { Fault } from '../parts/parts.tsx'
import { Shown, shownText } from '../parts/shown.tsx'
import { TextField } from '../parts/text-field.tsx'
import { WORDS } from '../words.ts'
import {
  baseAfter,
  isLower,
  standingAt,
  withNumber,
  type AllowanceMembers,
  type ListedAllowance,
  type StoredEdit,
} from './record.ts'
import { storeOver } from './store.ts'
import { WindowUse } from './use.tsx'

const W = WORDS.allowances

/** How her last act ended: nothing is stored if another device was quicker (`stale`). */
type EditOutcome = 'lowered' | 'ended' | 'stale'

export interface AllowanceEdits {
  /** One is under way, or the page has not read yet what one has stored. */
  busy: boolean
  fault: string | undefined
  outcome: EditOutcome | undefined
  /** The last one that was stored here. */
  last: StoredEdit | undefined
  /** Stores `body` over `shown`, then calls `done`, also if another device was quicker. */
  store: (
    edit: { shown: OwnerAllowance; body: AllowanceMembers; what: EditOutcome },
    done?: () => void,
  ) => void
}

/** Her acts on one allowance, one at a time; what is stored now is read again after each. */
export function useEdits(allowance: ListedAllowance, onChanged: () => void): AllowanceEdits {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [outcome, setOutcome] = useState<EditOutcome>()
  const latest = useRef(allowance)
  latest.current = allowance
  const [replaced, setReplaced] = useState<ListedAllowance>()
  const [last, setLast] = useState<StoredEdit>()
  const store: AllowanceEdits['store'] = ({ shown, body, what }, done) => {
    setOutcome(undefined)
    run(async () => {
      try {
        const stored = await storeOver(access, shown, body)
        setReplaced(latest.current)
        setLast({ over: shown, stored })
        setOutcome(what)
      } catch (error) {
        if (!(error instanceof ApiFault) || error.status !== 412) throw error
        setOutcome('stale')
      } finally {
        // Whatever came of it, she is shown what is stored now.
        onChanged()
      }
      done?.()
    })
  }
  // Until the page has read again, another act would be over a version that is gone by her own. Versions are
  // not compared, because a standby that took over may have lost what she stored.
  return { busy: busy || allowance === replaced, fault, outcome, last, store }
}

/** What came of her last act. An allowance that has ended says so itself. */
export function EditNotice({ edits: { fault, outcome } }: { edits: AllowanceEdits }) {
  return (
    <>
      <Fault text={fault} />
      {outcome === 'stale' ? (
        <p class="notice warn" role="alert">
          {W.stale}
        </p>
      ) : null}
      <div role="status">{outcome === 'lowered' ? <p class="notice good">{W.lowered}</p> : null}</div>
    </>
  )
}

/** Each number, how much of it is used, and the act that lowers it; no act if `edits` is left out. */
export function LimitList({ allowance, edits }: { allowance: ListedAllowance; edits?: AllowanceEdits }) {
  return (
    <ul class="limits">
      {limitsOf(allowance).map(limit => {
        const name = nameOf(limit)
        const standing = standingAt(allowance, limit.place)
        return (
          <li key={name} class="limit" data-limit={name}>
            <p>
              <Shown text={limit.text} />
            </p>
            {limit.ceiling === undefined ? null : (
              <p class="note">
                <Shown text={W.ceiling(limit.ceiling)} />
              </p>
            )}
            {standing === undefined ? null : <WindowUse allowance={allowance} standing={standing} />}
            {edits === undefined ? null : <Lowering allowance={allowance} limit={limit} edits={edits} />}
          </li>
        )
      })}
    </ul>
  )
}

/** It is the same from one version to the next. */
function nameOf({ place }: CardLimit): string {
  return 'each' in place ? `each ${place.each}` : `${place.of} ${place.per}`
}

interface LoweringProps {
  allowance: ListedAllowance
  limit: CardLimit
  edits: AllowanceEdits
}

function Lowering({ allowance, limit, edits }: LoweringProps) {
  // What she was shown when she began: a number is never stored over what came since, but for her own edits.
  const [begun, setBegun] = useState<{ allowance: OwnerAllowance; limit: CardLimit }>()
  const { last } = edits
  const button = useRef<HTMLButtonElement>(null)
  const wasOpen = useRef(false)
  useLayoutEffect(() => {
    if (begun === undefined && wasOpen.current) button.current?.focus()
    wasOpen.current = begun !== undefined
  }, [begun])
  useLayoutEffect(() => {
    // She may have begun two numbers, and has just stored the other one. What she has typed here stays.
    if (last !== undefined) setBegun(one => one && { ...one, allowance: baseAfter(one.allowance, last) })
  }, [last])
  const leave = (): void => setBegun(undefined)
  if (begun === undefined)
    return (
      <button
        ref={button}
        type="button"
        class="link"
        aria-label={`${W.lower}: ${shownText(limit.text)}`}
        // It keeps the focus while it waits, which a disabled button would lose.
        aria-disabled={edits.busy}
        onClick={() => {
          if (!edits.busy) setBegun({ allowance, limit })
        }}
      >
        {W.lower}
      </button>
    )
  const lower = (to: string): void => {
    const body = withNumber(begun.allowance, begun.limit.place, to)
    edits.store({ shown: begun.allowance, body, what: 'lowered' }, leave)
  }
  return <LowerForm {...begun} busy={edits.busy} onLower={lower} onCancel={leave} />
}

function LowerForm(props: {
  allowance: OwnerAllowance
  limit: CardLimit
  busy: boolean
  onLower: (to: string) => void
  onCancel: () => void
}) {
  const { allowance, limit, busy, onLower, onCancel } = props
  const { place, text, most } = limit
  const [to, setTo] = useState('')
  const field = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => field.current?.focus(), [])
  const number = to.trim()
  const isFit = isLower(place, number, most)
  const of = 'of' in place ? place.of : place.each
  const hint = of === CALLS ? W.lowerWhole(most) : W.lowerHint(quantityText(allowance, of, most))
  return (
    <Form
      class="lower"
      onSubmit={() => {
        if (isFit) onLower(number)
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') onCancel()
      }}
    >
      <TextField
        label={W.lowerTo(shownText(text))}
        isExact
        field={field}
        name="lower"
        inputMode="decimal"
        maxLength={25}
        value={to}
        onValue={setTo}
      />
      <p class="note">
        <Shown text={hint} />
      </p>
      <FormEnd disabled={busy || !isFit} onCancel={onCancel}>
        {W.lowerNow}
      </FormEnd>
    </Form>
  )
}
