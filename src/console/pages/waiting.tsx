/**
 * What waits for her, one card for each request, and how each ended while it was shown. Contract: "Permission
 * ticket" (awaiting-owner), "Owner API" (`/owner/pending*`), "Events".
 */
import type { RefObject } from 'preact'
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { JsonObject } from '../../wire/json.ts'
import type { PendingItem } from '../../wire/owner/owner-api.ts'
import { askAll, type Access } from '../access/api.ts'
import { Awaited, Nothing, PageHead } from '../parts/parts.tsx'
import { useLoaded, useSession, type PageProps } from '../access/session.ts'
import { WORDS } from '../words.ts'
import { Card } from '../waiting/card.tsx'
import { focusBeside } from '../waiting/focus.ts'
import type { ItemOutcome } from '../waiting/outcome.ts'
import { Together } from '../waiting/together.tsx'

const W = WORDS.waiting

const load = (access: Access): Promise<PendingItem[]> => askAll<PendingItem>(access, 'owner/pending')

export function WaitingPage({ query }: PageProps) {
  const { data, fault, reload } = useLoaded(
    load,
    /^(pending|decided|withdrawn|revoked|blocked|unblocked|polic|organization|joint|reset)/,
  )
  const { shown, outcomes, settle, dismiss } = useOutcomes(data)
  const waiting = useMemo(() => shown.filter(({ family }) => !outcomes.has(family)), [shown, outcomes])
  const list = useRef<HTMLOListElement>(null)
  useCardKeys(list)
  useLinked(list, query.get('family'), shown)
  return (
    <>
      <PageHead title={W.title} status={waiting.length > 0 ? W.count(waiting.length) : undefined}>
        {waiting.length > 0 ? <p class="keys-hint quiet">{W.keys}</p> : null}
      </PageHead>
      <Awaited data={data} fault={fault} reload={reload} />
      <Together items={waiting} onSettled={settle} onChanged={reload} />
      {data !== undefined && shown.length === 0 ? <Nothing title={W.none} hint={W.noneHint} /> : null}
      <ol class="cards" ref={list}>
        {shown.map(one => (
          <Card
            key={one.family}
            pending={one}
            outcome={outcomes.get(one.family)}
            onSettled={outcome => settle(one.family, outcome)}
            onChanged={reload}
            onDismiss={() => {
              focusBeside(list.current, one.family)
              dismiss(one.family)
            }}
          />
        ))}
      </ol>
    </>
  )
}

/** The target of a notification: its card is scrolled into view and focused when it is there. */
function useLinked(
  list: RefObject<HTMLOListElement>,
  family: string | null,
  shown: readonly PendingItem[],
): void {
  const done = useRef<string>('')
  useEffect(() => {
    if (family === null || done.current === family) return
    if (!shown.some(one => one.family === family)) return
    done.current = family
    list.current?.querySelector<HTMLElement>(`article[data-family="${CSS.escape(family)}"]`)?.focus()
  }, [list, family, shown])
}

/**
 * What is shown: waiting items, and items that ended while the page was open, until she dismisses them. So
 * she can read how each ended, and no card vanishes under her hand.
 */
function useOutcomes(data: PendingItem[] | undefined) {
  const { subscribe } = useSession()
  const [list, setList] = useState<readonly PendingItem[]>([])
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, ItemOutcome>>(new Map())
  const settle = useCallback((family: string, outcome: ItemOutcome): void => {
    setOutcomes(known => {
      // The page knows its own decisions better than any report of them.
      const before = known.get(family)
      if (before?.here === true || (before !== undefined && outcome.what === 'withdrawn')) return known
      return new Map(known).set(family, outcome)
    })
  }, [])
  const last = useRef(list)
  const keep = useCallback((items: readonly PendingItem[]): void => {
    last.current = items
    setList(items)
  }, [])
  useEffect(() => {
    if (data === undefined) return
    const now = new Map(data.map(one => [one.family, one]))
    const known = new Set(last.current.map(one => one.family))
    for (const { family } of last.current) if (!now.has(family)) settle(family, { what: 'withdrawn' })
    keep([
      ...last.current.map(one => now.get(one.family) ?? one),
      ...data.filter(one => !known.has(one.family)),
    ])
  }, [data, settle, keep])
  useEffect(
    () =>
      subscribe(({ type, data: notice }) => {
        const outcome = outcomeOf(type, notice)
        if (outcome !== undefined && typeof notice['family'] === 'string') settle(notice['family'], outcome)
      }),
    [subscribe, settle],
  )
  const dismiss = useCallback(
    (family: string): void => keep(last.current.filter(one => one.family !== family)),
    [keep],
  )
  return { shown: list, outcomes, settle, dismiss }
}

function outcomeOf(type: string, notice: JsonObject): ItemOutcome | undefined {
  if (type === 'withdrawn') return { what: 'withdrawn' }
  if (type !== 'decided') return undefined
  const { decision, by, actor } = notice
  if (decision !== 'approved' && decision !== 'denied') return undefined
  return { what: decision, by: typeof by === 'string' ? by : '', actor }
}

/** j and k move between cards; a and d act like the card's own buttons. */
function useCardKeys(list: { current: HTMLOListElement | null }): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
      const within = event.target instanceof Element ? event.target : document.body
      if (within.closest('input, textarea, select') !== null) return
      const cards = [...(list.current?.querySelectorAll<HTMLElement>('article[data-family]') ?? [])]
      const current = cards.findIndex(card => card.contains(document.activeElement))
      if (event.key === 'j' || event.key === 'k') {
        const next = current === -1 ? 0 : current + (event.key === 'j' ? 1 : -1)
        cards[Math.min(Math.max(next, 0), cards.length - 1)]?.focus()
      } else if (event.key === 'a' || event.key === 'd') {
        // A key that is held down decides only one item, once.
        if (event.repeat || current === -1) return
        cards[current]?.querySelector<HTMLElement>(`[data-key="${event.key}"]`)?.click()
      } else return
      event.preventDefault()
    }
    document.addEventListener('keydown', pressed)
    return () => document.removeEventListener('keydown', pressed)
  }, [list])
}
