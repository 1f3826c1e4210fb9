/**
 * The owner API's endpoints for the OpenAPI document: bodies and answers as docs/choices.md settles them.
 * Contract: "Owner API".
 */
import { z } from 'zod'
import { CREDENTIAL_OPERATIONS } from './credential-operations.ts'
import type { Described } from '../../http/endpoint.ts'
import { DECISION, LEDGER_QUERY, RECEIPTS_QUERY } from './activity.ts'
import { NAMED_OPERATOR, REVOKE_CONNECTION } from './connections.ts'
import { EDITED_TIER, NEW_TIER } from './policies.ts'
import { PREVIEW } from './preview.ts'
import { PAGE } from './requests.ts'
import { SERVER_DECISION } from './resource-servers.ts'

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)
const anything = z.looseObject({})
type Undeclared = Omit<Described, 'rows'>
const hers = { credential: { names: ['owner', 'bearer'] } } as const

const PENDING_ITEM = z.looseObject({
  family: text,
  kind: z.enum(['connection', 'operation']),
  tier: text,
  tier_name: text,
  resource_id: text,
  purpose: text,
  operation: z.object({ tool: text, params: anything }).nullable(),
  reason: maybe,
  mission: z.object({ approver: text, s256: text }).nullable(),
  prohibited: z.array(text),
  enforced: anything,
  expires_in: count,
  identity: anything,
  handle: text,
  assurance: z.object({ binding: count, provenance: count, accountability: count }),
  assurance_notes: z.array(text),
  because: z.array(text),
  organization: z.null(),
  requested_at: text,
})

const RULE = z.object({
  when: z.array(text),
  then: z.enum(['auto', 'ask', 'refuse']),
})
const TIER = z.looseObject({
  id: text,
  name: text,
  resources: z.array(text),
  ask_me: z.boolean(),
  rules: z.array(RULE),
  clearance: z.record(text, z.array(text)),
  terms: z.object({
    template_id: text,
    purpose: text,
    scope: z.array(text),
    expires_in: count,
    prohibited: z.array(text),
    per_operation: z.boolean(),
  }),
})
const SAVED_TIER = TIER.extend({ warnings: z.array(text) })

const CONNECTION = z.object({
  handle: text,
  identity: z.enum(['pseudonymous', 'identified']),
  label: maybe,
  status: z.enum(['active', 'revoked']),
  first_seen: text,
  last_access: maybe,
  tiers_granted: z.array(text),
  tiers_approved: z.array(text),
  revocations: count,
  introduced_by: maybe,
  operators: z.array(text),
})

const ENDED = { rpts_deactivated: count, rpts_deactivated_more: z.literal(true).optional() }
const EFFECT = z.enum(['grant', 'ask', 'refuse'])

const ACTIVITY: Undeclared[] = [
  {
    ...hers,
    method: 'get',
    path: '/owner/pending',
    summary: 'Requests that wait for her',
    query: PAGE,
    answers: {
      200: { says: 'Oldest first; Link rel=next where there are more.', schema: z.array(PENDING_ITEM) },
    },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/pending/{family}/decision',
    summary: 'Approves or denies one, once',
    body: { schema: DECISION },
    answers: {
      200: {
        says: 'Decided by this call.',
        schema: z.object({ family: text, decision: z.enum(['approved', 'denied']), by: text }),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/ledger',
    summary: 'The activity ledger, oldest first',
    query: LEDGER_QUERY,
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one.',
        schema: z.object({
          entries: z.array(z.looseObject({ seq: count, ts: text, kind: text })),
          next: count.nullable(),
        }),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/receipts',
    summary: 'What agents signed and was granted for it, counter-signed, oldest first',
    query: RECEIPTS_QUERY,
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one. `jti` is of the grant.',
        schema: z.object({
          receipts: z.array(
            z.object({ seq: count, family: text, jti: text, handle: text, issued_at: text, receipt: text }),
          ),
          next: count.nullable(),
        }),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/events',
    summary: 'The event stream of her portal',
    reads: { 'last-event-id': 'Resumes after this event.' },
    answers: { 200: { says: 'Server-sent events.', type: 'text/event-stream' } },
  },
]

const POLICY: Undeclared[] = [
  {
    ...hers,
    method: 'get',
    path: '/owner/policies',
    summary: 'Tier policy',
    query: PAGE,
    answers: { 200: { says: 'Her tiers.', schema: z.object({ tiers: z.array(TIER) }) } },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/policies',
    summary: 'Adds her own tier over registered, not-yet-governed resources',
    body: { schema: NEW_TIER },
    answers: { 201: { says: 'The tier as stored, with warnings.', schema: SAVED_TIER } },
  },
  {
    ...hers,
    method: 'put',
    path: '/owner/policies/{tier_id}',
    summary: 'Edits terms, the ask-me flag or rules; the terms get a new version',
    reads: { 'if-match': 'The quoted template_id she edited; stale is 412.' },
    body: { schema: EDITED_TIER },
    answers: { 200: { says: 'The tier as stored, with warnings.', schema: SAVED_TIER } },
  },
  {
    ...hers,
    method: 'delete',
    path: '/owner/policies/{tier_id}',
    summary: 'Removes a tier; its resources become ungoverned, hence denied',
    reads: { 'if-match': 'The quoted template_id she means; stale is 412.' },
    answers: {
      200: {
        says: 'What is ungoverned now.',
        schema: z.object({ deleted: text, ungoverned: z.array(text) }),
      },
    },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/policies/preview',
    summary: 'What a changed tier would have answered for each request in the ledger; changes nothing',
    body: { schema: PREVIEW },
    answers: {
      200: {
        says: 'Each request, as it was answered and as it would have been.',
        schema: z.object({
          requests: z.array(
            z.object({
              seq: count,
              ts: text,
              family: maybe,
              handle: maybe,
              resource_id: text,
              was: EFFECT,
              would: EFFECT,
              because: z.array(text),
            }),
          ),
          changed: count,
          warnings: z.array(text),
          next: count.nullable(),
        }),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/policy-vocabulary',
    summary: 'Usable conditions and which may relax',
    answers: {
      200: {
        says: 'The vocabulary.',
        schema: z.array(
          z.object({
            condition: text,
            takes: z.enum(['duration', 'count', 'level', 'class']).nullable(),
            label: text,
            may_relax: z.boolean(),
          }),
        ),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/resources',
    summary: 'Registered resources joined with tiers',
    query: PAGE,
    answers: {
      200: {
        says: 'By id.',
        schema: z.array(
          z.object({
            _id: text,
            name: text,
            type: maybe,
            resource_scopes: z.array(text),
            consequence: maybe,
            tier: maybe,
            tier_name: maybe,
            ask_me: z.boolean().nullable(),
            source: z.enum(['provisioned', 'pulled']),
          }),
        ),
      },
    },
  },
]

const CONNECTIONS: Undeclared[] = [
  {
    ...hers,
    method: 'get',
    path: '/owner/connections',
    summary: 'Standing agent relationships',
    query: PAGE,
    answers: { 200: { says: 'By handle.', schema: z.array(CONNECTION) } },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/connections/revoke',
    summary: 'Revokes a connection and its live RPTs',
    body: { schema: REVOKE_CONNECTION },
    answers: {
      200: {
        says: 'Nothing of it is live any more.',
        schema: z.object({
          handle: text,
          status: z.literal('revoked'),
          connections_revoked: count,
          ...ENDED,
        }),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/operators',
    summary: 'Operators behind connections and whether blocked',
    query: PAGE,
    answers: {
      200: {
        says: 'By origin.',
        schema: z.array(
          z.object({
            origin: text,
            name: maybe,
            agents: count,
            active: count,
            blocked: z.boolean(),
            blocked_at: maybe,
            mine: z.boolean(),
          }),
        ),
      },
    },
  },
  ...(['block', 'unblock'] as const).map(verb => ({
    ...hers,
    method: 'post' as const,
    path: `/owner/operators/${verb}`,
    summary:
      verb === 'block'
        ? 'Ends every connection of one operator and refuses future requests'
        : 'Restores the right to negotiate, not the access withdrawn',
    body: { schema: NAMED_OPERATOR },
    answers: {
      200: {
        says: 'What ended with it.',
        schema: z.object({ origin: text, connections_revoked: count, ...ENDED }),
      },
    },
  })),
]

const RESOURCE_SERVER = z.object({
  client_id: text,
  name: text,
  resource_uri: text,
  status: z.enum(['pending', 'active', 'revoked']),
  auth: z.enum(['secret', 'signature']),
  registered_at: text,
  decided_at: maybe,
  last_pat_issued: maybe,
  registry: z.object({ landed_at: maybe, failed_at: maybe, fault: maybe, conflicts: count }).nullable(),
})

const RESOURCE_SERVERS: Undeclared[] = [
  {
    ...hers,
    method: 'get',
    path: '/owner/resource-servers',
    summary: 'Resource servers with protection access, each pending, active or revoked',
    query: PAGE,
    answers: { 200: { says: 'By client_id.', schema: z.array(RESOURCE_SERVER) } },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/resource-servers/decision',
    summary: 'Approves or withdraws one',
    body: { schema: SERVER_DECISION },
    answers: { 200: { says: 'The record as it is now.', schema: RESOURCE_SERVER } },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/resource-servers/{id}/revoke',
    summary: 'The same withdrawal by path, for plain-name ids',
    answers: { 200: { says: 'The record as it is now.', schema: RESOURCE_SERVER } },
  },
]

const CLAIMS: Undeclared[] = [
  {
    ...hers,
    method: 'post',
    path: '/owner/operators/claim',
    summary: 'Marks an operator as her own',
    body: { schema: NAMED_OPERATOR },
    answers: {
      200: {
        says: 'And which of its connected agents became first-party.',
        schema: z.object({ origin: text, mine: z.literal(true), first_party: z.array(text) }),
      },
    },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/operators/disclaim',
    summary: 'Takes that mark back',
    body: { schema: NAMED_OPERATOR },
    answers: { 200: { says: 'Taken back.', schema: z.object({ origin: text, mine: z.literal(false) }) } },
  },
]

/** All of the owner's. */
export const OWNER_OPERATIONS: readonly Undeclared[] = [
  ...ACTIVITY,
  ...POLICY,
  ...CONNECTIONS,
  ...CLAIMS,
  ...RESOURCE_SERVERS,
  ...CREDENTIAL_OPERATIONS,
]
