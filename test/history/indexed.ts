/** Owns the ways into a history that the rules need: operations by what they are about. */
import {
  end,
  may,
  type Allow,
  type Call,
  type Cast,
  type Decide,
  type Edit,
  type End,
  type Fault,
  type Grant,
  type Op,
  type Present,
  type Read,
  type Uses,
} from './record.ts'

export interface Indexed {
  history: readonly Op[]
  cast: Cast
  /** By `jti`, with the presentation that it was the answer to. */
  grants: Map<string, { grant: Grant; by: Present }>
  callsOf: Map<string, Call[]>
  presentsOf: Map<string, Present[]>
  families: Map<string, { decides: Decide[]; presents: Present[] }>
  /** By handle: what may have ended its connection. */
  endsOf: Map<string, End[]>
  unblocks: End[]
  /** By handle: what may have let it in. */
  admissions: Map<string, Decide[]>
  /** By handle: what may have been answered no. */
  denials: Map<string, Decide[]>
  /** Presentations by what a repeat has in common with them. */
  alike: Map<string, Present[]>
  /** By owner and tier. */
  editsOf: Map<string, Edit[]>
  /** By owner and allowance. */
  allowances: Map<string, AllowanceRecord>
  requests: Map<string, Op[]>
  faults: Fault[]
  /** By owner. */
  reads: Map<string, Read[]>
}

/** What happened about one allowance: its edits, how it was read, and what may have taken a share of it. */
export interface AllowanceRecord {
  edits: Allow[]
  uses: Uses[]
  presents: Present[]
}

/** Reads a history once. */
export function indexOf(history: readonly Op[], cast: Cast): Indexed {
  const indexed: Indexed = {
    history,
    cast,
    grants: new Map(),
    callsOf: new Map(),
    presentsOf: new Map(),
    families: new Map(),
    endsOf: new Map(),
    unblocks: [],
    admissions: new Map(),
    denials: new Map(),
    alike: new Map(),
    editsOf: new Map(),
    allowances: new Map(),
    requests: new Map(),
    faults: [],
    reads: new Map(),
  }
  for (const op of history) place(indexed, op)
  for (const op of history) if (op.op === 'decide') placeAdmission(indexed, op)
  return indexed
}

/**
 * A decision is on the item as it stands: what she was shown as an operation asks for the connection again if
 * it was offered edited terms after a revoke. What had no answer may have done so.
 */
function placeAdmission(indexed: Indexed, op: Decide): void {
  if (!may(op) || op.decision === 'denied') return
  const asksAgain = ({ at, kind, outcome }: Present): boolean =>
    at < end(op) && (kind === 'connection' || outcome === 'unknown' || outcome === 'outage')
  if (op.kind === 'connection' || familyOf(indexed, op.family).presents.some(asksAgain))
    push(indexed.admissions, op.handle, op)
}

function place(indexed: Indexed, op: Op): void {
  if ('request' in op) push(indexed.requests, op.request, op)
  switch (op.op) {
    case 'present':
      return placePresent(indexed, op)
    case 'call':
      return push(indexed.callsOf, op.jti, op)
    case 'decide':
      familyOf(indexed, op.family).decides.push(op)
      if (!may(op)) return
      if (op.decision === 'denied') push(indexed.denials, op.handle, op)
      return
    case 'revoke':
      if (may(op)) push(indexed.endsOf, op.whom, op)
      return
    case 'block':
      if (!may(op)) return
      for (const { owner, handle, operator } of indexed.cast.agents)
        if (owner === op.owner && operator === op.whom) push(indexed.endsOf, handle, op)
      return
    case 'unblock':
      if (may(op)) indexed.unblocks.push(op)
      return
    case 'edit':
      if (may(op)) push(indexed.editsOf, `${op.owner} ${op.tier}`, op)
      return
    case 'allow':
      if (may(op)) allowanceOf(indexed, op, op.allowance).edits.push(op)
      return
    case 'uses':
      if (op.outcome === 'done') allowanceOf(indexed, op, op.allowance).uses.push(op)
      return
    case 'read':
      if (op.outcome === 'done') push(indexed.reads, op.owner, op)
      return
    case 'fault':
      indexed.faults.push(op)
      return
    case 'waiting':
      return
  }
}

function placePresent(indexed: Indexed, op: Present): void {
  push(indexed.presentsOf, op.ticket, op)
  if (op.same !== undefined) push(indexed.alike, op.same, op)
  if (op.family !== undefined) familyOf(indexed, op.family).presents.push(op)
  if (op.share !== undefined && may(op)) allowanceOf(indexed, op, op.share.allowance).presents.push(op)
  if (op.grant !== undefined) indexed.grants.set(op.grant.jti, { grant: op.grant, by: op })
}

function allowanceOf({ allowances }: Indexed, { owner }: Op, id: string): AllowanceRecord {
  const key = `${owner} ${id}`
  const known = allowances.get(key) ?? { edits: [], uses: [], presents: [] }
  allowances.set(key, known)
  return known
}

function familyOf({ families }: Indexed, family: string): { decides: Decide[]; presents: Present[] } {
  const known = families.get(family) ?? { decides: [], presents: [] }
  families.set(family, known)
  return known
}

function push<T>(map: Map<string, T[]>, key: string, one: T): void {
  const known = map.get(key)
  if (known === undefined) map.set(key, [one])
  else known.push(one)
}
