/**
 * Several requests of one agent for one tool, decided together: each approval is signed separately, and
 * either all are decided or none. What cannot be undone is approved on its own card alone. Contract: "Owner
 * API" (`/owner/pending/decisions`).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import type { PendingItem } from '../../wire/owner/owner-api.ts'
import { ApiFault } from '../access/api.ts'
import { approveAll, denyAll } from '../decision.ts'
import { Chips, Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { ResourceName } from '../parts/resource-name.tsx'
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { DenyForm } from './deny-form.tsx'
import { groupsOf, TOGETHER_MAX, type ItemGroup as GroupOfRequests } from './groups.ts'
import { opensText } from './lasting.ts'
import type { ItemOutcome } from './outcome.ts'
import { Parameters } from './parameters.tsx'

const W = WORDS.waiting

interface Props {
  items: readonly PendingItem[]
  onSettled: (family: string, outcome: ItemOutcome) => void
  /** What waits is no longer what was shown. */
  onChanged: () => void
}

export function Together({ items, ...on }: Props) {
  return (
    <>
      {groupsOf(items.map(({ item }) => item)).map(group => (
        <Group key={group.name} group={group} {...on} />
      ))}
    </>
  )
}

/** What she is about to decide: what was listed when she began and still waits, whatever comes meanwhile. */
interface Chosen {
  what: 'approved' | 'denied'
  items: readonly DecisionItem[]
}

function Group({ group, onSettled, onChanged }: { group: GroupOfRequests } & Omit<Props, 'items'>) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [begun, setChosen] = useState<Chosen>()
  const { all, approvable, deniable, graveCount } = group
  const chosen = begun && stillWaiting(begun, all)
  const decide = ({ what, items }: Chosen, reason = ''): void =>
    run(async () => {
      try {
        const decided = await (what === 'approved'
          ? approveAll(access, items)
          : denyAll(access, items, reason))
        for (const { family } of decided) onSettled(family, { what, here: true })
        setChosen(undefined)
      } catch (error) {
        if (error instanceof ApiFault && error.status === 409) onChanged()
        throw error
      }
    })
  const leave = (): void => setChosen(undefined)
  return (
    <section class="together">
      <p>{W.together(all.length)}</p>
      <About item={all[0]!} />
      {graveCount === 0 ? null : <p class="note warn">{W.graveApart(graveCount)}</p>}
      {all.length > TOGETHER_MAX ? <p class="note">{W.atOnce(TOGETHER_MAX)}</p> : null}
      <Fault text={fault} />
      {chosen === undefined ? (
        <div class="row">
          {approvable.length < 2 ? null : (
            <button
              type="button"
              class="plain"
              onClick={() => setChosen({ what: 'approved', items: approvable })}
            >
              {W.approveTogether}
            </button>
          )}
          <button type="button" class="plain" onClick={() => setChosen({ what: 'denied', items: deniable })}>
            {W.denyTogether}
          </button>
        </div>
      ) : (
        <>
          <Each items={chosen.items} />
          {chosen.what === 'approved' ? (
            <Approval items={chosen.items} busy={busy} onApprove={() => decide(chosen)} onCancel={leave} />
          ) : (
            <DenyForm
              busy={busy}
              confirm={W.denyAll(chosen.items.length)}
              onDeny={reason => decide(chosen, reason)}
              onCancel={leave}
            />
          )}
        </>
      )}
    </section>
  )
}

/** Undefined if all of it was decided elsewhere, or withdrawn. */
function stillWaiting({ what, items }: Chosen, all: readonly DecisionItem[]): Chosen | undefined {
  const left = items.filter(({ family }) => all.some(one => one.family === family))
  return left.length === 0 ? undefined : { what, items: left }
}

function About({ item: { agent, operation, resource_id } }: { item: DecisionItem }) {
  return (
    <dl>
      <Field name={W.agent}>
        <Shown text={agent.handle} isName mono />
      </Field>
      <Field name={W.tool}>
        <Shown text={operation!.tool} isName />
      </Field>
      <Field name={W.resource}>
        <ResourceName id={resource_id} />
      </Field>
    </dl>
  )
}

function Approval(props: {
  items: readonly DecisionItem[]
  busy: boolean
  onApprove: () => void
  onCancel: () => void
}) {
  const { items, busy, onApprove, onCancel } = props
  const opens = [...new Set(items.flatMap(item => item.opens))]
  const back = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => back.current?.focus(), [])
  return (
    <div
      class="asking"
      role="group"
      aria-label={W.approveTogether}
      onKeyDown={event => {
        if (event.key === 'Escape') onCancel()
      }}
    >
      <p>{W.approveAllAsk}</p>
      {opens.length === 0 ? null : (
        <div class="opens">
          <p>{opensText(items)}</p>
          <Chips texts={opens} />
          <p class="note">{WORDS.allowances.togetherOpens}</p>
        </div>
      )}
      <div class="row">
        <button type="button" class="danger" disabled={busy} onClick={onApprove}>
          {W.approveAll(items.length)}
        </button>
        <button ref={back} type="button" class="plain" onClick={onCancel}>
          {W.cancel}
        </button>
      </div>
    </div>
  )
}

/** The parameters of each, as its card shows them. */
function Each({ items }: { items: readonly DecisionItem[] }) {
  return (
    <ol class="each">
      {items.map(({ family, operation }) => (
        <li key={family}>
          <Parameters params={operation!.params} earlier={undefined} />
        </li>
      ))}
    </ol>
  )
}
