/**
 * The ledger: what happened, with search, export, and receipts as proof. Contract: "Owner API".
 */
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { Connection, LedgerEntry } from '../../wire/owner-api.ts'
import { ask, askAll, type Access } from '../api.ts'
import { csvOf } from '../ledger/csv.ts'
import { Receipts } from '../ledger/receipts.tsx'
import { saveAs } from '../ledger/save.ts'
import { LedgerLine } from '../ledger/line.tsx'
import { Awaited, Fault, Nothing, PageHead } from '../parts.tsx'
import { useDeed, useLoaded, useSession } from '../session.ts'
import { WORDS } from '../words.ts'
import { TextField } from '../text-field.tsx'

const W = WORDS.ledger
const PAGE = 50
/** How many entries are exported at once; `usher owner ledger` exports a longer ledger. */
const EXPORTED_MAX = 10_000

interface Filter {
  handle: string
  kind: string
}

interface Page {
  entries: LedgerEntry[]
  next: number | null
}

const NONE: Filter = { handle: '', kind: '' }

export function LedgerPage() {
  const [filter, setFilter] = useState(NONE)
  const [words, setWords] = useState('')
  const [from, setFrom] = useState('')
  const [until, setUntil] = useState('')
  const [family, setFamily] = useState<string>()
  const { data, fault, reload } = useLoaded(access => readPage(access, filter), /./)
  const [older, setOlder] = useState<Page[]>([])
  const { busy, fault: failed, run } = useDeed()
  const { access } = useSession()
  useEffect(() => {
    setOlder([])
    reload()
  }, [filter, reload])
  const next = (older.at(-1) ?? data)?.next ?? null
  const entries = useMemo(() => {
    const all = new Map<number, LedgerEntry>()
    for (const page of [...(data === undefined ? [] : [data]), ...older])
      for (const entry of page.entries) all.set(entry.seq, entry)
    return [...all.values()]
      .sort((a, b) => b.seq - a.seq)
      .filter(entry => fits(entry, { words, from, until }))
  }, [data, older, words, from, until])
  const more = async (): Promise<void> => {
    if (next !== null) setOlder([...older, await readPage(access, filter, next)])
  }
  return (
    <>
      <PageHead title={W.title} lead={W.lead}>
        <div class="row">
          {FORMATS.map(format => (
            <button
              key={format}
              type="button"
              class="plain"
              disabled={busy}
              onClick={() => run(() => exportAll(access, { ...filter, words, from, until, format }))}
            >
              {W.export[format]}
            </button>
          ))}
        </div>
      </PageHead>
      <Filters {...{ filter, setFilter, words, setWords, from, setFrom, until, setUntil }} />
      <Fault text={failed} />
      <Awaited data={data} fault={fault} reload={reload} />
      {data !== undefined && entries.length === 0 ? <Nothing title={W.none} /> : null}
      <ol class="lines">
        {entries.map(entry => (
          <LedgerLine key={entry.seq} entry={entry} onReceipt={setFamily} />
        ))}
      </ol>
      {next === null ? null : (
        <div class="foot">
          <button type="button" class="plain" disabled={busy} onClick={() => run(more)}>
            {W.more}
          </button>
        </div>
      )}
      {family === undefined ? null : <Receipts family={family} onClose={() => setFamily(undefined)} />}
    </>
  )
}

function readPage(access: Access, { handle, kind }: Filter, before?: number): Promise<Page> {
  const query = new URLSearchParams({ first: 'newest', limit: String(PAGE) })
  if (handle !== '') query.set('handle', handle)
  if (kind !== '') query.set('kind', kind)
  if (before !== undefined) query.set('before', String(before))
  return ask<Page>(access, { path: `owner/ledger?${query.toString()}` })
}

interface Sought {
  words: string
  from: string
  until: string
}

/** Days are in the reader's own time zone. */
function fits(entry: LedgerEntry, { words, from, until }: Sought): boolean {
  const time = Date.parse(entry.ts)
  if (from !== '' && time < Date.parse(`${from}T00:00:00`)) return false
  if (until !== '' && time >= Date.parse(`${until}T00:00:00`) + 86_400_000) return false
  const text = JSON.stringify(entry).toLowerCase()
  return words
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word))
}

const FORMATS = ['json', 'csv'] as const

/** The part of the whole ledger that the filters select, as a file. */
async function exportAll(
  access: Access,
  { format, ...wanted }: Filter & Sought & { format: (typeof FORMATS)[number] },
): Promise<void> {
  const all: LedgerEntry[] = []
  let before: number | undefined
  do {
    const { entries, next }: Page = await readPage(access, wanted, before)
    all.push(...entries.filter(entry => fits(entry, wanted)))
    before = next ?? undefined
  } while (before !== undefined && all.length < EXPORTED_MAX)
  if (format === 'csv') saveAs('ledger.csv', csvOf(all), 'text/csv')
  else saveAs('ledger.json', `${JSON.stringify(all, undefined, 2)}\n`, 'application/json')
}

function Filters(props: {
  filter: Filter
  setFilter: (filter: Filter) => void
  words: string
  setWords: (words: string) => void
  from: string
  setFrom: (day: string) => void
  until: string
  setUntil: (day: string) => void
}) {
  const { filter, setFilter, words, setWords, from, setFrom, until, setUntil } = props
  const { data } = useLoaded(
    access => askAll<Connection>(access, 'owner/connections'),
    /^(decided|connect|revoked)/,
  )
  return (
    <form class="filters" onSubmit={event => event.preventDefault()}>
      <TextField label={W.words} name="words" type="search" value={words} onValue={setWords} />
      <label>
        <span class="label">{W.kind}</span>
        <select
          name="kind"
          value={filter.kind}
          onChange={event => setFilter({ ...filter, kind: event.currentTarget.value })}
        >
          <option value="">{W.all}</option>
          {Object.entries(W.kinds).map(([kind, text]) => (
            <option key={kind} value={kind}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="label">{W.agent}</span>
        <select
          name="agent"
          value={filter.handle}
          onChange={event => setFilter({ ...filter, handle: event.currentTarget.value })}
        >
          <option value="">{W.all}</option>
          {data?.map(({ handle, label }) => (
            <option key={handle} value={handle}>
              {label ?? handle}
            </option>
          ))}
        </select>
      </label>
      <TextField label={W.from} name="from" type="date" value={from} onValue={setFrom} />
      <TextField label={W.until} name="until" type="date" value={until} onValue={setUntil} />
    </form>
  )
}
