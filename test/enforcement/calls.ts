/**
 * Builds calls as a proxy would show them, signed as an agent would, and an enforcement core that asks a real
 * authority on the wire.
 */
import {
  createAccessReports,
  type AccessReports,
  type AccessReportsOptions,
} from '../../src/enforcement/authorities/access-reports.ts'
import type { SidecarOwner } from '../../src/config.ts'
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import type { Call, CallBody, Outcome } from '../../src/enforcement/call.ts'
import { createChallengeLimit } from '../../src/enforcement/challenge-limit.ts'
import { createCheck, type CheckOptions } from '../../src/enforcement/check.ts'
import { checkDeadline } from '../../src/enforcement/deadline.ts'
import { readerOf } from '../../src/enforcement/request/readers.ts'
import { routeTable, type Route, type Tool } from '../../src/enforcement/request/routes.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import type { RouteJoint } from '../../src/enforcement/joint/mandate-check.ts'
import { createMandateView } from '../../src/enforcement/joint/mandate-view.ts'
import { createProofs } from '../../src/enforcement/joint/proofs.ts'
import { createSpentGrants } from '../../src/enforcement/joint/spent-grants.ts'
import { createTallyClient } from '../../src/enforcement/joint/tally-client.ts'
import type { RouteOrganization } from '../../src/enforcement/organization/ceiling.ts'
import { createMembershipView } from '../../src/enforcement/organization/membership-view.ts'
import {
  createOrganizationClient,
  type OrganizationProof,
} from '../../src/enforcement/organization/organization-client.ts'
import { openUsedEmergencies } from '../../src/enforcement/organization/used-emergencies.ts'
import { createJwksCache, type JwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { isNamed } from '../../src/rules/organization/grant-ceiling.ts'
import { contentDigest } from '../../src/wire/encoding.ts'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { aliasIn, DEFAULT_SPEC_NS, ENFORCEMENT_ALIAS } from '../../src/wire/names.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

export const PUBLIC_URL = 'https://tools.example.com'
export const newKey = (): PrivateKey => importPrivateJwk(generatePrivateJwk())
export const nowSeconds = (): number => Math.floor(Date.now() / 1000)

export interface CallParts {
  path?: string
  method?: string
  /** The whole body; a tools/call of `tool` with `args` when left out. */
  body?: string | CallBody
  tool?: string
  args?: unknown
  token?: string
  authorization?: string
  /** Signs with this key. */
  signer?: PrivateKey
  components?: string[]
  created?: number
  expires?: number
  query?: string
  headers?: Record<string, string[]>
  context?: Record<string, string>
  peer?: string
  deadlineAt?: number
  /** How long before that every wait ends; 50 if left out. */
  marginMs?: number
  /** Judges the deadline; `Date.now` if left out. */
  clock?: () => number
  isCancelled?: () => boolean
  /** What the signer believes the authority to be. */
  signedAuthority?: string
  signedPath?: string
  digest?: boolean
}

const MARGIN_MS = 50

/** A `tools/call` request body. */
export function toolCallBody(tool: string, args?: unknown): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: tool, ...(args === undefined ? {} : { arguments: args }) },
  })
}

/** A call with whatever of a correct one is left out or changed. */
export function callOf(parts: CallParts = {}): Call {
  const { path = '/mcp/alice', method = 'POST', tool = 'portfolio_read', args, query } = parts
  const given = parts.body ?? toolCallBody(tool, args)
  const body: CallBody =
    typeof given === 'string' ? { state: 'complete', bytes: Buffer.from(given), lossyText: false } : given
  const bytes = body.state === 'complete' ? body.bytes : undefined
  const headers = new Map<string, string[]>([
    ['content-type', ['application/json']],
    ...Object.entries(parts.headers ?? {}),
  ])
  const authorization = parts.authorization ?? (parts.token === undefined ? undefined : `PoP ${parts.token}`)
  if (authorization !== undefined) headers.set('authorization', [authorization])
  if (parts.digest === true && bytes !== undefined) headers.set('content-digest', [contentDigest(bytes)])
  if (parts.signer !== undefined) {
    const digest = parts.digest === true ? ['content-digest'] : []
    const message = {
      method,
      scheme: 'https' as const,
      authority: parts.signedAuthority ?? 'tools.example.com',
      path: parts.signedPath ?? path,
      query,
      headers,
      body: bytes,
    }
    const components = parts.components ?? [
      '@method',
      '@authority',
      '@path',
      'authorization',
      ...(query === undefined ? [] : ['@query']),
      ...digest,
    ]
    const signed = signRequest(message, parts.signer, {
      components,
      created: parts.created ?? nowSeconds(),
      expires: parts.expires,
    })
    headers.set('signature', [signed.signature])
    headers.set('signature-input', [signed['signature-input']])
  }
  return {
    method,
    path,
    ...(query === undefined ? {} : { query }),
    headers,
    body,
    context: parts.context ?? {},
    peer: parts.peer ?? '203.0.113.7',
    ...(parts.deadlineAt === undefined
      ? {}
      : {
          deadline: checkDeadline(parts.deadlineAt, {
            clock: parts.clock ?? Date.now,
            marginMs: parts.marginMs ?? MARGIN_MS,
          }),
        }),
    isCancelled: parts.isCancelled ?? (() => false),
  }
}

export const TOOLS: Tool[] = [
  { tool: 'portfolio_read', resource_id: 'alice/portfolio', scopes: ['read'], consequence: 'reversible' },
  { tool: 'place_trade', resource_id: 'alice/trades', scopes: ['trade'], consequence: 'irreversible' },
  { tool: 'undescribed', resource_id: 'alice/portfolio', scopes: ['read'] },
]

export interface Core {
  decide: (call: Call) => Promise<Outcome>
  route: Route
  reports: AccessReports
  lines: Record<string, unknown>[]
  dropped: number[]
  close(): Promise<void>
}

/** Settings of a core that differ from those of `startCore`. */
export type CoreOverrides = Partial<CheckOptions> & {
  openMethods?: string[]
  /** What further MCP methods need, as the configuration says it. */
  methods?: SidecarOwner['methods']
  perMinute?: number
  secret?: string
  /** Makes the resource a plain API at /api/alice. */
  api?: ApiOperation[]
  /** Where reports wait in files. */
  state?: AccessReportsOptions['state']
  /** In place of `TOOLS`. */
  tools?: Tool[]
  /** Further settings of a tool, in addition to its own. */
  tool?: (name: string) => Partial<Tool>
  /** In place of the one that asks `authority` over the network. */
  client?: AuthorityClient
  /**
   * The organization above alice: its issuer, the resources that it is asked about, and the directory in
   * which it is kept which emergencies were used.
   */
  organization?: {
    issuer: string
    resources?: string[]
    proof?: OrganizationProof
    clock?: () => number
    stateDirectory?: string
  }
  /**
   * Makes alice an account that several hold and the authority a tally; `clock` is that of its mandate,
   * `keysClock` that of all published keys.
   */
  joint?: {
    pinned: readonly string[] | 'any'
    aliases?: readonly string[]
    clock?: () => number
    keysClock?: () => number
  }
}

/** A core for the owner alice whose authority is at `authority`. */
export function startCore(authority: string, overrides: CoreOverrides = {}): Core {
  const lines: Record<string, unknown>[] = []
  const dropped: number[] = []
  const clock = Date.now
  const pools = {
    challenges: createOutbound({ devLoopback: true }),
    grants: createOutbound({ devLoopback: true }),
  }
  const { api } = overrides
  const path = api === undefined ? '/mcp/alice' : '/api/alice'
  const resource = `${PUBLIC_URL}${path}`
  const allowedOrigins = new Set([PUBLIC_URL])
  const credential = { kind: 'secret' as const, secret: overrides.secret ?? 'shh' }
  const { joint, tools = TOOLS } = overrides
  const keys = createJwksCache({ outbound: pools.challenges, clock: joint?.keysClock ?? clock })
  const organization =
    overrides.organization && organizationOf(overrides.organization, { outbound: pools.grants, keys })
  const route: Route = {
    owner: asOwner('alice'),
    path,
    resource,
    authority,
    client:
      overrides.client ??
      createAuthorityClient({
        authority,
        owner: asOwner('alice'),
        resource,
        isJoint: joint !== undefined,
        client_id: asClientId('demo-tools'),
        credential,
        pools,
        keys,
        clock,
      }),
    organization,
    joint: joint && jointOf(joint, { tally: authority, outbound: pools.grants, keys }),
    tools: new Map(tools.map(tool => [tool.tool, { ...tool, ...overrides.tool?.(tool.tool) }])),
    readRequest: readerOf(
      { path, api, methods: overrides.methods, tools },
      { open_methods: overrides.openMethods ?? [], allowedOrigins },
    ),
    api,
    signatureBase: { scheme: 'https', authority: 'tools.example.com' },
  }
  const reports = createAccessReports({
    clock,
    gatherMs: 1,
    onDropped: count => dropped.push(count),
    state: overrides.state,
    clients: [route.client],
  })
  const decide = createCheck({
    routes: routeTable([route]),
    reports,
    logger: createLogger({
      name: 'test',
      level: 'info',
      write: line => lines.push(JSON.parse(line) as Record<string, unknown>),
    }),
    clock,
    realm: 'tools',
    specNs: DEFAULT_SPEC_NS,
    limit: createChallengeLimit({ perMinute: overrides.perMinute ?? 1_000_000, clock }),
    trustedHops: 0,
    keepCredentials: false,
    requireContentDigest: false,
    reportArguments: false,
    bodiesBytesMax: 8_388_608,
    deadlineMs: 5_000,
    deadlineMarginMs: MARGIN_MS,
    ...overrides,
  })
  const close = async () => {
    organization?.view.stop()
    await reports.close(1_000)
    await Promise.all([pools.challenges.close(), pools.grants.close()])
  }
  return { decide, route, reports, lines, dropped, close }
}

function jointOf(
  {
    pinned,
    aliases = [],
    clock = () => performance.now(),
    keysClock = Date.now,
  }: NonNullable<CoreOverrides['joint']>,
  { tally, outbound, keys }: { tally: string; outbound: Outbound; keys: JwksCache },
): RouteJoint {
  const account = asOwner('alice')
  const read = createTallyClient({ tally, account, aliases, outbound, clock })
  return {
    tally,
    account,
    pinned,
    mandates: createMandateView({ read, clock }),
    proofs: createProofs({
      keys,
      clock: keysClock,
      typAlias: aliasIn(aliases, ENFORCEMENT_ALIAS.verdictTyp),
    }),
    spent: createSpentGrants(),
  }
}

function organizationOf(
  {
    issuer,
    resources = ['alice/*'],
    proof,
    clock = () => performance.now(),
    stateDirectory,
  }: NonNullable<CoreOverrides['organization']>,
  { outbound, keys }: { outbound: Outbound; keys: JwksCache },
): RouteOrganization {
  const client = createOrganizationClient({
    issuer,
    owner: asOwner('alice'),
    proof: proof ?? { kind: 'secret', secret: 'credential-of-this-point' },
    outbound,
    clock: Date.now,
  })
  return {
    issuer,
    client,
    keys,
    used: openUsedEmergencies(stateDirectory, { clock: Date.now }),
    view: createMembershipView({ read: deadline => client.membership(deadline), clock }),
    asksAbout: resource_id => isNamed(resources, resource_id),
  }
}

/** `[status, code]` of a denial, or `allow`. */
export function verdict(outcome: Outcome): string {
  return outcome.kind === 'allow'
    ? 'allow'
    : `${outcome.status} ${String((outcome.body as { error?: string }).error)}`
}
