/**
 * Owns the configuration of `usher sidecar`: one YAML file. contract, "Resource server enforcement point" and "Authorized call":
 * owners, their authorities, tools and the public URL are configured, never taken from a request.
 */
import { z } from 'zod'
import {
  formatListenAddress,
  isLocalAddress,
  isLoopbackHost,
  parseListenAddress,
  type ListenAddress,
} from '../http/listen-address.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { DEFAULT_SPEC_NS, NAME_PATTERN } from '../wire/names.ts'
import { collectFaults, readFile, readKeysFile, readSecretFile, readYamlFile } from './files.ts'
import { duplicates, issueSentence } from './issues.ts'
import {
  ConfigFault,
  defaulted,
  defineSettings,
  filePath,
  isPlainUrl,
  logLevel,
  required,
  toggle,
  url,
  type Values,
} from './settings.ts'

export const SIDECAR_SETTINGS = defineSettings({
  title: 'usher sidecar',
  settings: {
    configFile: required('UMA_PEP_CONFIG', filePath, {
      description: 'The YAML file described below; `--config` does the same.',
    }),
    requireContentDigest: defaulted('UMA_PEP_REQUIRE_CONTENT_DIGEST', toggle, 'false', {
      description: 'The same as `require_content_digest: true` in the file; either suffices.',
    }),
    specNs: defaulted('UMA_SPEC_NS', url, DEFAULT_SPEC_NS, {
      description: 'The base of identifier URIs, `{spec_ns}`; the same for every party.',
    }),
    devLoopback: defaulted('UMA_DEV_LOOPBACK', toggle, 'false', {
      description: 'Development only: admits http and loopback addresses, for literal loopback hosts.',
    }),
    logLevel: defaulted('UMA_PEP_LOG_LEVEL', logLevel, 'info', {
      description: 'Least severe log line written.',
    }),
  },
})

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
  resource_id: z.string().min(1).max(256).describe('The registered resource it touches, `<owner>/…`.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))
    .min(1)
    .describe('Scopes a call of it needs.'),
  consequence: z
    .enum(['reversible', 'compensatable', 'forward_recoverable', 'irreversible'])
    .optional()
    .describe('Declared consequence class; left out = undescribed.'),
})

const owner = z.strictObject({
  owner: name.describe('Name of the owner, as her authority knows her.'),
  path: path
    .optional()
    .describe(
      'Exact path of her resource; `/mcp/<owner>` when left out. The resource is `public_url` + `path`.',
    ),
  authority: plainUrl.describe("Issuer of the owner's authorization server."),
  client_id: z.string().min(1).max(2048).describe('What the authority knows this resource server by.'),
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
  tools: z.array(tool).min(1).describe('Her tools; any other is refused `unknown_tool`.'),
})

const listen = z.strictObject({
  check: address.describe('Where Envoy asks (gRPC).'),
  http: address.describe('Where the public documents and `/owner-resources` are served.'),
})

const checkTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
  client_ca_file: file.describe('Who may connect: the CA of the client certificates, PEM.'),
})

const httpTls = z.strictObject({
  cert_file: file.describe('Certificate chain, PEM.'),
  key_file: file.describe('Its private key, PEM.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const SIDECAR_FILE = z.strictObject({
  public_url: origin.describe(
    'What agents call: scheme and authority of every signature base and of every resource.',
  ),
  listen: listen.describe('Addresses to listen on.'),
  check_tls: checkTls
    .optional()
    .describe('Mutual TLS for `listen.check`; needed for any address that is not local.'),
  network_trusted: z
    .boolean()
    .default(false)
    .describe('Says that nobody but Envoy can reach `listen.check`: whoever does can spend grants.'),
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
  body_bytes_max: whole(1024, 16_777_216)
    .default(1_048_576)
    .describe("Largest body judged, in bytes; set Envoy's max_request_bytes to the same."),
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

/** How the sidecar proves itself when it asks for a PAT. */
export type PatCredential = { kind: 'secret'; secret: string } | { kind: 'signature' }

export interface SidecarOwner {
  owner: string
  path: string
  authority: string
  client_id: string
  credential: PatCredential
  tools: SidecarTool[]
}

/** What `usher sidecar` runs with: the file's values, and the contents of the files it names. */
export interface SidecarConfig
  extends
    Omit<SidecarFile, 'owners' | 'check_tls' | 'http_tls' | 'keys_file' | 'authority_ca_file'>,
    Pick<Values<typeof SIDECAR_SETTINGS.settings>, 'specNs' | 'devLoopback' | 'logLevel'> {
  owners: SidecarOwner[]
  keys: PrivateKey[]
  checkTls: { cert: Buffer; key: Buffer; clientCa: Buffer } | undefined
  httpTls: { cert: Buffer; key: Buffer } | undefined
  authorityCa: Buffer | undefined
}

/** Reads and judges the whole file. Throws `ConfigFault` listing every fault found. */
export function loadSidecarFile(values: Values<typeof SIDECAR_SETTINGS.settings>): SidecarConfig {
  const result = SIDECAR_FILE.safeParse(readYamlFile('UMA_PEP_CONFIG', values.configFile))
  if (!result.success) throw new ConfigFault(result.error.issues.map(issueSentence))
  const given = result.data
  const faults = [...sidecarFaults(given, values.devLoopback), ...given.owners.flatMap(ownerFaults)]
  if (faults.length > 0) throw new ConfigFault(faults)
  return loadNamedFiles(given, values)
}

function loadNamedFiles(given: SidecarFile, values: Values<typeof SIDECAR_SETTINGS.settings>): SidecarConfig {
  const { owners, check_tls, http_tls, keys_file, authority_ca_file, ...rest } = given
  const { specNs, devLoopback, logLevel } = values
  const config: SidecarConfig = {
    ...rest,
    require_content_digest: rest.require_content_digest || values.requireContentDigest,
    specNs,
    devLoopback,
    logLevel,
    owners: [],
    keys: [],
    checkTls: undefined,
    httpTls: undefined,
    authorityCa: undefined,
  }
  const pem = (name: string, path: string | undefined) =>
    path === undefined ? undefined : readFile(name, path)
  collectFaults<unknown>([
    () => (config.keys = readKeysFile('keys_file', keys_file)),
    () => (config.authorityCa = pem('authority_ca_file', authority_ca_file)),
    () => {
      if (http_tls === undefined) return
      config.httpTls = {
        cert: readFile('http_tls.cert_file', http_tls.cert_file),
        key: readFile('http_tls.key_file', http_tls.key_file),
      }
    },
    () => {
      if (check_tls === undefined) return
      config.checkTls = {
        cert: readFile('check_tls.cert_file', check_tls.cert_file),
        key: readFile('check_tls.key_file', check_tls.key_file),
        clientCa: readFile('check_tls.client_ca_file', check_tls.client_ca_file),
      }
    },
    ...owners.map(given => () => config.owners.push(loadOwner(given))),
  ])
  return config
}

function loadOwner(given: SidecarFile['owners'][number]): SidecarOwner {
  const { client_secret, client_secret_file, signature: _signature, path, ...rest } = given
  const secret =
    client_secret_file === undefined
      ? client_secret
      : readSecretFile(`client_secret_file of ${given.owner}`, client_secret_file)
  const credential: PatCredential = secret === undefined ? { kind: 'signature' } : { kind: 'secret', secret }
  return { ...rest, path: path ?? `/mcp/${given.owner}`, credential }
}

function sidecarFaults(given: SidecarFile, devLoopback: boolean): string[] {
  const { check } = given.listen
  const faults = [
    ...duplicates(given.owners.map(({ owner }) => owner)).map(owner => `owners: ${owner} stands twice.`),
    ...duplicates(given.owners.map(({ owner, path }) => path ?? `/mcp/${owner}`)).map(
      path => `owners: two of them have the path ${path}.`,
    ),
    ...[given.public_url, ...given.owners.map(({ authority }) => authority)]
      .filter(text => !isSecure(text, devLoopback))
      .map(
        text =>
          `${text} is not https. (UMA_DEV_LOOPBACK=true admits http to literal loopback hosts, for development.)`,
      ),
  ]
  if (!isLocalAddress(check) && given.check_tls === undefined && !given.network_trusted) {
    faults.push(
      `listen.check: ${formatListenAddress(check)} can be reached from outside this machine, and whoever reaches it can spend ` +
        'grants. Listen on loopback or a Unix socket, set check_tls, or set network_trusted: true.',
    )
  }
  return faults
}

function ownerFaults(given: SidecarFile['owners'][number]): string[] {
  const credentials = [given.client_secret, given.client_secret_file, given.signature].filter(
    value => value !== undefined,
  )
  const faults = duplicates(given.tools.map(({ tool }) => tool)).map(
    tool => `tools of ${given.owner}: ${tool} stands twice.`,
  )
  if (credentials.length !== 1) {
    faults.push(
      `owner ${given.owner}: give exactly one of client_secret, client_secret_file and signature: true.`,
    )
  }
  for (const { tool, resource_id } of given.tools) {
    if (!resource_id.startsWith(`${given.owner}/`)) {
      faults.push(`tools of ${given.owner}: the resource_id of ${tool} must start with ${given.owner}/.`)
    }
  }
  return faults
}

function isSecure(text: string, devLoopback: boolean): boolean {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (devLoopback && isLoopbackHost(hostname))
}
