/**
 * The operators behind her agents: which ones she blocks, and which are her own. Contract: "Owner API"
 * (operators).
 */
import type { Operator } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { Asking, Awaited, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'

const W = WORDS.operators

const load = (access: Access): Promise<Operator[]> => askAll<Operator>(access, 'owner/operators')

export function OperatorsPage() {
  const { data, fault, reload } = useLoaded(
    load,
    /^(decided|connect|revoked|blocked|unblocked|operator|reset)/,
  )
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <Awaited data={data} fault={fault} reload={reload} />
      {data?.length === 0 ? <Nothing title={W.none} hint={W.noneHint} /> : null}
      <ul class="list">
        {data?.map(one => (
          <OperatorItem key={one.origin} operator={one} onChanged={reload} />
        ))}
      </ul>
    </>
  )
}

function OperatorItem({ operator, onChanged }: { operator: Operator; onChanged: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { origin, name, agents, active, blocked, blocked_at, mine } = operator
  const act = (verb: 'block' | 'unblock' | 'claim' | 'disclaim'): void =>
    run(async () => {
      await ask(access, { method: 'POST', path: `owner/operators/${verb}`, body: { origin } })
      onChanged()
    })
  return (
    <li class="item" data-origin={origin}>
      <div class="item-head">
        <h2>
          <Shown text={origin} isName />
        </h2>
        {mine ? <span class="tag good">{W.mine}</span> : null}
        {blocked ? (
          <span class="tag bad">
            {W.blocked}
            {blocked_at === null ? '' : ` ${W.since} ${whenText(blocked_at)}`}
          </span>
        ) : null}
      </div>
      {name === null ? null : (
        <p class="quiet">
          <Shown text={name} />
        </p>
      )}
      <p>{W.agents(active, agents)}</p>
      <Fault text={fault} />
      <div class="row">
        <button type="button" class="plain" disabled={busy} onClick={() => act(mine ? 'disclaim' : 'claim')}>
          {mine ? W.disclaim : W.claim}
        </button>
        {blocked ? (
          <button type="button" class="plain" disabled={busy} onClick={() => act('unblock')}>
            {W.unblock}
          </button>
        ) : (
          <Asking
            kind="plain deny"
            label={W.block}
            asks={WORDS.waiting.blockAsk(origin)}
            confirm={W.blockNow}
            busy={busy}
            onConfirm={() => act('block')}
          />
        )}
      </div>
    </li>
  )
}
