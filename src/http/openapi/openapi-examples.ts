/**
 * The examples of an OpenAPI document: they are made from a schema, with a value for each member by its name,
 * so that the same thing has the same name in all of them. Contract: "Resources and their fields".
 */
import type { Components, JsonSchema } from './openapi-components.ts'

/** Used if nothing says what a member is like; a test finds it. */
const UNTOLD = '…'

const TIME = '2026-03-02T09:30:00.000Z'
const JKT = 'jkt:3x2oWv0b7mY0kT1m5o8dQh8w2Jc3fT6cGk9rVn4pLzE'
const DIGEST = 's256:Zk9vQ0mB6c1n2uWmTzq3uY8cPj4hXo7rLd5sKe1aVtw'
const COMPACT = 'eyJhbGciOiJFZDI1NTE5In0.eyJpc3MiOiJodHRwczovL2FzLmV4YW1wbGUifQ.c2lnbmF0dXJl'
const TICKET = 'tkt_8Jq2wN4rVb6TzXc0'
const PURPOSE = 'Sort the notes of the week'
const KEY = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
const OPERATION = { tool: 'add_note', params: { text: 'buy milk' } }

const PEOPLE = {
  owner: 'alice',
  name: 'Notes',
  issuer: 'https://as.example',
  iss: 'https://as.example',
  aud: 'https://notes.example/mcp/alice',
  audience: 'https://as.example',
  as_uri: 'https://as.example',
  origin: 'https://operator.example',
  operator: 'https://operator.example',
  operators: 'https://operator.example',
  operator_name: 'Example Agents',
  signature_agent: 'https://operator.example',
  approver: 'https://missions.example',
  subject: '8f14e45f',
  sub: JKT,
  handle: JKT,
  introduced_by: JKT,
  agent: 'agent:9b1c',
  first_party: JKT,
  invokers: JKT,
  administrators_may: 'revoke',
  admin: 'dana',
  by: 'owner',
  actor: { kind: 'owner', issuer: 'https://as.example', subject: 'alice' },
  holders: { owner: 'bea', issuer: 'https://as.bea.example', weight: 1 },
  account: 'family-1',
  accounts: 'family-1',
  tally: 'https://tally.example',
  org: 'firm',
  organization: 'https://firm.example',
  charter_name: 'Charter of the firm',
  role: 'engineer',
  members: 'engineer',
  more: 'engineer',
  role_name: 'Engineer',
  default_role: 'engineer',
  label: 'My note sorter',
  q: 'notes engineer',
  reach: 'organization',
  joined: TIME,
  removed: 'bob',
  of: 'alice',
  left: 'family-1',
} as const

const DOCUMENTS = {
  access_token: COMPACT,
  token: COMPACT,
  receipt: COMPACT,
  revocation: COMPACT,
  revocation_jti: 'rev_5f0c2a7e91d34b68',
  assertion: COMPACT,
  statement: COMPACT,
  agreement_jws: COMPACT,
  claim_token: 'ZXlKaGJHY2lPaUpGWkRJMU5URTVJbjA',
  membership_token: COMPACT,
  clearance: COMPACT,
  notice: COMPACT,
  request: COMPACT,
  verdict: COMPACT,
  withdrawal: COMPACT,
  withdrawn: 'code-5f0c2a7e',
  deleted: 'laptop',
  ticket: TICKET,
  client_secret: 'shown-once',
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  key: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
  code: 'K7QF-2MXN-9TBD',
  voucher: 'K7QF-2MXN-9TBD',
  window_id: 'bgw_5f0c2a7e91d34b685f0c2a7e',
  own_words: 'Agents must give a reason.',
  surface: 'served',
  closed: 'bgw_5f0c2a7e91d34b685f0c2a7e',
  join_id: 'join-5f0c2a7e91d34b68',
  code_id: 'code-5f0c2a7e',
  nonce: 'b0Zk3sQx',
  contract: DIGEST,
  item_s256: DIGEST,
  binds_s256: DIGEST,
  mandate_s256: DIGEST,
  params_s256: DIGEST,
  s256: DIGEST,
  jwk: KEY,
  agent_jwk: KEY,
  keys: KEY,
  kid: 'laptop',
  jti: 'rpt_5f0c2a7e91d34b68',
  family: 'fam_5f0c2a7e91d34b68',
  id: 'notes-read',
  client_id: 'https://notes.example',
  silent: 'https://notes.example',
  client_ids: 'https://notes.example',
  token_type_hint: 'access_token',
  requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
  subject_token_types_supported: 'urn:ietf:params:oauth:token-type:id_token',
  grant_type: 'urn:ietf:params:oauth:grant-type:uma-ticket',
  claim_type: 'https://example.org/terms/1.0#myterms-agreement',
  claim_token_format: 'https://example.org/terms/1.0#myterms-agreement-v1+jws',
  friendly_name: "The owner's terms",
  error: 'invalid_request',
  why: 'the connection was refused',
  url: 'https://hooks.example/usher',
  error_description: 'A sentence that says what to do.',
  instance: 'sidecar-1',
  cnf: { jwk: KEY },
  passkey: 'AXoj3xwV0b7mY0kT1m5o8Q',
  rp_id: 'owner.example',
  origins: 'https://owner.example',
  clientDataJSON: 'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0',
  authenticatorData: 'o3mm9u6vuaVeN4wRgDTidR5oL6ufLTCrE9ISWYbOGUcFAAAAAQ',
  signature: 'MEQCIBd5z1m5o8dQh8w2Jc3fT6cGk9rVn4pLzE3x2oWvAiA0b7mY0kT1m5o8dQh8w2Jc3fT6cGk9rVn4pLzEA',
  proof: '47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU',
  x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
  y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
} as const

const RESOURCES = {
  _id: 'alice/notes',
  resource: 'https://notes.example/mcp/alice',
  authorization_servers: 'https://as.example',
  scopes_supported: 'notes.read',
  signed_metadata: COMPACT,
  resource_id: 'alice/notes',
  resources: 'alice/notes',
  governed_resources: 'alice/notes',
  own_resources: 'alice/notes',
  ungoverned: 'alice/notes',
  sources: 'https://notes.example',
  unreachable: 'https://notes.example',
  resource_uri: 'https://notes.example/mcp/alice',
  resource_scopes: 'notes.read',
  offered_scopes: 'notes.read',
  scope: 'notes.read',
  scopes: 'notes.read',
  allowed_scopes: 'notes.read',
  available: 'notes.read',
  accepted: 'notes.read',
  consequence: 'low',
  consequences: { add_note: 'low' },
  tag: 'AbCdEfGhIjKl',
  level: '0',
  tile: 'x001/234',
  bodies: 'true',
  type: 'mcp',
  tool: 'add_note',
  operation: OPERATION,
  params: OPERATION.params,
  template_id: 'alice/notes-read/v1',
  terms_uri: 'https://as.example/terms/alice/notes-read/1',
  proffered_by: 'https://as.example',
  purpose: PURPOSE,
  reason: 'The notes are due on Monday.',
  owner_reason: 'Ask me again next week.',
  prohibited: 'training',
  require_prohibited: 'training',
  require_clearance: 'staff',
  clamped_fields: 'scope',
  tier: 'notes-read',
  tier_id: 'notes-read',
  tier_name: 'Reading notes',
  tiers_granted: 'notes-read',
  tiers_approved: 'notes-read',
  opens: 'notes-read',
  condition: 'standing.calls_above',
  when: 'standing.approved_by_owner',
  because: 'first_contact',
  grants: 'notes.read',
  claims: 'alice/*',
  always_ask: 'add_note',
  changes: 'Every grant ends after an hour at most.',
  conflicts: 'alice/notes',
  warnings: 'No rule lets an agent in without asking.',
  summary: 'Both holders must allow a request.',
  text: 'You hold family-1 with carl.',
  assurance_notes: 'The agent signed with a bare key.',
  note: 'for the new engineer',
  detail: 'access ended with the role',
  what: 'leave',
  fault: 'the registry answered 503',
  unknown: 'rpt_5f0c2a7e91d34b68',
  field: 'expires_in',
  effect: 'ask',
  status: 'active',
  part: 'ledger',
  kind: 'approved',
  terms: { template_id: 'alice/notes-read/v1', purpose: PURPOSE },
  enforced: { expires_in: 3600 },
  data: { by: 'owner' },
  row: { seq: 41, kind: 'approved' },
  item: { v: 1, kind: 'operation', owner: 'alice' },
  version: 3,
} as const

const NUMBERS_AND_TIMES = {
  seq: 41,
  n: 41,
  after: '41',
  before: '41',
  limit: '50',
  next: 41,
  expires_in: 3600,
  max_expires_in: 3600,
  exp: 1_772_447_400,
  iat: 1_772_443_800,
  nbf: 1_772_443_800,
  interval: 2,
  window_s: 3600,
  threshold: 2,
  total_weight: 2,
  weight: 1,
  charter_version: 3,
  agreed_version: 3,
  base_version: 3,
  view: 3,
  binding: 1,
  provenance: 1,
  accountability: 1,
  at: 1_772_443_800,
  ts: TIME,
  since: TIME,
  failing_since: TIME,
  from: '22:00',
  until: '07:00',
  time_zone: 'Europe/Zurich',
  digest_minutes: 30,
  now: TIME,
  received: TIME,
  last_read: TIME,
  last_access: TIME,
  last_used: TIME,
  first_seen: TIME,
  first_used: TIME,
  last_pat_issued: TIME,
  allowance_version: '3',
  'if-match': '"3"',
  'if-none-match': '"3"',
  'last-event-id': '41',
} as const

const BY_NAME: Readonly<Record<string, unknown>> = {
  ...PEOPLE,
  ...DOCUMENTS,
  ...RESOURCES,
  ...NUMBERS_AND_TIMES,
}

/** Which members of an object an example has: a request is shown as short as it may be. */
type Members = 'all' | 'required alone'

/** One value that `schema` accepts, for a member called `name`. No schema here contains itself. */
export function exampleOf(
  schema: JsonSchema,
  name: string,
  components: Components,
  members: Members = 'all',
): unknown {
  const one = components.resolve(schema)
  const within = (inner: JsonSchema, called = name): unknown => exampleOf(inner, called, components, members)
  if (Array.isArray(one['examples'])) return one['examples'][0]
  if ('const' in one) return one['const']
  if (Array.isArray(one['enum'])) return one['enum'][0]
  const variants = one['anyOf'] ?? one['oneOf']
  if (Array.isArray(variants)) return within(variants[0] as JsonSchema)
  const { type } = one
  switch (Array.isArray(type) ? (type as unknown[])[0] : type) {
    case 'object':
      return objectOf(one, name, { within, members })
    case 'array':
      return [within((one['items'] ?? {}) as JsonSchema)]
    case 'boolean':
      return one['default'] ?? true
    case 'integer':
    case 'number':
      return numberOf(one, BY_NAME[name])
    case 'string':
      return textOf(name)
    case 'null':
      return null
    default:
      return BY_NAME[name] ?? {}
  }
}

function objectOf(
  schema: JsonSchema,
  name: string,
  { within, members }: { within: (inner: JsonSchema, called: string) => unknown; members: Members },
): unknown {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>)
  if (properties.length === 0) return recordOf(schema, name, within)
  const required = new Set(schema['required'] as string[] | undefined)
  const shown = properties.filter(([key]) => members === 'all' || required.has(key))
  return Object.fromEntries(shown.map(([key, inner]) => [key, within(inner, key)]))
}

/**
 * An object without declared members is shown as its name suggests, or with a tool's name as its one member.
 */
function recordOf(
  schema: JsonSchema,
  name: string,
  within: (inner: JsonSchema, called: string) => unknown,
): unknown {
  const known = BY_NAME[name]
  if (typeof known === 'object') return known
  const values = schema['additionalProperties']
  if (typeof values !== 'object' || values === null || Object.keys(values).length === 0) return {}
  return { [OPERATION.tool]: within(values as JsonSchema, name) }
}

function numberOf({ minimum, maximum, default: preset }: JsonSchema, known: unknown): number {
  const value = typeof preset === 'number' ? preset : typeof known === 'number' ? known : 1
  const least = typeof minimum === 'number' ? minimum : -Infinity
  const most = typeof maximum === 'number' ? maximum : Infinity
  return Math.min(Math.max(value, least), most)
}

function textOf(name: string): string {
  const known = BY_NAME[name]
  if (typeof known === 'string') return known
  if (name === 'at') return TIME
  if (typeof known === 'number') return `${known}`
  if (name.endsWith('_at')) return TIME
  if (name.endsWith('_endpoint') || name.endsWith('_uri')) return `https://as.example/${name.split('_')[0]!}`
  return UNTOLD
}
