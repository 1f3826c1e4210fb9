/**
 * Owns what the sidecar's file says about an owner and her resources. Contract: "Resource server enforcement
 * point" (her tools are configured, never taken from a request).
 */
import { z } from 'zod'
import { parsePathTemplate } from '../../wire/resources/http-operation.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { methods } from './sidecar-methods.ts'
import { condition } from './sidecar-condition.ts'
import { isPlainUrl, plainUrlWords } from '../settings.ts'

export const plainUrl = z.string().refine(isPlainUrl, { error: ({ input }) => plainUrlWords(input) })
export const origin = plainUrl.refine(
  text => URL.parse(text)?.origin === text,
  'give scheme and authority only, without a path',
)
const name = z.string().regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-"')
const path = z
  .string()
  .regex(
    /^(?:\/(?:[A-Za-z0-9_~.-]+|\{owner\}))+$/,
    'give a path of plain segments, such as /mcp/alice or /mcp/{owner}, without a trailing slash',
  )
  .refine(text => !/\/\.{1,2}(?:\/|$)/.test(text), 'give a path without dot segments')
export const file = z.string().min(1)
export const whole = (min: number, max: number) => z.int().min(min).max(max)

const toolName = z.string().regex(/^[\x21-\x7e]{1,128}$/, 'give 1 to 128 visible ASCII characters')

export const tool = z.strictObject({
  tool: toolName.describe('Name of the tool, as `tools/call` names it.'),
  when: condition
    .optional()
    .describe(
      'Makes the entry a part of the tool: the calls whose arguments have exactly these constants, by JSON Pointer, such as `{/dryRun: true}`. All other calls are of the entry without `when`, or are refused `unknown_tool` if there is none. Needs `as`.',
    ),
  as: toolName
    .optional()
    .describe(
      'With `when`: the name of the part. Its challenge, the operation that its owner approves, her ledger and the metadata call it so; nobody can call it by this name.',
    ),
  resource_id: z
    .string()
    .min(1)
    .max(256)
    .describe('The registered resource it touches, `<owner>/…` or below one of `namespaces`.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'give 1 to 200 visible ASCII characters'))
    .min(1)
    .max(50)
    .describe('Scopes a call of it needs.'),
  consequence: z
    .enum(['reversible', 'compensatable', 'forward_recoverable', 'irreversible'])
    .optional()
    .describe('Declared consequence class; left out = undescribed.'),
  owner_approval: z
    .strictObject({
      keys_file: file.describe(
        'Her public keys, as `usher owner key export` writes them: `{"keys": [JWK, …]}`. Looked at with each call, never fetched from her authority.',
      ),
      state_dir: file.describe(
        'Directory in which each used decision is marked. Replicas that share it let each decision through once among them all.',
      ),
    })
    .optional()
    .describe(
      'Each call needs a decision that she signed for exactly this call, even if her authority allows it; not with `joint`.',
    ),
})

export const operation = z.strictObject({
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
      'The credential that it provisioned for this enforcement point, sent as Bearer; exactly one of this and the next two.',
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
      'Patterns of the resource ids that it may be asked about, such as `alice/work-*`, even if its charter claims more; `*` is any text within one segment.',
    ),
})

const joint = z.strictObject({
  tally: plainUrl.describe('Its issuer, which takes the place of `authority`.'),
  account: name.describe('The account, as the tally knows it; the same as `owner`.'),
  mandate_s256: z
    .union([
      z.literal('any'),
      z
        .array(z.string().regex(/^s256:[A-Za-z0-9_-]{43}$/))
        .min(1)
        .max(8),
    ])
    .describe(
      'Digests of the mandates that count here, `s256:…`, as shown to the holders; list several while one replaces another. `any` lets the operator of the tally say who holds the account.',
    ),
})

/** The members of a resource; an owner with only one may have them in her entry. */
const resourceMembers = {
  path: path
    .optional()
    .describe(
      'Path of the resource; `{owner}` stands for her name, as a segment. `/mcp/<owner>`, with `api` `/api/<owner>`, when left out. The resource is `public_url` + `path`.',
    ),
  client_id: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .describe(
      'The name by which the authority knows this resource, a different one for each resource of an owner; `{owner}` stands for her name. With `register` it is the resource, and may be left out.',
    ),
  client_secret: z
    .string()
    .min(1)
    .optional()
    .describe('Secret for the PAT; exactly one of this and the next two.'),
  client_secret_file: file
    .optional()
    .describe('File that holds the secret as its only line; `{owner}` stands for her name.'),
  signature: z
    .literal(true)
    .optional()
    .describe(
      'Ask for the PAT with an RFC 9421 signature by the first key of `keys_file`, which her authority lists in `jwks` of its provisioning file, or finds where the resource is if that registered itself.',
    ),
  register: z
    .boolean()
    .optional()
    .describe(
      'Register with the authority at the start, and wait for her approval; needs `signature: true`. Serving waits for neither. False when left out.',
    ),
  name: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('The name that she sees when it registers; the resource when left out.'),
  api: z
    .array(operation)
    .min(1)
    .optional()
    .describe(
      'Makes it a plain HTTP API, called below `path`: which tool each method and path is. Left out, it speaks MCP.',
    ),
  upstream: plainUrl
    .optional()
    .describe(
      'Where the MCP server behind the gateway listens, such as `http://tools:8080/mcp`. The sidecar asks it once at its start, and warns if it does not answer, or answers 404. It passes nothing on to it. Nothing is asked when left out.',
    ),
  methods: methods
    .optional()
    .describe(
      'What MCP methods other than `tools/call` need, by their names (`resources/read`): `free`, or `{tool}`, whose grant such a request needs. Resources may have tools of their own in `uris` (template to tool, the first that fits), prompts in `names`. With `resources/read` or `prompts/get`, the lists pass, too. `GET: free` lets the stream of a session pass without a grant, so that a tool called under a grant for one use can ask there; a revocation does not end it.',
    ),
}

export const resource = z.strictObject({
  ...resourceMembers,
  tools: z.array(tool).min(1).describe('Its tools; any other is refused `unknown_tool`.'),
})

export const owner = z.strictObject({
  owner: name.describe('Name of the owner, as her authority knows her.'),
  namespaces: z
    .array(name)
    .max(100)
    .default([])
    .describe(
      'Further names that her resource ids may begin with, as her authority lists them for her. Each belongs to one owner, and is no owner’s name.',
    ),
  authority: plainUrl
    .optional()
    .describe("Issuer of the owner's authorization server; left out with `joint`, and needed without."),
  organization: organization
    .optional()
    .describe(
      'The organization above her, whose ceiling is enforced at each call of its resources. No organization is asked when left out.',
    ),
  joint: joint
    .optional()
    .describe(
      'The owner is an account that several hold: a tally answers for it, and each call is checked against the verdicts of its holders.',
    ),
  ...resourceMembers,
  tools: z
    .array(tool)
    .min(1)
    .optional()
    .describe('Her tools, if she has one resource; any other tool is refused `unknown_tool`.'),
  resources: z
    .array(resource)
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Her resources, MCP servers and plain APIs side by side, in place of `tools`, `api` and `path`. Say how each proves itself in its entry, or once beside them. With neither this nor `tools`, she has the `resources` of the file.',
    ),
})

function isPathTemplate(text: string): boolean {
  try {
    parsePathTemplate(text)
    return true
  } catch {
    return false
  }
}
