/**
 * What is behind a requested resource: the server that asks, the resource, and the tier that governs it, read
 * in one statement. Contract: "Policy vocabulary and tiers" (an ungoverned resource is denied), "Protection
 * API" (/perm).
 */
import type { Selectable } from 'kysely'
import type { FactsOf } from '../../../rules/grant.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'
import { ASKED_FEW, gatheringOf, onceEach, ownedBy, READS_AT_ONCE, TOGETHER_MAX } from '../../core/batch.ts'
import { factsColumn } from '../grants/facts.sql.ts'
import type { ResourceRow, ResourceServerRow } from '../registry/resources.ts'
import type { OwnersTable } from '../tables.ts'
import type { TierRow } from '../policies/tiers.ts'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'

/** The facts that a request is checked against; each is undefined if there is none. */
export interface GovernedReading {
  server?: Pick<ResourceServerRow, 'client_id' | 'status'> & FactsOf<'server'>
  resource?: Pick<
    ResourceRow,
    'resource_id' | 'client_id' | 'name' | 'resource_scopes' | 'consequence' | 'tools' | 'org'
  > &
    FactsOf<'resource'>
  tier?: Omit<TierRow, 'resources'> & FactsOf<'tier'>
  /** Nobody is granted access to what is hers. */
  suspended?: true
}

/** What is requested, and by which of the owner's servers. */
interface ResourceQuestion {
  owner: Owner
  client_id: ClientId
  resource_id: string
}

const grouping = {
  owner: ({ owner }: ResourceQuestion) => owner,
  together: TOGETHER_MAX,
  atOnce: READS_AT_ONCE,
}

/** Agents of one owner mostly request the same. */
const nameOf = ({ client_id, resource_id }: ResourceQuestion): string =>
  JSON.stringify([client_id, resource_id])

function parametersOf(questions: readonly ResourceQuestion[]): unknown[] {
  return [
    questions[0]!.owner,
    questions.map(({ client_id }) => client_id),
    questions.map(({ resource_id }) => resource_id),
  ]
}

/** Members that a tier and its terms have in common are distinguished by `tier_` and `terms_`. */
interface GovernedRow
  extends
    Pick<ResourceRow, 'resource_scopes' | 'consequence' | 'tools' | 'org'>,
    Pick<TierRow, 'ask_me' | 'rules' | 'clearance'>,
    Omit<TierRow['terms'], 'owner' | 'tier_id' | 'version' | 'name'> {
  /** The place of the question, from 1. */
  place: number
  /**
   * Null if there is no such server. In the same way the next two are null if there is no resource or no
   * tier.
   */
  rs_status: ResourceServerRow['status'] | null
  server_facts: FactsOf<'server'>
  resource_facts: FactsOf<'resource'> & object
  tier_facts: FactsOf<'tier'>
  resource_client_id: ResourceRow['client_id'] | null
  resource_name: ResourceRow['name']
  tier_id: TierRow['tier_id'] | null
  tier_name: TierRow['name']
  terms_name: TierRow['terms']['name']
  suspended: boolean
}

const GOVERNED = prepared<GovernedRow>(
  'read-governed',
  `SELECT asked.place::int, rs.status AS rs_status, ${factsColumn('server', 'rs')},
    r.client_id AS resource_client_id, r.name AS resource_name, r.resource_scopes, r.consequence, r.tools, r.org,
    ${factsColumn('resource', 'r')},
    t.tier_id, t.name AS tier_name, t.ask_me, t.rules, t.clearance, ${factsColumn('tier', 't')},
    v.name AS terms_name, v.purpose, v.scope, v.expires_in, v.prohibited, v.per_operation,
    v.published_at, EXISTS (SELECT FROM owners o WHERE o.owner = $1 AND o.suspended_at IS NOT NULL) AS suspended
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS asked(client_id, resource_id, place)
  LEFT JOIN LATERAL (SELECT * FROM resource_servers
    WHERE owner = $1 AND client_id = asked.client_id OFFSET 0) rs ON true
  LEFT JOIN LATERAL (SELECT * FROM resources WHERE ${ownedBy('owner', '$1')} AND resource_id = asked.resource_id OFFSET 0) r ON true
  LEFT JOIN (LATERAL (SELECT owner, tier_id FROM tier_resources
      WHERE ${ownedBy('owner', '$1')} AND resource_id = asked.resource_id OFFSET 0) tr
    JOIN LATERAL (SELECT * FROM tiers
      WHERE owner = tr.owner AND tier_id = tr.tier_id AND deleted_at IS NULL OFFSET 0) t ON true
    JOIN LATERAL (SELECT * FROM terms_versions
      WHERE owner = t.owner AND tier_id = t.tier_id AND version = t.version OFFSET 0) v ON true) ON true
  WHERE ${ASKED_FEW}`,
)

/**
 * Reads what is behind a resource that one of the owner's servers asks for. Callers share the answer, so do
 * not change it.
 */
export function readGovernedResource(db: Db, of: ResourceQuestion): Promise<GovernedReading> {
  return READ_GOVERNED(db, of)
}

const READ_GOVERNED = gatheringOf(onceEach(readGovernedResources, nameOf), grouping)

async function readGovernedResources(db: Db, questions: ResourceQuestion[]): Promise<GovernedReading[]> {
  const { rows } = await GOVERNED(db, parametersOf(questions))
  const readings: GovernedReading[] = questions.map(() => ({}))
  for (const row of rows) readings[row.place - 1] = governedOf(questions[row.place - 1]!, row)
  return readings
}

function governedOf({ owner, client_id, resource_id }: ResourceQuestion, row: GovernedRow): GovernedReading {
  const { rs_status, server_facts, resource_facts } = row
  const { resource_client_id, resource_name, resource_scopes, consequence, tools, org } = row
  return {
    ...(rs_status === null ? {} : { server: { client_id, status: rs_status, ...server_facts } }),
    ...(resource_client_id === null
      ? {}
      : {
          resource: {
            resource_id,
            client_id: resource_client_id,
            name: resource_name,
            resource_scopes,
            consequence,
            tools,
            org,
            ...resource_facts,
          },
        }),
    ...(row.tier_id === null ? {} : { tier: tierOf(owner, row.tier_id, row) }),
    ...(row.suspended ? { suspended: true } : {}),
  }
}

function tierOf(owner: Owner, tier_id: string, row: GovernedRow): NonNullable<GovernedReading['tier']> {
  const { tier_name, ask_me, rules, clearance, tier_facts } = row
  const { terms_name, purpose, scope, expires_in, prohibited, per_operation, published_at } = row
  const terms = {
    owner,
    tier_id,
    version: tier_facts.version,
    name: terms_name,
    purpose,
    scope,
    expires_in,
    prohibited,
    per_operation,
    published_at,
  }
  return { owner, tier_id, name: tier_name, ask_me, rules, clearance, terms, ...tier_facts }
}

/** What a ticket is made from. */
export interface ResourceReading {
  /** Routes tickets to the owner. */
  tag: string
  server: Pick<ResourceServerRow, 'status' | 'generation' | 'publishes'>
  resource?: Pick<ResourceRow, 'resource_id' | 'client_id' | 'resource_scopes'>
}

interface RequestedRow
  extends
    Pick<Selectable<OwnersTable>, 'tag'>,
    Pick<ResourceServerRow, 'status' | 'generation' | 'publishes'>,
    Pick<ResourceRow, 'resource_scopes'> {
  place: number
  resource_client_id: ResourceRow['client_id'] | null
}

const READ_RESOURCES = prepared<RequestedRow>(
  'read-asked',
  `SELECT asked.place::int, o.tag, rs.status, rs.generation, rs.publishes,
    r.client_id AS resource_client_id, r.resource_scopes
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS asked(client_id, resource_id, place)
  JOIN owners o ON o.owner = $1
  JOIN LATERAL (SELECT * FROM resource_servers
    WHERE owner = $1 AND client_id = asked.client_id OFFSET 0) rs ON true
  LEFT JOIN LATERAL (SELECT * FROM resources WHERE ${ownedBy('owner', '$1')} AND resource_id = asked.resource_id OFFSET 0) r ON true
  WHERE ${ASKED_FEW}`,
)

/**
 * Reads the owner, the server that asks and the resource that it names; undefined if there is no such owner
 * or server. Callers share the answer, so do not change it.
 */
export function readRequestedResource(db: Db, of: ResourceQuestion): Promise<ResourceReading | undefined> {
  return READ_REQUESTED(db, of)
}

const READ_REQUESTED = gatheringOf(onceEach(readRequestedResources, nameOf), grouping)

async function readRequestedResources(
  db: Db,
  questions: ResourceQuestion[],
): Promise<(ResourceReading | undefined)[]> {
  const { rows } = await READ_RESOURCES(db, parametersOf(questions))
  const readings: (ResourceReading | undefined)[] = questions.map(() => undefined)
  for (const { place, tag, resource_client_id, resource_scopes, ...server } of rows) {
    const { resource_id } = questions[place - 1]!
    readings[place - 1] =
      resource_client_id === null
        ? { tag, server }
        : { tag, server, resource: { resource_id, client_id: resource_client_id, resource_scopes } }
  }
  return readings
}
