/**
 * The ledger: what happened, with search, export, and receipts as proof. Contract: "Owner API".
 */
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { Connection, LedgerEntry } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { csvOf } from '../ledger/csv.ts'
import { LedgerLine } from '../ledger/line.tsx'
import { MarksNotice, pathWithBodies, useMarks } from '../ledger/marks.tsx'
import {
  allEntries,
  EXPORTED_MAX,
  ledgerPath,
  nextPage,
  NO_FILTER,
  WORDS_LENGTH_MAX,
  type Filter,
  type EntriesPage,
  type ReadPage,
} from '../ledger/query.ts'
import { Receipts } from '../ledger/receipts.tsx'
import { saveAs } from '../ledger/save.ts'
import { Awaited, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { shownText } from '../parts/shown.tsx'
import { TextField } from '../parts/text-field.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.ledger
const PAGE = 50
/** A search begins once she has not typed for so long. */
const SEARCH_DELAY_MS = 250
const FORMATS = ['json', 'csv'] as const

const readBy =
  (access: Access): ReadPage =>
  path =>
    ask<EntriesPage>(access, { path })

/** The same for entries that are shown, and checked if the ledger is signed. */
const readToCheck =
  (access: Access): ReadPage =>
  path =>
    ask<EntriesPage>(access, { path: pathWithBodies(access, path) })

export function LedgerPage() {
  const [filter, setFilter] = useState(NO_FILTER)
  const [family, setFamily] = useState<string>()
  const [isCut, setCut] = useState(false)
  const { access } = useSession()
  const { busy, fault: failed, run } = useDeed()
  const { data, fault, reload, entries, next, older } = useEntries(useSettled(filter))
  const { lines, ...marks } = useMarks(entries)
  const save = async (format: (typeof FORMATS)[number]): Promise<void> => {
    setCut(false)
    const all = await allEntries(readBy(access), filter)
    if (format === 'csv') saveAs('ledger.csv', csvOf(all.entries), 'text/csv')
    else saveAs('ledger.json', `${JSON.stringify(all.entries, undefined, 2)}\n`, 'application/json')
    setCut(all.isCut)
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
              onClick={() => run(() => save(format))}
            >
              {W.export[format]}
            </button>
          ))}
        </div>
      </PageHead>
      <Filters filter={filter} setFilter={setFilter} />
      <Fault text={failed} />
      <div role="status">{isCut ? <p class="notice warn">{W.exportCut(EXPORTED_MAX)}</p> : null}</div>
      <Awaited data={data} fault={fault} reload={reload} />
      {data !== undefined && entries.length === 0 ? (
        <Nothing title={next === null ? W.none : W.noneYet} />
      ) : null}
      <MarksNotice {...marks} />
      <ol class="lines">
        {lines.map(line => (
          <LedgerLine key={line.entry.seq} {...line} onReceipt={setFamily} />
        ))}
      </ol>
      {next === null ? null : (
        <div class="foot">
          <button type="button" class="plain" disabled={busy} onClick={() => run(older)}>
            {entries.length === 0 ? W.searchOn : W.more}
          </button>
        </div>
      )}
      {family === undefined ? null : <Receipts family={family} onClose={() => setFamily(undefined)} />}
    </>
  )
}

/** The newest entries that fit, and with each call of `older` those before them. */
function useEntries(filter: Filter) {
  const { access } = useSession()
  const key = ledgerPath(filter, { limit: PAGE })
  const { data, fault, reload } = useLoaded(
    async by => ({ key, page: await nextPage(readToCheck(by), filter, { limit: PAGE }) }),
    /./,
  )
  const [further, setFurther] = useState<{ key: string; pages: EntriesPage[] }>({ key, pages: [] })
  useEffect(reload, [key, reload])
  // What was read for another filter does not count.
  const first = data?.key === key ? data.page : undefined
  const pages = further.key === key ? further.pages : undefined
  const next = (pages?.at(-1) ?? first)?.next ?? null
  const entries = useMemo(() => {
    const all = new Map<number, LedgerEntry>()
    for (const page of [...(first === undefined ? [] : [first]), ...(pages ?? [])])
      for (const entry of page.entries) all.set(entry.seq, entry)
    return [...all.values()].sort((a, b) => b.seq - a.seq)
  }, [first, pages])
  const older = async (): Promise<void> => {
    if (next === null) return
    const page = await nextPage(readToCheck(access), filter, { before: next, limit: PAGE })
    setFurther({ key, pages: [...(pages ?? []), page] })
  }
  return { data: first, fault, reload, entries, next, older }
}

/** The value once it has not changed for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(() => value), SEARCH_DELAY_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}

function Filters({ filter, setFilter }: { filter: Filter; setFilter: (filter: Filter) => void }) {
  const { data } = useLoaded(
    access => askAll<Connection>(access, 'owner/connections'),
    /^(decided|connect|revoked)/,
  )
  const set = (name: keyof Filter) => (value: string) => setFilter({ ...filter, [name]: value })
  return (
    <form class="filters" onSubmit={event => event.preventDefault()}>
      <TextField
        label={W.words}
        name="words"
        type="search"
        maxLength={WORDS_LENGTH_MAX}
        value={filter.words}
        onValue={set('words')}
      />
      <Choice
        label={W.kind}
        name="kind"
        value={filter.kind}
        onValue={set('kind')}
        options={Object.entries(W.kinds)}
      />
      <Choice
        label={W.agent}
        name="agent"
        value={filter.handle}
        onValue={set('handle')}
        options={(data ?? []).map(({ handle, label }) => [handle, shownText(label ?? handle)])}
      />
      <TextField label={W.from} name="from" type="date" value={filter.from} onValue={set('from')} />
      <TextField label={W.until} name="until" type="date" value={filter.until} onValue={set('until')} />
    </form>
  )
}

/** One of several values, each with its text, or all of them. */
function Choice(props: {
  label: string
  name: string
  value: string
  onValue: (value: string) => void
  options: [value: string, text: string][]
}) {
  const { label, name, value, onValue, options } = props
  return (
    <label>
      <span class="label">{label}</span>
      <select name={name} value={value} onChange={event => onValue(event.currentTarget.value)}>
        <option value="">{W.all}</option>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}
