/**
 * The calls on an account that she holds with others. Contract: "Tally for a jointly held resource".
 */
import { useState } from 'preact/hooks'
import type { JointAccess, JointAccesses } from '../../wire/documents/joint-accesses.ts'
import { ask, type Access } from '../access/api.ts'
import { Awaited, Fault } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { ResourceName } from '../parts/resource-name.tsx'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'

const W = WORDS.joint
const PAGE = 20

export function Calls({ account }: { account: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{W.calls}</summary>
      {isOpen ? <CallList account={account} /> : null}
    </details>
  )
}

function readCalls(access: Access, account: string, before?: number): Promise<JointAccesses> {
  const query = `limit=${PAGE}${before === undefined ? '' : `&before=${before}`}`
  return ask<JointAccesses>(access, {
    path: `owner/joint/${encodeURIComponent(account)}/accesses?${query}`,
  })
}

function CallList({ account }: { account: string }) {
  const { access } = useSession()
  const { data, fault, reload } = useLoaded(at => readCalls(at, account), /^(joint|reset)/)
  const [older, setOlder] = useState<JointAccesses[]>([])
  const { busy, fault: failed, run } = useDeed()
  const next = (older.at(-1) ?? data)?.next ?? null
  const calls = new Map([data, ...older].flatMap(page => page?.accesses ?? []).map(one => [one.n, one]))
  const more = async (): Promise<void> => {
    if (next !== null) setOlder([...older, await readCalls(access, account, next)])
  }
  return (
    <>
      <p class="note">{W.callsHint}</p>
      <Awaited data={data} fault={fault} reload={reload} />
      {data?.accesses.length === 0 ? <p class="quiet">{W.callsNone}</p> : null}
      <ol class="lines">
        {[...calls.values()].map(one => (
          <Call key={one.n} call={one} />
        ))}
      </ol>
      <Fault text={failed} />
      {next === null ? null : (
        <button type="button" class="plain" disabled={busy} onClick={() => run(more)}>
          {W.older}
        </button>
      )}
    </>
  )
}

function Call({ call }: { call: JointAccess }) {
  const { at, tool, resource_id, agent, summary, client_id } = call
  return (
    <li class="line">
      <div class="line-head">
        <span class="line-what">
          <Shown text={tool} isName />
          {resource_id === null ? null : (
            <>
              {' · '}
              <ResourceName id={resource_id} />
            </>
          )}
        </span>
        <time class="quiet" dateTime={at}>
          {whenText(at)}
        </time>
      </div>
      <p class="small quiet handle">
        <Shown text={client_id} isName />
        {agent === null ? null : (
          <>
            {' '}
            {W.by} <Shown text={agent} isName mono />
          </>
        )}
      </p>
      {summary === null ? null : (
        <p class="small">
          <Shown text={summary} />
        </p>
      )}
    </li>
  )
}
