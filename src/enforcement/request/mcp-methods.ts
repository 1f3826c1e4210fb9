/**
 * Owns which tool stands for an MCP method other than `tools/call`: the tool whose grant a request of that
 * method needs, with its parameters. Contract: "Authorized call" (the tool maps to a resource) and
 * docs/choices.md: the tool is chosen by configuration and by the body alone, and a name that a server could
 * read as another one is refused.
 */
import type { SidecarOwner } from '../../config.ts'
import { s256Json } from '../../wire/encoding.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'
import { methodParameters } from '../../wire/resources/tool-parameters.ts'
import type { CallRequest } from './call-request.ts'
import { foldedText } from './folded-text.ts'
import { refuseCaseVariants, type McpMessage } from './mcp-message.ts'

/**
 * `free`: passes without a grant, as `tools/list` does. Otherwise `tool` is the tool whose grant it needs;
 * `uris` are templates of resources with tools of their own (the first that fits counts), `names` are
 * prompts with tools of their own.
 */
export type MethodRule =
  | 'free'
  | {
      readonly tool: string
      readonly uris: ReadonlyMap<string, string>
      readonly names: ReadonlyMap<string, string>
    }

export type MethodRules = ReadonlyMap<string, MethodRule>

/** The lists of objects, by the method that uses one: they pass if that method is mapped. */
const LISTS_OF: ReadonlyMap<string, readonly string[]> = new Map([
  ['resources/read', ['resources/list', 'resources/templates/list']],
  ['prompts/get', ['prompts/list']],
])

type MethodSettings = NonNullable<SidecarOwner['methods']>

/** The HTTP method of the stream of a session: a rule for it is about no JSON-RPC method of that name. */
const STREAM_METHOD = 'GET'

/** Whether the stream of a session (GET) passes without a grant. */
export const isStreamFree = (configured: MethodSettings = {}): boolean => configured[STREAM_METHOD] === 'free'

/** The rules of what is configured by method, and one for each list of objects that somebody may use. */
export function methodRules(configured: MethodSettings = {}): MethodRules {
  const lists = Object.keys(configured).flatMap(method => LISTS_OF.get(method) ?? [])
  return new Map<string, MethodRule>([
    ...lists.map(list => [list, 'free'] as const),
    ...Object.entries(configured)
      .filter(([method]) => method !== STREAM_METHOD)
      .map(([method, rule]) => [method, ruleOf(rule)] as const),
  ])
}

function ruleOf(rule: MethodSettings[string]): MethodRule {
  if (rule === 'free') return rule
  const { tool, uris = {}, names = {} } = rule
  return { tool, uris: new Map(Object.entries(uris)), names: new Map(Object.entries(names)) }
}

/**
 * The request of a mapped method; undefined if the method is not mapped. Refuses 400 `invalid_request` for
 * a resource or a prompt that a server could take for one of another tool.
 */
export function readMethod(
  { method, params = {} }: McpMessage & { method: string },
  rules: MethodRules,
  inexactNumber: string | undefined,
): CallRequest | undefined {
  const rule = rules.get(method)
  if (rule === undefined) return undefined
  if (rule === 'free') return { kind: 'pass', method }
  const parameters = methodParameters(method, params)
  return {
    kind: 'tool',
    tool: toolOf(rule, method, params),
    method,
    params: parameters,
    params_s256: s256Json(parameters),
    ...(inexactNumber === undefined ? {} : { inexactNumber }),
  }
}

function toolOf(rule: Exclude<MethodRule, 'free'>, method: string, params: JsonObject): string {
  if (rule.uris.size === 0 && rule.names.size === 0) return rule.tool
  const { uri, name } = objectOf(method, params)
  if (rule.uris.size > 0 && uri !== undefined) return toolOfUri(rule, textOf(uri, 'the URI of the resource'))
  if (rule.names.size > 0 && name !== undefined)
    return toolOfName(rule, textOf(name, 'the name of the prompt'))
  return rule.tool
}

/** What the request is about: a completion names it in `ref`, every other method beside its arguments. */
function objectOf(method: string, params: JsonObject): { uri?: Json | undefined; name?: Json | undefined } {
  if (method.startsWith('prompts/')) return { name: params.name ?? null }
  if (method !== 'completion/complete') return { uri: params.uri ?? null }
  const { ref } = params
  if (!isJsonObject(ref)) refuse('invalid_request', 'Send ref as a JSON object.')
  refuseCaseVariants(ref)
  if (ref.type === 'ref/resource' && ref.name === undefined) return { uri: ref.uri ?? null }
  if (ref.type === 'ref/prompt' && ref.uri === undefined) return { name: ref.name ?? null }
  return refuse('invalid_request', 'Send ref with its type, and with either a uri or a name.')
}

function textOf(value: Json, what: string): string {
  return typeof value === 'string' ? value : refuse('invalid_request', `Send ${what} as a string.`)
}

type MappedRule = Exclude<MethodRule, 'free'>

/** Prompts have no second spelling, except for servers that fold case or Unicode. */
function toolOfName({ names, tool }: MappedRule, name: string): string {
  const exact = names.get(name)
  if (exact !== undefined) return exact
  const other = [...names.keys()].find(one => foldedText(one) === foldedText(name))
  if (other !== undefined) refuse('invalid_request', `Spell the name of the prompt as it is listed.`)
  return tool
}

/** A text that is no longer is matched in a moment, whatever it is. */
const URI_CHARACTERS_MAX = 2_048
/** Absolute, without escapes, dot segments and empty segments: every server reads it alike. */
const PLAIN_URI = /^[a-z][a-z0-9+.-]*:(?:\/\/)?(?!\/\/)[\x21-\x7e]*$/
const TWO_WAYS = /[%\\]|\/\.{1,2}(?:[/?#]|$)|[^:/]\/\/|\/{4}/

function toolOfUri({ uris, tool }: MappedRule, uri: string): string {
  if (uri.length > URI_CHARACTERS_MAX)
    refuse('invalid_request', `Send the URI of the resource with at most ${URI_CHARACTERS_MAX} characters.`)
  if (!PLAIN_URI.test(uri) || TWO_WAYS.test(uri))
    refuse(
      'invalid_request',
      'Send the URI of the resource as it is listed: absolute, without escapes, dot segments or empty segments.',
    )
  const found = firstFit(uris, uri, text => text)
  if (SPELLINGS.some(spell => firstFit(uris, spell(uri), spell) !== found))
    refuse('invalid_request', 'Spell the URI of the resource as it is listed, in its case.')
  if (found !== undefined) return uris.get(found)!
  // A server may read another spelling of a listed one, such as file:/x for file:///x.
  if ([...uris.keys()].some(template => schemeOf(template) === schemeOf(uri)))
    refuse(
      'unknown_tool',
      'Ask for a resource that the configuration of this enforcement point maps to a tool.',
    )
  return tool
}

const schemeOf = (uri: string): string => uri.slice(0, uri.indexOf(':')).toLowerCase()

/** Texts that some server reads as the URI: without a last slash, or in another case. */
const SPELLINGS: readonly ((uri: string) => string)[] = [foldedText, uri => uri.replace(/\/$/, '')]

function firstFit(
  uris: MappedRule['uris'],
  uri: string,
  spell: (text: string) => string,
): string | undefined {
  for (const template of uris.keys()) if (fits(spell(template), uri)) return template
  return undefined
}

/** `{name}` stands for a text within one segment, `{+name}` for a whole path; neither may be empty. */
function fits(template: string, uri: string): boolean {
  if (template === uri) return true
  const pattern = template
    .split(/(\{\+?[A-Za-z0-9_]+\})/)
    .map((part, index) => {
      if (index % 2 === 0) return part.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`)
      return part.startsWith('{+') ? '[^?#]+' : '[^/?#]+'
    })
    .join('')
  return new RegExp(`^${pattern}$`, 's').test(uri)
}
