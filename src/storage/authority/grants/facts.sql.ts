/**
 * Owns what a grant rests on, as SQL that recording, reading and consuming one share. A new fact whose value
 * must stay is one line of `SAME_FACTS` in rules/grant.ts, from which these fragments are made. In each
 * fragment below, `g` has the columns of the grant, `c` is its connection, `t` its tier and `tr` the hold of
 * that tier on its resource. Contract: "Grant (RPT) liveness".
 */
import { sameFactsOf, type FactRecord } from '../../../rules/grant.ts'
import { LAPSED } from '../../core/grant-reads.ts'

/**
 * The facts of one record, which has the name `as` in the statement, are those of the agreement: for the tier
 * as `t`, that is ` AND t.version = g.tier_version`. Those that a grant rests on for life are in the
 * fragments `CURRENT` and `TIER_STANDS`.
 */
export function andSame(of: FactRecord, as: string, forLife?: true): string {
  return sameFactsOf(of)
    .filter(([, fact]) => fact.forLife === forLife)
    .map(([member, { column }]) => ` AND ${as}.${column} = g.${member}`)
    .join('')
}

/** The same facts of one record as it is now, in one column of JSON: `server_facts`, by their columns. */
export function factsColumn(of: FactRecord, as: string): string {
  const pairs = sameFactsOf(of).map(([, { column }]) => `'${column}', ${as}.${column}`)
  return `json_build_object(${pairs.join(', ')}) AS ${of}_facts`
}

const FOR_LIFE = [...sameFactsOf('connection'), ...sameFactsOf('tier')].filter(([, fact]) => fact.forLife)

/** What a grant rests on as long as it lives: its columns, and what the statement that makes it writes. */
const LIVE = {
  generation: 'c.generation',
  tier_id: 'g.tier_id',
  ...Object.fromEntries(FOR_LIFE.map(([member]) => [member, `g.${member}`])),
  hold: 'tr.hold',
  org_epoch: 'g.org_epoch',
  org_handle_epoch: 'g.org_handle_epoch',
  org_operator: 'g.org_operator',
  org_operator_epoch: 'g.org_operator_epoch',
}
/** These columns, for the statements that write them and that spend a grant by them. */
export const LIVE_COLUMNS = Object.keys(LIVE).join(', ')
/** What is written there, in the same order. */
export const LIVE_VALUES = Object.values(LIVE).join(', ')

export const CONNECTED = `c.status = 'active'`

export const CURRENT = `c.generation = g.generation${andSame('connection', 'c', true)}`

/**
 * Its lifetime is over, or its share of an allowance went back after that. No clock that is set back makes it
 * live again.
 */
export const EXPIRED = `(${LAPSED} OR g.returned_at IS NOT NULL)`

/** The tier under which it was issued still exists. */
export const TIER_STANDS = `t.deleted_at IS NULL${andSame('tier', 't', true)}`

/** That tier has governed the resource without a break. */
export const HELD = 'tr.hold = g.hold'

/**
 * No organization has come to govern the resource, or if one did already: it has not ended the agent's reach.
 * If the resource was not governed, only the tier's hold on it is checked, which is read anyway: no
 * membership, no further look. That hold is another one once the resource has been governed, so that the
 * grant stays ended when that is over.
 */
export const REACH_STANDS =
  'CASE WHEN g.org_handle_epoch IS NULL THEN tr.org IS NULL ELSE c.org_epoch = g.org_handle_epoch END'

/**
 * What a statement knows that judges grants of the owner `$1` and is a transaction by itself: how many acts
 * had ended something of hers in its snapshot, and the time at which it began, in milliseconds since the
 * epoch. Postgres sets `statement_timestamp()` anew after it has taken the snapshot, `now()` never.
 */
export const OWNER_ENDS_COLUMNS = `coalesce((SELECT ends FROM queues WHERE owner = $1), 0) AS ends,
      floor(extract(epoch FROM now()) * 1000)::bigint AS judged_at`

/**
 * The membership and the operator that the grant depends on are as they were. A grant on a resource that is
 * not governed depends on the membership only if its clearance was checked. `lock` is the clause by which the
 * rows are locked, if they are.
 */
export function membershipStands(lock = ''): string {
  return `CASE WHEN g.org_epoch IS NULL THEN g.org_handle_epoch IS NULL
          WHEN EXISTS (SELECT FROM memberships m WHERE m.owner = g.owner AND m.org_epoch = g.org_epoch ${lock})
          THEN g.org_handle_epoch IS NULL OR g.org_operator IS NULL
            OR EXISTS (SELECT FROM operators o WHERE o.owner = g.owner AND o.origin = g.org_operator
              AND o.org_epoch = g.org_operator_epoch ${lock})
            -- Epoch 0 and no row: the organization never acted on this operator, so the grant stands.
            OR (g.org_operator_epoch = 0 AND NOT EXISTS (SELECT FROM operators o
              WHERE o.owner = g.owner AND o.origin = g.org_operator))
          ELSE false END`
}
