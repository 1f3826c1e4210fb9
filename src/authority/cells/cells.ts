/**
 * Finds which cell answers for an owner, and checks that she was in it until the answer was complete.
 * Contract: "What the service does" (revocation is immediate), "Errors" (an outage is no denial). Why so:
 * docs/decisions/0020-cells.md.
 */
import type { FastifyRequest } from 'fastify'
import { serveEndpoints, serveWherePlaced, type Endpoint, type Placing } from '../../http/servers/endpoint.ts'
import type { HttpServer } from '../../http/servers/server.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import {
  claimIn,
  listPlaced,
  placedBy,
  releaseIn,
  takeOverIn,
} from '../../storage/authority/owners/cell-directory.ts'
import type { Pools } from '../../storage/authority/database.ts'
import { readMove, type Move } from '../../storage/authority/owners/moves.ts'
import { ownerOf as ownerHere } from '../../storage/authority/owners/owners.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { Refusal, unavailable } from '../../wire/refusal.ts'
import { namingsOf, refuseSeveral, type OwnerReference, type OwnerLookup } from './request-owner.ts'

/** What is served for one cell. */
export interface Cell {
  readonly name: string
  readonly database: Pools
}

/** What the server of a cell is told about it, if there are several cells. */
export interface CellView {
  /** Whether she is served by this cell now. */
  stays(owner: Owner): Promise<boolean>
  /**
   * Claims a device key, a passkey, a login or a namespace for her in all cells, before it is written in this
   * one.
   * @returns whether it is hers.
   */
  claim(claimed: DirectoryClaim): Promise<boolean>
  /** Gives one back when it is no longer in this cell. */
  release(claimed: DirectoryClaim): Promise<void>
}

export interface DirectoryClaim {
  kind: 'device_key' | 'passkey' | 'login' | 'name'
  key: string
  owner: Owner
}

export interface CellsOptions<C extends Cell> {
  /** The cell that has the directory. It also serves the owners whom the directory lists in no cell. */
  home: C
  others: readonly C[]
  reading: OwnerLookup
  /** Called with an owner whom the directory has in a cell that is not configured here. */
  onUnknownCell: (cell: string) => void
  /** Called for each answer that was withheld because the owner moved meanwhile. */
  onMoving: () => void
}

export interface Cells<C extends Cell> {
  readonly home: C
  readonly all: readonly C[]
  /** Serves endpoints: each request with the context of its owner's cell. */
  serve<Context>(
    app: HttpServer,
    contexts: ReadonlyMap<C, Context>,
    endpoints: readonly Endpoint<Context>[],
  ): void
}

/**
 * Where owners were found last, and to whom tags and keys belong. This is a hint, which the cell corrects.
 */
const HINTS_MAX = 100_000

interface OwnerCell<C> {
  owner: Owner
  cell: C
}

/** Distributes requests among cells. With one cell there is nothing to distribute. */
export function createCells<C extends Cell>(options: CellsOptions<C>): Cells<C> {
  const { home, others, reading } = options
  const finder = createFinder(options)

  /** A roster may leave out the owner if only one owner is served. */
  const onlyOwner: OnlyOwner = async ({ path, request }) => {
    if (path !== AUTHORITY_PATH.terms || isNamed(request.raw.url)) return undefined
    const [first, second] = await listPlaced(home.database.ofNobody, 2)
    return first === undefined || second !== undefined ? undefined : [{ kind: 'owner', key: first }]
  }
  const placing =
    <Context>(contexts: ReadonlyMap<C, Context>): Placing<Context> =>
    async (call, answer) => {
      const found = new Map<Owner, OwnerCell<C>>()
      for (const naming of (await onlyOwner(call)) ?? namingsOf(call, reading)) {
        const one = await finder.find(naming)
        if (one !== undefined) found.set(one.owner, one)
      }
      const [first, second] = [...found.values()]
      if (second !== undefined) refuseSeveral()
      const run = (cell: C) => answer(contexts.get(cell)!)
      return first === undefined ? run(home) : answerIn({ ...options, finder, found: first }, run)
    }
  return {
    home,
    all: [home, ...others],
    serve: (app, contexts, endpoints) =>
      others.length === 0
        ? serveEndpoints(app, contexts.get(home)!, endpoints)
        : serveWherePlaced(app, placing(contexts), endpoints),
  }
}

interface Finder<C> {
  /** The place as it was found before, or as the directory has it now; undefined if it is no owner's. */
  find(naming: OwnerReference): Promise<OwnerCell<C> | undefined>
  /** The place as the directory has it now. */
  look(naming: OwnerReference): Promise<OwnerCell<C> | undefined>
}

function createFinder<C extends Cell>({ home, others, onUnknownCell }: CellsOptions<C>): Finder<C> {
  const byName = new Map(others.map(cell => [cell.name, cell]))
  const cellOf = new BoundedMap<Owner, C>(HINTS_MAX)
  const ownerOf = new BoundedMap<string, Owner>(HINTS_MAX)
  const look: Finder<C>['look'] = async ({ kind, key }) => {
    const placed = await placedBy(home.database.ofNobody, kind === 'owner' ? 'name' : kind, key)
    if (placed === undefined || (kind === 'owner' && placed.owner !== key)) return undefined
    const cell = placed.cell === null ? home : byName.get(placed.cell)
    if (cell === undefined) {
      onUnknownCell(placed.cell!)
      throw moving()
    }
    cellOf.set(placed.owner, cell)
    // A tag is one owner's for ever, a key until she is removed; a login may be given up. A key that a
    // passkey lets in is claimed in the directory anyway, so a hint would gain nothing.
    if (kind === 'tag' || kind === 'device_key') ownerOf.set(`${kind} ${key}`, placed.owner)
    return { owner: placed.owner, cell }
  }
  return {
    look,
    find: async naming => {
      const { kind, key } = naming
      const owner = kind === 'owner' ? asOwner(key) : ownerOf.get(`${kind} ${key}`)
      const cell = owner === undefined ? undefined : cellOf.get(owner)
      if (owner === undefined || cell === undefined) return look(naming)
      // When its owner is removed, another owner may enrol the key, possibly in another cell.
      const isHers = kind !== 'device_key' || (await ownerHere(cell.database.ofNobody, kind, key)) === owner
      return isHers ? { owner, cell } : look(naming)
    },
  }
}

/** Answers in her cell, if she was there before and after by the same move. */
async function answerIn<C extends Cell, T>(
  of: Pick<CellsOptions<C>, 'home' | 'onMoving'> & { finder: Finder<C>; found: OwnerCell<C> },
  answer: (cell: C) => Promise<T>,
): Promise<T> {
  const { home, onMoving, finder, found } = of
  const { owner } = found
  const withhold = (): never => {
    onMoving()
    throw moving()
  }
  const read = (cell: C): Promise<Move> => readMove(cell.database.callsOf(owner), owner)
  // Only a move brings an owner to another cell than the directory's own.
  const isHere = (cell: C, move: Move): boolean =>
    move === undefined ? cell === home : move.state === 'here'
  let { cell } = found
  let before = await read(cell)
  if (!isHere(cell, before)) {
    cell = (await finder.look({ kind: 'owner', key: owner }))?.cell ?? home
    before = await read(cell)
    if (!isHere(cell, before)) withhold()
  }
  /** The work in between may have changed rows that she left behind, so the answer is withheld. */
  const stayed = async (): Promise<void> => {
    const after = await read(cell)
    if (after?.state !== before?.state || after?.move !== before?.move) withhold()
  }
  const answered = await answer(cell).catch(async (error: unknown) => {
    if (error instanceof Refusal) await stayed()
    throw error
  })
  // A stream ends by itself when she has left.
  if ((answered as unknown) !== 'written') await stayed()
  return answered
}

/**
 * What a cell is told about itself. `all` is read at each call, because cells are opened one after the other.
 */
export function viewOf({
  home,
  here,
  all,
}: {
  home: Pools
  here: Pools
  all: () => ReadonlyMap<string, Pools>
}): CellView {
  const isHome = here === home
  return {
    stays: async owner => {
      const move = await readMove(here.callsOf(owner), owner)
      return move === undefined ? isHome : move.state === 'here'
    },
    claim: async claimed => {
      if (isHome) return true
      const holder = await claimIn(home.of(claimed.owner), claimed)
      if (holder === claimed.owner) return true
      return claimed.kind === 'login' && (await takeOver({ home, all: all() }, claimed, holder))
    },
    release: async claimed => {
      if (!isHome) await releaseIn(home.of(claimed.owner), claimed)
    },
  }
}

/** Its holder has given this login up in another cell, and the directory was not told. */
async function takeOver(
  { home, all }: { home: Pools; all: ReadonlyMap<string, Pools> },
  claimed: DirectoryClaim,
  holder: Owner,
): Promise<boolean> {
  const directory = home.of(claimed.owner)
  const placed = await placedBy(directory, 'name', holder)
  const there = placed?.cell === null || placed === undefined ? undefined : all.get(placed.cell)
  // It may be her own cell, of whose connections she holds one already, for the transaction that claims it.
  const isHere = async ({ ofNobody }: Pools): Promise<boolean> =>
    (await ownerHere(ofNobody, 'login', claimed.key)) !== undefined
  return there !== undefined && !(await isHere(there)) && takeOverIn(directory, claimed, holder)
}

type OnlyOwner = (call: { path: string; request: FastifyRequest }) => Promise<OwnerReference[] | undefined>

const isNamed = (url = '/'): boolean => new URL(url, 'http://localhost').searchParams.has('owner')

function moving(): Refusal {
  return unavailable('Try again shortly: this owner is being moved.', 1)
}
