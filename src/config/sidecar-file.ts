/**
 * Owns the schema of the sidecar's YAML file. Contract: "Resource server enforcement point" and "Authorized
 * call": owners, their authorities, tools and the public URL are configured, never taken from a request.
 */
import { z } from 'zod'
import { parseListenAddress, type ListenAddress } from '../http/listen-address.ts'
import { parsePathTemplate } from '../wire/http-operation.ts'
import { NAME_PATTERN } from '../wire/names.ts'
import { isPlainUrl } from './settings.ts'

const plainUrl = z
  .string()
  .refine(isPlainUrl, 'give an absolute URL without userinfo, query, fragment or trailing slash')
const origin = plainUrl.refine(
  text => URL.parse(text)?.origin === text,
  'give scheme and authority only, without a path',
)
const name = z.string().regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-"')
const path = z
  .string()
  .regex(
    /^(?:\/[A-Za-z0-9_~.-]+)+$/,
    'give a path of plain segments, such as /mcp/alice, without a trailing slash',
  )
  .refine(text => !/\/\.{1,2}(?:\/|$)/.test(text), 'give a path without dot segments')
const address = z.string().transform((text, context): ListenAddress => {
  const parsed = parseListenAddress(text)
  if (parsed !== undefined) return parsed
  context.addIssue({ code: 'custom', message: 'give host:port, [v6]:port or unix:/path' })
  return z.NEVER
})
const file = z.string().min(1)
const whole = (min: number, max: number) => z.int().min(min).max(max)

const tool = z.strictObject({
  tool: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/, 'give 1 to 128 visible ASCII characters')
    .describe('Name of the tool, as `tools/call` names it.'),
  resource_id: z
    .string()
    .min(1)
    .max(256)
    .describe('The registered resource it touches, `<owner>/…` or below one of `namespaces`.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))
    .min(1)
    .describe('Scopes a call of it needs.'),
  consequence: z
    .enum(['reversible', 'compensatable', 'forward_recoverable', 'irreversible'])
    .optional()
    .describe('Declared consequence class; left out = undescribed.'),
})

const operation = z.strictObject({
  method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']).describe('HTTP method.'),
  path: z
    .string()
    .refine(isPathTemplate, 'give a path such as /accounts/{account}: plain segments or {name}, or nothing')
    .describe('Path template below the base, such as `/accounts/{account}`; empty for the base itself.'),
  tool: z.string().describe('The tool that a call of it is; one of `tools`.'),
})

const organization = z.strictObject({
  issuer: origin.describe('Its issuer.'),
  credential: z
    .string()
    .min(1)
    .optional()
    .describe(
      'What it provisioned for this enforcement point, sent as Bearer; exactly one of this and the next two.',
    ),
  credential_file: file.optional().describe('File that holds the credential as its only line.'),
  signature: z
    .literal(true)
    .optional()
    .describe(
      'Sign by RFC 9421 with the first key of `keys_file`, which it finds at the `jwks_uri` of its own provisioning.',
    ),
  resources: z
    .array(z.string())
    .min(1)
    .describe(
      'Patterns of the resource ids that it may be asked about, such as `alice/work-*`, whatever its charter claims; `*` is any text within one segment.',
    ),
})

const owner = z.strictObject({
  owner: name.describe('Name of the owner, as her authority knows her.'),
  namespaces: z
    .array(name)
    .max(100)
    .default([])
    .describe(
      'Further names that her resource ids may begin with, as her authority lists them for her; each is one owner’s, and no owner’s name.',
    ),
  path: path
    .optional()
    .describe(
      'Path of her resource; `/mcp/<owner>`, with `api` `/api/<owner>`, when left out. The resource is `public_url` + `path`.',
    ),
  authority: plainUrl.describe("Issuer of the owner's authorization server."),
  client_id: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .describe(
      'What the authority knows this resource server by; with `register` it is the resource, and may be left out.',
    ),
  client_secret: z
    .string()
    .min(1)
    .optional()
    .describe('Secret for the PAT; exactly one of this and the next two.'),
  client_secret_file: file.optional().describe('File that holds the secret as its only line.'),
  signature: z
    .literal(true)
    .optional()
    .describe('Ask for the PAT with an RFC 9421 signature by the first key of `keys_file`.'),
  register: z
    .boolean()
    .default(false)
    .describe(
      'Register with the authority at the start, and wait for her approval; needs `signature: true`. Serving waits for neither.',
    ),
  name: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('What she is shown when it registers; the resource when left out.'),
  organization: organization
    .optional()
    .describe(
      'The organization above her, whose ceiling is held at each call of its resources; left out, none is asked.',
    ),
  tools: z.array(tool).min(1).describe('Her tools; any other is refused `unknown_tool`.'),
  api: z
    .array(operation)
    .min(1)
    .optional()
    .describe(
      'Makes it a plain HTTP API, called below `path`: which tool each method and path is. Left out, it speaks MCP.',
    ),
})

const authority = z.strictObject({
  issuer: origin.describe('What owners name as `authority`.'),
  addresses: z
    .array(origin)
    .min(1)
    .max(16)
    .describe(
      'Origins at which it is reached instead, such as `https://as-1.internal:9100`: the first that works is asked. Each shows a certificate for its own name.',
    ),
})

const listen = z.strictObject({
  check: address.describe('Where Envoy asks (gRPC).'),
  check_http: address
    .optional()
    .describe(
      'Where gateways ask that speak HTTP (`/check`): Envoy http_service, nginx, Traefik, Caddy; left out, none can.',
    ),
  http: address.describe('Where the public documents and `/owner-resources` are served.'),
})

const gatewayHeader = z
  .string()
  .regex(/^x-[a-z0-9-]{1,60}$/i, 'give the name of a header that begins with x-')
  .transform(text => text.toLowerCase())

const checkHttpMembers = z.strictObject({
  method_header: gatewayHeader
    .optional()
    .describe('Forward-auth only: header into which the gateway writes the method of the call.'),
  uri_header: gatewayHeader
    .optional()
    .describe(
      'Forward-auth only, with `method_header`: header with path and query as they were sent. The request itself then says neither.',
    ),
  length_header: gatewayHeader
    .optional()
    .describe(
      "Header into which the gateway writes the call's own content-length; left out, it is not known.",
    ),
  peer_header: gatewayHeader
    .optional()
    .describe(
      'Header with the address that called the gateway, the last of several; left out, the gateway is the one source of all challenges.',
    ),
  body_header: gatewayHeader
    .optional()
    .describe('Header that repeats the body of a denial, for gateways that drop the body (nginx).'),
  outage_status: z
    .union([z.literal(503), z.literal(424)])
    .optional()
    .describe(
      'Answer to an outage. Left out: 424 to who asks as Envoy does, which takes 503 for a failure of the check and may be set to let that pass; 503 to forward-auth (`method_header`).',
    ),
})

/** A 5xx is no denial to Envoy, so it gets one only where the file says so. */
const checkHttp = checkHttpMembers.transform(({ outage_status, ...asks }) => ({
  ...asks,
  outage_status: outage_status ?? (asks.method_header === undefined ? 424 : 503),
}))

const checkTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
  client_ca_file: file.describe('Who may connect: the CA of the client certificates, PEM.'),
})

const httpTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
})

const reports = z.strictObject({
  state_dir: file
    .optional()
    .describe(
      'Directory in which they outlive a kill: each is written there before its call is let through. Left out, they wait in memory. Replicas may share it.',
    ),
  state_bytes_max: whole(65_536, 68_719_476_736)
    .default(67_108_864)
    .describe(
      'Most bytes that wait in `state_dir`; beyond, calls of owners whose authority takes none are refused, 503, and twice that is the end of it for all.',
    ),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const SIDECAR_FILE = z.strictObject({
  public_url: origin.describe(
    'What agents call: scheme and authority of every signature base and of every resource.',
  ),
  listen: listen.describe('Addresses to listen on.'),
  check_tls: checkTls
    .optional()
    .describe(
      'Mutual TLS for `listen.check` and `listen.check_http`; needed for any address that is not local.',
    ),
  check_http: checkHttp
    .optional()
    .describe(
      'How gateways that speak HTTP write down what they ask about; each must write the headers named here itself.',
    ),
  network_trusted: z
    .boolean()
    .default(false)
    .describe(
      'Says that nobody but the gateway can reach `listen.check` and `listen.check_http`: whoever does can spend grants.',
    ),
  http_tls: httpTls.optional().describe('TLS for `listen.http`.'),
  keys_file: file.describe(
    'The resource server\'s private keys as `{"keys": [JWK, …]}`; the first signs, all are published.',
  ),
  authority_ca_file: file
    .optional()
    .describe('CA trusted, beside the usual ones, for connections to authorities, PEM.'),
  realm: z
    .string()
    .regex(/^[\x20\x21\x23-\x5b\x5d-\x7e]{1,64}$/)
    .describe('Protection realm named in challenges.'),
  owners: z.array(owner).min(1).describe('Who is served here.'),
  authorities: z
    .array(authority)
    .default([])
    .describe(
      'Where authorities are reached that have several addresses; one that is not listed is reached at its issuer.',
    ),
  body_bytes_max: whole(1024, 16_777_216)
    .default(1_048_576)
    .describe("Largest body judged, in bytes; set Envoy's max_request_bytes to the same."),
  bodies_bytes_max: whole(1024, 4_294_967_296)
    .default(8_388_608)
    .describe('Most bytes of bodies held at a time, over all calls that are being judged; beyond, 503.'),
  require_content_digest: z
    .boolean()
    .default(false)
    .describe('Every authorized call must cover a content-digest.'),
  keep_credentials: z
    .boolean()
    .default(false)
    .describe('Leave authorization, signature and signature-input on the upstream request.'),
  open_methods: z
    .array(z.string().min(1))
    .default([])
    .describe('Further MCP methods let through, such as `resources/read`.'),
  allowed_origins: z
    .array(origin)
    .default([])
    .describe('Values of Origin let through beside `public_url`; a request without one passes.'),
  challenges_per_minute: whole(1, 1_000_000)
    .default(60)
    .describe('Most challenges per minute and source address; beyond, 429.'),
  trusted_hops: whole(0, 10)
    .default(0)
    .describe(
      'Proxies in front of Envoy: the source is that many from the right in x-forwarded-for; 0 = the peer address.',
    ),
  deadline_ms: whole(50, 60_000)
    .default(2000)
    .describe('Time for one check where the caller sends no deadline, in milliseconds.'),
  deadline_margin_ms: whole(0, 10_000)
    .default(100)
    .describe(
      "How long before the caller's deadline every wait ends, in milliseconds; with less left, a grant is not spent.",
    ),
  reports: reports
    .prefault({})
    .describe("How reports of allowed calls wait for the owners' authorities to take them."),
  report_arguments: z
    .boolean()
    .default(false)
    .describe("Send the call's arguments to the owner's ledger, not only their hash."),
  drain_ms: whole(0, 300_000)
    .default(2000)
    .describe('On SIGTERM: how long to go on answering while health says NOT_SERVING, in milliseconds.'),
})

export type SidecarFile = z.output<typeof SIDECAR_FILE>
export type SidecarTool = z.output<typeof tool>
export type SidecarOperation = z.output<typeof operation>

function isPathTemplate(text: string): boolean {
  try {
    parsePathTemplate(text)
    return true
  } catch {
    return false
  }
}
