/**
 * Several requests of one agent for one tool, decided together: each is signed separately, and either all are
 * decided or none. Contract: "Owner API" (`/owner/pending/decisions`).
 */
import type { DecisionItem } from '../../wire/decision-item.ts'
import type { PendingItem } from '../../wire/owner-api.ts'
import { approveAll } from '../decision.ts'
import { Asking, Fault } from '../parts.tsx'
import { useDeed, useSession } from '../session.ts'
import { Shown } from '../shown.tsx'
import { WORDS } from '../words.ts'
import type { Outcome } from './outcome.ts'
import { canonicalize } from '../../wire/json.ts'

const W = WORDS.waiting
/** How many the API accepts at once. */
const MOST = 50

interface Props {
  items: readonly PendingItem[]
  onSettled: (family: string, outcome: Outcome) => void
}

export function Together({ items, onSettled }: Props) {
  const groups = new Map<string, DecisionItem[]>()
  for (const { item } of items) {
    if (item.kind !== 'operation' || item.operation === undefined) continue
    const name = canonicalize([item.agent.handle, item.operation.tool, item.resource_id])
    groups.set(name, [...(groups.get(name) ?? []), item])
  }
  return (
    <>
      {[...groups]
        .filter(([, all]) => all.length > 1)
        .map(([name, all]) => (
          <Group key={name} items={all.slice(0, MOST)} onSettled={onSettled} />
        ))}
    </>
  )
}

function Group({ items, onSettled }: { items: DecisionItem[]; onSettled: Props['onSettled'] }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const tool = items[0]!.operation!.tool
  const decide = async (): Promise<void> => {
    for (const { family } of await approveAll(access, items))
      onSettled(family, { what: 'approved', here: true })
  }
  return (
    <section class="together">
      <p>
        <Shown text={W.together(items.length, tool)} />
      </p>
      <Fault text={fault} />
      <Asking
        label={W.select}
        asks={`${W.approveAll(items.length)}: ${items.map(one => canonicalize(one.operation!.params)).join(' · ')}`}
        confirm={W.approveAll(items.length)}
        busy={busy}
        onConfirm={() => run(decide)}
      />
    </section>
  )
}
