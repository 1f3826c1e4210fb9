/**
 * The agents she knows: what each may do, what it did, and how its access ends. Contract: "Owner API"
 * (connections).
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Blocked, Connection, LedgerEntry, Revoked } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { LedgerLine } from '../ledger/line.tsx'
import { MarksNotice, pathWithBodies, useMarks } from '../ledger/marks.tsx'
import { Form, FormEnd } from '../parts/form.tsx'
import { Asking, Awaited, Chips, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession, type PageProps } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { TextField } from '../parts/text-field.tsx'
import { inListOrder, type FirstListed } from '../agent-order.ts'

const W = WORDS.agents
/** How many entries about its acts are read at a time. */
const DEEDS = 12

const load = (access: Access): Promise<Connection[]> => askAll<Connection>(access, 'owner/connections')

export function AgentsPage({ query }: PageProps) {
  const { data, fault, reload } = useLoaded(
    load,
    /^(decided|connect|revoked|blocked|touched|introduced|organization|joint|reset)/,
  )
  const target = query.get('handle')
  const firstListed = useRef<FirstListed>(new Map())
  const agents = inListOrder(data ?? [], firstListed.current)
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <Awaited data={data} fault={fault} reload={reload} />
      {data?.length === 0 ? <Nothing title={W.none} hint={W.noneHint} /> : null}
      <ul class="list">
        {agents.map(one => (
          <Agent key={one.handle} agent={one} isTarget={one.handle === target} onChanged={reload} />
        ))}
      </ul>
    </>
  )
}

function Agent({
  agent,
  isTarget,
  onChanged,
}: {
  agent: Connection
  isTarget: boolean
  onChanged: () => void
}) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [ended, setEnded] = useState<string>()
  const place = useRef<HTMLLIElement>(null)
  useEffect(() => {
    if (isTarget) place.current?.scrollIntoView({ block: 'start' })
  }, [isTarget])
  const { handle, label, status, operators, tiers_approved, tiers_granted, introduced_by, reach, admits } =
    agent
  const isActive = status === 'active'
  const revoke = async (): Promise<void> => {
    const done = await ask<Revoked>(access, {
      method: 'POST',
      path: 'owner/connections/revoke',
      body: { handle },
    })
    setEnded(
      W.ended(W.grants(done.rpts_deactivated, done.rpts_deactivated_more === true), done.connections_revoked),
    )
    onChanged()
  }
  return (
    <li class={`item${isActive ? '' : ' past'}${isTarget ? ' wanted' : ''}`} ref={place} data-handle={handle}>
      <div class="item-head">
        <h2>{label === null ? W.unnamed : <Shown text={label} />}</h2>
        <span class={`tag ${isActive ? 'good' : ''}`}>
          {isActive ? W.active : isBlocked(agent) ? W.blocked : W.revoked}
        </span>
      </div>
      <p class="mono small handle">
        <Shown text={handle} isName mono />
      </p>
      <dl class="pairs">
        <Field name={W.since}>{whenText(agent.first_seen)}</Field>
        <Field name={W.last}>{agent.last_access === null ? W.never : whenText(agent.last_access)}</Field>
        <Field name={W.approved}>
          <Chips texts={tiers_approved} none={W.noApproval} />
        </Field>
        <Field name={W.granted}>
          <Chips texts={tiers_granted} none={W.never} />
        </Field>
        {admits === undefined || !isActive ? null : <Field name={W.admitted}>{W.admits[admits]}</Field>}
        {operators.length === 0 ? null : (
          <Field name={W.operators}>
            <Chips texts={operators} />
          </Field>
        )}
        {reach === null || reach === undefined ? null : (
          <Field name={W.reach}>
            <Shown text={reach} isName />
          </Field>
        )}
        {introduced_by === null ? null : (
          <Field name={W.introduced}>
            <Shown text={introduced_by} isName mono />
          </Field>
        )}
      </dl>
      <Deeds handle={handle} isOpen={isTarget} />
      <Fault text={fault} />
      <div role="status">{ended === undefined ? null : <p class="notice good">{ended}</p>}</div>
      <div class="row">
        <Rename agent={agent} onChanged={onChanged} />
        {isActive ? (
          <Asking
            kind="plain deny"
            label={W.revoke}
            asks={W.revokeAsk}
            confirm={W.revokeNow}
            busy={busy}
            onConfirm={() => run(revoke)}
          />
        ) : null}
        <BlockButton agent={agent} onEnded={setEnded} onChanged={onChanged} />
      </div>
    </li>
  )
}

function isBlocked({ blocked_at }: Connection): boolean {
  return blocked_at !== null && blocked_at !== undefined
}

/** Blocks the agent, or lets it ask again; `onEnded` gets what that ended, in a sentence. */
function BlockButton(props: {
  agent: Connection
  onEnded: (sentence: string) => void
  onChanged: () => void
}) {
  const { agent, onEnded, onChanged } = props
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const blocked = isBlocked(agent)
  const act = async (): Promise<void> => {
    const done = await ask<Blocked>(access, {
      method: 'POST',
      path: `owner/connections/${blocked ? 'unblock' : 'block'}`,
      body: { handle: agent.handle },
    })
    const grants = W.grants(done.rpts_deactivated, done.rpts_deactivated_more === true)
    onEnded(done.blocked ? W.ended(grants, done.connections_revoked) : W.unblockAsk)
    onChanged()
  }
  return (
    <>
      <Fault text={fault} />
      <Asking
        kind="plain deny"
        label={blocked ? W.unblock : W.block}
        asks={blocked ? W.unblockAsk : W.blockAsk}
        confirm={blocked ? W.unblockNow : W.blockNow}
        busy={busy}
        onConfirm={() => run(act)}
      />
    </>
  )
}

function Deeds({ handle, isOpen: wasOpen }: { handle: string; isOpen: boolean }) {
  const [isOpen, setOpen] = useState(wasOpen)
  return (
    <details open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{W.did}</summary>
      {isOpen ? <DeedList handle={handle} /> : null}
    </details>
  )
}

function DeedList({ handle }: { handle: string }) {
  const path = `owner/ledger?handle=${encodeURIComponent(handle)}&first=newest&limit=${DEEDS}`
  const { data, fault, reload } = useLoaded(
    access => ask<{ entries: LedgerEntry[] }>(access, { path: pathWithBodies(access, path) }),
    /^(decided|connect|revoked|touched|reset)/,
  )
  const { lines, ...marks } = useMarks(data?.entries)
  return (
    <>
      <Awaited data={data} fault={fault} reload={reload} />
      {data?.entries.length === 0 ? <p class="quiet">{W.didNone}</p> : null}
      <MarksNotice {...marks} />
      <ol class="lines">
        {lines.map(line => (
          <LedgerLine key={line.entry.seq} {...line} isOfAgent />
        ))}
      </ol>
    </>
  )
}

function Rename({ agent, onChanged }: { agent: Connection; onChanged: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [text, setText] = useState<string>()
  const save = async (): Promise<void> => {
    const label = text?.trim() ?? ''
    const body = { handle: agent.handle, label: label === '' ? null : label }
    await ask(access, { method: 'PUT', path: 'owner/connections/label', body })
    setText(undefined)
    onChanged()
  }
  if (text === undefined)
    return (
      <button type="button" class="plain" onClick={() => setText(agent.label ?? '')}>
        {W.rename}
      </button>
    )
  return (
    <Form class="rename" onSubmit={() => run(save)}>
      <TextField label={W.renameLabel} name="label" maxLength={60} value={text} onValue={setText} />
      <Fault text={fault} />
      <FormEnd disabled={busy} onCancel={() => setText(undefined)}>
        {W.save}
      </FormEnd>
    </Form>
  )
}
