/**
 * What the owner may read of her policy: tiers, the resources they govern, the words rules are written in.
 * Contract: "Owner API" (`/owner/policies`, `/owner/policy-vocabulary`, `/owner/resources`).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { vocabulary } from '../../rules/conditions.ts'
import { listGovernedResources, type GovernedResourceRow } from '../../storage/authority/resources.ts'
import { listTiers, type TierRow } from '../../storage/authority/tiers.ts'
import { templateId } from '../../wire/terms.ts'
import type { Authority } from '../context.ts'
import { listPage, queryOf } from './requests.ts'

const NO_QUERY = z.strictObject({})

/** Registers GET /owner/policies, /owner/policy-vocabulary and /owner/resources. */
export function registerOwnerTiers(app: FastifyInstance, authority: Authority): void {
  app.get('/owner/policies', (request, reply) => getPolicies(authority, request, reply))
  app.get('/owner/resources', (request, reply) => getResources(authority, request, reply))
  app.get('/owner/policy-vocabulary', async request => {
    queryOf(NO_QUERY, request)
    return vocabulary()
  })
}

async function getPolicies(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const items = await listPage(authority, { request, reply }, listTiers, 'tier_id')
  return { tiers: items.map(tierAnswer) }
}

/** A tier as the owner API writes it. */
export function tierAnswer(tier: TierRow): object {
  const { purpose, scope, expires_in, prohibited, per_operation } = tier.terms
  return {
    id: tier.tier_id,
    name: tier.name,
    resources: tier.resources,
    ask_me: tier.ask_me,
    rules: tier.rules,
    clearance: tier.clearance,
    terms: {
      template_id: templateId(tier.owner, tier.tier_id, tier.version),
      purpose,
      scope,
      expires_in,
      prohibited,
      per_operation,
    },
  }
}

async function getResources(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listGovernedResources, 'resource_id')
  return items.map(resourceAnswer)
}

function resourceAnswer(row: GovernedResourceRow): object {
  const { name, type, resource_scopes, consequence, tier_name, ask_me, source } = row
  return {
    _id: row.resource_id,
    name,
    type,
    resource_scopes,
    consequence,
    tier: row.tier_id,
    tier_name,
    ask_me,
    source,
  }
}
