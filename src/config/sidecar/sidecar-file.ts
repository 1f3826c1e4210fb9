/**
 * Owns the schema of the sidecar's YAML file. Contract: "Resource server enforcement point" and "Authorized
 * call": owners, their authorities, tools and the public URL are configured, never taken from a request.
 */
import { IDLE_SECONDS } from '../../http/servers/connection-bounds.ts'
import { clientName } from '../../http/servers/client-names.ts'
import { z } from 'zod'
import { parseListenAddress, type ListenAddress } from '../../http/servers/listen-address.ts'
import { ENFORCEMENT_ALIAS, isOtherKindThanRpt } from '../../wire/names.ts'
import type { methods } from './sidecar-methods.ts'
import { file, origin, owner, plainUrl, resource, whole, type operation, type tool } from './sidecar-owner.ts'

const address = z.string().transform((text, context): ListenAddress => {
  const parsed = parseListenAddress(text)
  if (parsed !== undefined) return parsed
  context.addIssue({ code: 'custom', message: 'give host:port, [v6]:port or unix:/path' })
  return z.NEVER
})

const authority = z.strictObject({
  issuer: plainUrl.describe('The issuer that owners name as `authority`.'),
  rpt_types: z
    .array(
      z
        .string()
        .regex(/^[\x21-\x7e]{1,100}$/, 'give a typ of visible ASCII')
        .refine(typ => !/^application\//i.test(typ), 'leave out application/, which may stand before any typ')
        .refine(typ => !isOtherKindThanRpt(typ), 'give no typ that is the name of another kind of token'),
    )
    .min(1)
    .max(8)
    .default([])
    .describe(
      'Values of `typ` that its grants may have beside `at+jwt`, for an authority of other software. Asked for only where an answer leaves to the grant what that says too.',
    ),
  addresses: z
    .array(origin)
    .min(1)
    .max(16)
    .default([])
    .describe(
      'Origins at which it is reached instead, such as `https://as-1.internal:9100`: the first that works is asked. Each shows a certificate for its own name.',
    ),
})

const listen = z.strictObject({
  check: address.describe('Address of the check for Envoy (gRPC).'),
  check_http: address
    .optional()
    .describe(
      'Address of the check for gateways that speak HTTP (`/check`): Envoy http_service, nginx, Traefik, Caddy. No such listener when left out.',
    ),
  http: address.describe('Address that serves the public documents and `/owner-resources`.'),
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
      'Status of the answer to an outage. When left out: 503 for forward-auth (`method_header`), and 424 for callers that ask as Envoy does, because Envoy treats a 503 as a failed check and may be configured to let the call pass.',
    ),
})

/** Envoy does not treat a 5xx as a denial, so it gets one only if the file says so. */
const checkHttp = checkHttpMembers.transform(({ outage_status, ...asks }) => ({
  ...asks,
  outage_status: outage_status ?? (asks.method_header === undefined ? 424 : 503),
}))

const clientCertificateName = z
  .string()
  .max(2_048)
  .regex(/^[^\s,"\\*]+$/, 'give a DNS name or a URI in full, without spaces and wildcards')
  .transform(clientName)

const checkTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
  client_ca_file: file.describe(
    'The CA of the client certificates that may connect, PEM. Without `client_names` whoever has a certificate of it may ask: give a CA that signs for the gateway alone.',
  ),
  client_names: z
    .array(clientCertificateName)
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Names of the gateways, such as `gateway.example.com` or `spiffe://cluster.local/ns/gateways/sa/gateway`, for a CA that signs for others, too. A certificate must have one of them as a DNS name or a URI (subjectAltName), in full. Its common name does not count, and `*` is no wildcard.',
    ),
})

const httpTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
})

const reports = z.strictObject({
  state_dir: file
    .optional()
    .describe(
      'Directory in which they outlive a kill: each is written there before its call is let through. Left out, they wait in memory. Replicas may share it. Its folder `ledger_heads` has the heads of ledgers that authorities sent in the last seven days (`usher sidecar heads`).',
    ),
  state_bytes_max: whole(65_536, 68_719_476_736)
    .default(67_108_864)
    .describe(
      'Maximum number of bytes that wait in `state_dir`. Beyond it, calls of owners whose authority accepts no reports are refused with 503; beyond twice that, all calls are.',
    ),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const SIDECAR_FILE = z.strictObject({
  public_url: origin.describe(
    'The address that agents call: scheme and authority of every signature base and of every resource.',
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
      'The headers by which gateways that speak HTTP say what they ask about; the gateway must write each of them itself.',
    ),
  network_trusted: z
    .boolean()
    .default(false)
    .describe(
      'Says that nobody but the gateway can reach `listen.check` and `listen.check_http`, because anybody who reaches them can spend grants.',
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
  owners: z.array(owner).min(1).describe('The owners who are served here.'),
  resources: z
    .array(resource)
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Resources of every owner who lists none of her own. `{owner}` in `path`, `client_id`, `client_secret_file`, `owner_approval` and each `resource_id` stands for her name, so that a new owner is one entry of `owners`.',
    ),
  authorities: z
    .array(authority)
    .default([])
    .describe(
      'What there is to say of authorities that have several addresses, or whose grants are named otherwise. An authority that is not listed is reached at its issuer.',
    ),
  body_bytes_max: whole(1024, 16_777_216)
    .default(1_048_576)
    .describe("Largest body judged, in bytes; set Envoy's max_request_bytes to the same."),
  bodies_bytes_max: whole(1024, 4_294_967_296)
    .default(8_388_608)
    .describe(
      'Maximum number of bytes of bodies held at a time, over all calls that are being judged; beyond it, 503.',
    ),
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
    .describe(
      'Further MCP methods let through under any live grant of the owner that is not for one use, such as `tasks/*`. `methods` of a resource maps a method to the tool whose grant it needs.',
    ),
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
      'How many proxies are in front of the gateway, each of which writes x-forwarded-for: the source is what the outermost of them saw; 0 = whoever calls the gateway. Behind a balancer set it, or all agents are one source.',
    ),
  deadline_ms: whole(50, 60_000)
    .default(2000)
    .describe('Time for one check if the caller sends no deadline, in milliseconds.'),
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
  liveness: z
    .enum(['asked', 'leased'])
    .default('asked')
    .describe(
      'How it is known that a standing grant is live. `asked`: its authority is asked about every call. `leased`: an answer is used again for up to 1.9 s, and whatever ends or narrows a grant waits until this process has dropped what it kept; if an authority offers no leases, it is asked all the same. Read "Leased liveness" in operating.md first.',
    ),
  aliases: z
    .array(z.enum(ENFORCEMENT_ALIAS))
    .default([])
    .describe(
      'Names of other software that are accepted beside the contract’s: for the `typ` of the yes to an emergency and of a holder’s verdict, and for the members of a tally’s metadata.',
    ),
  drain_ms: whole(0, 300_000)
    .default(2000)
    .describe('On SIGTERM: how long to keep answering while health says NOT_SERVING, in milliseconds.'),
  idle_seconds: whole(1, 4_000)
    .default(IDLE_SECONDS)
    .describe(
      'How long a connection to `listen.http` or `listen.check_http` may be idle between two requests, in seconds: longer than what is in front keeps one (operating.md).',
    ),
})

/** The file as it was written. */
export type WrittenSidecarFile = z.output<typeof SIDECAR_FILE>
export type WrittenOwner = WrittenSidecarFile['owners'][number]
/**
 * The same file, with an entry for each resource of an owner, and with the authority that is asked about her.
 * `warnings` says what in it has no effect, one sentence each.
 */
export type SidecarFile = Omit<WrittenSidecarFile, 'owners' | 'resources'> & {
  owners: SidecarFileOwner[]
  warnings: string[]
}
export type SidecarFileOwner = Omit<OwnedResource, 'authority'> & { authority: string }
/** One resource with its owner's own settings, and the names of both for sentences. */
export type OwnedResource = Omit<WrittenOwner, 'resources' | 'tools' | 'register' | 'path'> & {
  tools: SidecarTool[]
  register: boolean
  path: string
  at: string
}
export type SidecarResource = z.output<typeof resource>
export type WrittenTool = z.output<typeof tool>
/** A tool under the name by which it is judged. `of`: it is a part of the tool that is called. */
export type SidecarTool = Omit<WrittenTool, 'when' | 'as'> & { of?: ToolPart | undefined }
/** The tool that is called, and the constants in its arguments that make a call one of this part. */
export interface ToolPart {
  tool: string
  when: Record<string, string | boolean>
}
export type SidecarMethods = z.output<typeof methods>
export type SidecarOperation = z.output<typeof operation>
