/**
 * Which entries of the ledger are what the log of her authority signed, as far as this browser can tell: a
 * mark beside each, and what speaks against all of them. Contract: "Events" (row 5).
 */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { encodeTileNumber } from '../../wire/ledger/tile-path.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { send, type Access } from '../access/api.ts'
import { useSession, wordsOf } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { logKeysOf, rememberKeys } from './log-keys.ts'
import { isOwnLedger } from './own-ledger.ts'
import {
  entryOfText,
  FULL_TILE,
  isSame,
  leafOf,
  leavesUnder,
  logHead,
  type HeadFault,
  type TileExtent,
} from './signed-tree.ts'

const W = WORDS.ledgerMarks

/**
 * `checked`: the signed head covers the entry as it is shown; `differs`: it covers another in its place;
 * `foreign`: it covers the entry, in the ledger of another owner.
 */
export type EntryMark = 'checked' | 'differs' | 'foreign'

interface LedgerMarks {
  /** By the whole entry, so that what is read anew has no mark of what was read before. */
  marks: ReadonlyMap<string, EntryMark>
  /** Why nothing is marked: a fault of the head, or in words what cannot be had now. */
  fault?: HeadFault | { outage: string }
  /** The head does not cover the newest of these entries yet. */
  isBehind: boolean
}

const NONE: LedgerMarks = { marks: new Map(), isBehind: false }
/** A log signs once a second at most. So the newest entries are looked at again, but not for ever. */
const BEHIND_MS = 1_500
const LOOKS_MAX = 4

/** The path of a page of the ledger, with what the leaves are made from if the ledger is signed. */
export function pathWithBodies({ logKeys = [] }: Access, path: string): string {
  return logKeys.length === 0 ? path : `${path}&bodies=true`
}

/** Entries that were read so: each as it is shown, with its mark once it is known, and what to say of all. */
export function useMarks(entries: readonly LedgerEntry[] | undefined) {
  const { access } = useSession()
  const [state, setState] = useState(NONE)
  const [turn, setTurn] = useState(0)
  const isSigned = (access.logKeys ?? []).length > 0
  useEffect(() => {
    if (!isSigned || entries === undefined || entries.length === 0) {
      setState(NONE)
      return undefined
    }
    let isCurrent = true
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async (looks: number): Promise<void> => {
      const found = await marksOf(access, entries)
      if (!isCurrent) return
      setState(found)
      if (found.isBehind && looks > 1) timer = setTimeout(() => void look(looks - 1), BEHIND_MS)
    }
    void look(LOOKS_MAX)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [access, entries, isSigned, turn])
  const lines = useMemo(
    () =>
      (entries ?? []).map(entry => ({
        entry: isSigned ? (entryOfText(entry) ?? entry) : entry,
        mark: state.marks.get(JSON.stringify(entry)),
      })),
    [entries, isSigned, state],
  )
  return { lines, state, again: () => setTurn(turn + 1) }
}

async function marksOf(access: Access, entries: readonly LedgerEntry[]): Promise<LedgerMarks> {
  const { issuer, logKeys = [] } = access
  try {
    const note = await (await send(access, { path: 'owner/ledger/checkpoint' })).text()
    const head = await logHead(note, { issuer, keys: logKeysOf(localStorage, issuer, logKeys) })
    if (typeof head === 'string') return { ...NONE, fault: head }
    const leafAt = leavesUnder(head, place => readTile(access, place))
    const marks = new Map<string, EntryMark>()
    for (const entry of entries) {
      if (entry.seq > head.size) continue
      marks.set(JSON.stringify(entry), await markOf(access, entry, await leafAt(entry.seq - 1)))
    }
    return { marks, isBehind: entries.some(({ seq }) => seq > head.size) }
  } catch (error) {
    return { ...NONE, fault: { outage: wordsOf(error) } }
  }
}

/** `signed` is the leaf that the log signed at the entry's place. */
async function markOf(
  access: Access,
  entry: LedgerEntry,
  signed: Uint8Array | undefined,
): Promise<EntryMark> {
  const made = await leafOf(entry)
  const holds = made !== undefined && signed !== undefined && isSame(made, signed)
  if (!holds || entryOfText(entry) === undefined) return 'differs'
  // The owner is in the leaf, so an entry that holds names whose it is.
  return (await isOwnLedger(localStorage, access, entry.owner!)) ? 'checked' : 'foreign'
}

async function readTile(access: Access, { level, index, width }: TileExtent): Promise<Uint8Array> {
  const part = width < FULL_TILE ? `.p/${width}` : ''
  const path = `owner/ledger/tile/${level}/${encodeTileNumber(index)}${part}`
  return new Uint8Array(await (await send(access, { path })).arrayBuffer())
}

/** What is to be said of all entries of a list. */
export function MarksNotice({ state: { marks, fault }, again }: Omit<ReturnType<typeof useMarks>, 'lines'>) {
  const { access } = useSession()
  if (fault === undefined)
    return [...marks.values()].includes('checked') ? <p class="note">{W.note}</p> : null
  if (typeof fault !== 'string')
    return (
      <p class="notice warn" role="status">
        {W.unchecked} <Shown text={fault.outage} />
      </p>
    )
  const takeOver = (): void => {
    rememberKeys(localStorage, access.issuer, access.logKeys ?? [])
    again()
  }
  return (
    <div class="notice bad" role="alert">
      <p>{W.faults[fault]}</p>
      {fault === 'key' ? (
        <button type="button" class="plain" onClick={takeOver}>
          {W.remember}
        </button>
      ) : null}
    </div>
  )
}
