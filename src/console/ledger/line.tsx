/**
 * One line of the ledger: what happened, to whom, and everything else that it says. Contract: "Owner API".
 */
import { useState } from 'preact/hooks'
import type { Json } from '../../wire/json.ts'
import { canonicalize } from '../../wire/json.ts'
import { happenedAt, reportedText } from '../../rules/words/ledger-sentences.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { ResourceName } from '../parts/resource-name.tsx'
import { Shown } from '../parts/shown.tsx'
import { exactText, whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import type { EntryMark } from './marks.tsx'

const W = WORDS.ledger
const BAD = new Set([
  'denied',
  'refused',
  'identity_refused',
  'revoked',
  'blocked',
  'break_glass',
  'suspended',
  'joint_refused',
])
const GOOD = new Set(['approved', 'connected', 'touched', 'relaxed', 'unblocked', 'joint_allowed', 'resumed'])
/** Members that the line itself shows. */
const SHOWN = new Set(['seq', 'ts', 'kind', 'family', 'handle', 'count'])

export function LedgerLine(props: {
  entry: LedgerEntry
  /** Whether the signed head covers it; undefined if that is not known. */
  mark?: EntryMark | undefined
  isOfAgent?: boolean
  onReceipt?: (family: string) => void
}) {
  const { entry, mark, isOfAgent = false, onReceipt } = props
  const { seq, ts, kind, family, handle, count, binding, tool, resource_id } = entry
  const [isOpen, setOpen] = useState(false)
  const at = happenedAt(entry)
  const reported = reportedText(at).trim()
  const tone = BAD.has(kind) ? 'bad' : GOOD.has(kind) ? 'good' : ''
  const rest = Object.entries(entry).filter(([name, value]) => !SHOWN.has(name) && value !== undefined)
  return (
    <li class="line" data-seq={seq} data-kind={kind} data-mark={mark}>
      <div class="line-head">
        <span class={`tag ${tone}`}>
          <Shown text={wordOf(W.kinds, kind)} />
        </span>
        <span class="line-what">
          {typeof tool === 'string' ? <Shown text={tool} isName /> : null}
          {typeof tool === 'string' && typeof resource_id === 'string' ? ' · ' : ''}
          {typeof resource_id === 'string' ? <ResourceName id={resource_id} /> : null}
          {typeof count === 'number' && count > 1 ? <span class="quiet"> {W.times(count)}</span> : null}
        </span>
        <time class="quiet" dateTime={ts}>
          {at.isWholeSecond ? whenText(at.ms) : exactText(at.ms)}
        </time>
        {reported === '' ? null : <span class="quiet small">{reported}</span>}
      </div>
      {mark === 'differs' || mark === 'foreign' ? <p class="notice bad">{WORDS.ledgerMarks[mark]}</p> : null}
      {handle === undefined || isOfAgent ? null : (
        <p class="mono small quiet handle">
          <Shown text={handle} isName mono />
        </p>
      )}
      <div class="line-more">
        {mark === 'checked' ? <span class="quiet small">{WORDS.ledgerMarks.checked}</span> : null}
        {typeof binding === 'string' ? (
          <span class="quiet small">
            <Shown text={wordOf(W.binding, binding)} />
          </span>
        ) : null}
        <details open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
          <summary>{WORDS.waiting.hidden}</summary>
          {isOpen ? (
            <dl class="parameters">
              {family === undefined ? null : <Pair name="family" value={family} />}
              {rest.map(([name, value]) => (
                <Pair key={name} name={name} value={value as Json} />
              ))}
            </dl>
          ) : null}
        </details>
        {family !== undefined && onReceipt !== undefined ? (
          <button type="button" class="link small" onClick={() => onReceipt(family)}>
            {W.receipt}
          </button>
        ) : null}
      </div>
    </li>
  )
}

/** In our words, or as it came from an authority of another version. */
function wordOf(words: Record<string, string>, word: string): string {
  return Object.hasOwn(words, word) ? words[word]! : word
}

function Pair({ name, value }: { name: string; value: Json }) {
  return (
    <div>
      <dt>
        <Shown text={name} isName mono />
      </dt>
      <dd>
        <Shown text={typeof value === 'string' ? value : canonicalize(value)} mono label={name} />
      </dd>
    </div>
  )
}
