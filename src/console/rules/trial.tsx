/**
 * Owns the dry run on her past: what a tier would have answered to each request in her ledger. Contract:
 * "Policy vocabulary and tiers"; her authority judges each request by the facts of its time, and nothing
 * changes.
 */
import { becauseText } from '../../rules/words/rule-words.ts'
import type { Connection, TierPreview, TriedRequest } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { ResourceName } from '../parts/resource-name.tsx'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { bodyOf, type Draft } from './draft.ts'

const W = WORDS.rules
/** How many requests with an unchanged answer are shown: only the newest. */
const SAME_SHOWN = 20

export interface TierTrial {
  /** What was tried. */
  draft: Draft
  requests: TriedRequest[]
  warnings: string[]
  /** Her names for agents, by handle. */
  labels: ReadonlyMap<string, string>
}

/** Tries a tier on all of the ledger, newest request first. */
export async function tryOnPast(access: Access, id: string, draft: Draft): Promise<TierTrial> {
  const connections = askAll<Connection>(access, 'owner/connections')
  const requests: TriedRequest[] = []
  const tier = { id, ...bodyOf(draft) }
  let [after, warnings]: [number | null, string[]] = [0, []]
  while (after !== null) {
    const body = { tier, after }
    const page: TierPreview = await ask(access, { method: 'POST', path: 'owner/policies/preview', body })
    requests.push(...page.requests)
    ;({ warnings, next: after } = page)
  }
  const labels = new Map<string, string>()
  for (const { handle, label } of await connections) if (label !== null) labels.set(handle, label)
  return { draft, requests: requests.reverse(), warnings, labels }
}

export function TrialResult({ trial }: { trial: TierTrial }) {
  const { requests, warnings, labels } = trial
  const changed = requests.filter(one => one.was !== one.would)
  const same = requests.filter(one => one.was === one.would)
  return (
    <div class="trial">
      <p class={`notice ${changed.length === 0 ? 'good' : 'warn'}`}>
        {requests.length === 0 ? W.noPast : W.tried(changed.length, requests.length)}
      </p>
      <Warnings warnings={warnings} />
      <ol class="lines">
        {changed.map(one => (
          <Tried key={one.seq} request={one} labels={labels} />
        ))}
      </ol>
      {same.length === 0 ? null : (
        <details>
          <summary>{W.triedSame(same.length, SAME_SHOWN)}</summary>
          <ol class="lines">
            {same.slice(0, SAME_SHOWN).map(one => (
              <Tried key={one.seq} request={one} labels={labels} />
            ))}
          </ol>
        </details>
      )}
    </div>
  )
}

function Tried({ request, labels }: { request: TriedRequest; labels: TierTrial['labels'] }) {
  const { seq, ts, handle, resource_id, was, would, because } = request
  const label = handle === null ? undefined : labels.get(handle)
  const why = becauseText({ because })
  return (
    <li class="line" data-seq={seq} data-would={would}>
      <div class="line-head">
        <span class="effects">
          <span class="tag">{W.effects[was]}</span>
          {was === would ? null : (
            <>
              <span class="arrow" aria-label={W.becomes}>
                →
              </span>
              <span class={`tag ${would === 'grant' ? 'good' : would === 'ask' ? 'warn' : 'bad'}`}>
                {W.effects[would]}
              </span>
            </>
          )}
        </span>
        <span class="line-what">
          <ResourceName id={resource_id} />
        </span>
        <time class="quiet" dateTime={ts}>
          {whenText(ts)}
        </time>
      </div>
      {handle === null ? null : (
        <p class={`small quiet handle${label === undefined ? ' mono' : ''}`}>
          <Shown text={label ?? handle} isName mono={label === undefined} />
        </p>
      )}
      {why === '' ? null : (
        <p class="small quiet">
          {W.because} <Shown text={why} />
        </p>
      )}
    </li>
  )
}

/** The authority's warnings. */
export function Warnings({ warnings }: { warnings: readonly string[] }) {
  return (
    <>
      {warnings.map(one => (
        <p key={one} class="notice warn">
          <Shown text={one} />
        </p>
      ))}
    </>
  )
}
