/**
 * Owns the listing of one owner's resources at a resource server: what it answers to her authority, and how
 * that is read. Contract: "Registry materialization" and "Resource server enforcement point"
 * (`/owner-resources`).
 */
import { RESOURCES_MAX } from '../document-bounds.ts'
import type { JsonObject } from '../json.ts'
import { asObject, member, optionalText, textMember, wordMember } from '../json-members.ts'
import { refuse } from '../refusal.ts'
import { asOwner, type Owner } from '../identifiers.ts'

/**
 * A tool that touches a resource, and the class that is declared for it; without a class it is undeclared.
 */
export type ResourceTool = { tool: string; consequence?: string }

/**
 * One resource of hers. `_id` is `<owner>/…`, or is below one of her namespaces. `consequence` is the gravest
 * class declared for anything that touches it, and applies to each tool if the listing does not distinguish
 * the tools. `approval` `signed`: only approvals that she signed count.
 */
export type OwnerResource = {
  _id: string
  name: string
  type?: string
  resource_scopes: string[]
  consequence?: string
  tools?: ResourceTool[]
  approval?: 'signed'
}

/** Her resources at one resource server. */
export type OwnerListing = {
  owner: Owner
  resources: OwnerResource[]
}

/** How many one resource may have. */
export const LISTING_BOUNDS = { scopes: 50, tools: 1_000 }
const { scopes: SCOPES_MAX, tools: TOOLS_MAX } = LISTING_BOUNDS
const NAME_LENGTH_MAX = 200
const TYPE_LENGTH_MAX = 400
/** An id that `/perm` accepts: printable and without blanks. */
const ID = /^[\x21-\x7e]{1,400}$/
/** Text in any script, without invisible characters. */
const TOOL = /^\P{C}{1,200}$/u
/** RFC 6749 §3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/

/**
 * A received listing, each member of its type; unknown members are dropped, `owner` is not judged. Refuses
 * (`invalid_request`) the whole listing if an id is listed twice, or is below neither the listing's own owner
 * nor one of `namespaces`, those of the owner in question.
 */
export function parseOwnerListing(json: unknown, namespaces: readonly string[] = []): OwnerListing {
  const object = asObject(json, 'the listing')
  const owner = asOwner(textMember(object, 'owner'))
  const resources = member(object, 'resources')
  if (!Array.isArray(resources) || resources.length > RESOURCES_MAX)
    refuse('invalid_request', `Give resources as a list of at most ${RESOURCES_MAX} objects.`)
  const read = resources.map(one => readResource(asObject(one, 'each of resources'), [owner, ...namespaces]))
  if (new Set(read.map(({ _id }) => _id)).size < read.length)
    refuse('invalid_request', 'List each resource once.')
  return { owner, resources: read }
}

/** Whether a resource id is below one of these names: her own, and the namespaces listed for her. */
export function isBelow(resource_id: string, names: readonly string[]): boolean {
  return names.some(name => resource_id.startsWith(`${name}/`) && resource_id.length > name.length + 1)
}

function readResource(object: JsonObject, names: readonly string[]): OwnerResource {
  const _id = textMember(object, '_id')
  if (!ID.test(_id) || !isBelow(_id, names))
    refuse(
      'invalid_request',
      'Give each _id as `<owner>/…`, or below a namespace listed for her, in at most 400 visible ASCII characters.',
    )
  const type = optionalText(object, 'type')
  const consequence = optionalText(object, 'consequence')
  return {
    _id,
    name: shown(textMember(object, 'name'), NAME_LENGTH_MAX),
    ...(type === undefined ? {} : { type: shown(type, TYPE_LENGTH_MAX) }),
    resource_scopes: readScopes(object),
    ...(consequence === undefined ? {} : { consequence }),
    ...readTools(object),
    ...(member(object, 'approval') !== undefined && { approval: wordMember(object, 'approval', ['signed']) }),
  }
}

function readScopes(object: JsonObject): string[] {
  const scopes = member(object, 'resource_scopes')
  const fits = (scope: unknown): scope is string => typeof scope === 'string' && SCOPE.test(scope)
  if (!Array.isArray(scopes) || scopes.length === 0 || scopes.length > SCOPES_MAX || !scopes.every(fits))
    refuse('invalid_request', `Give resource_scopes as a list of 1 to ${SCOPES_MAX} scopes.`)
  return [...new Set(scopes)]
}

function readTools(object: JsonObject): Pick<OwnerResource, 'tools'> {
  const tools = member(object, 'tools')
  if (tools === undefined) return {}
  if (!Array.isArray(tools) || tools.length > TOOLS_MAX)
    refuse('invalid_request', `Give tools as a list of at most ${TOOLS_MAX} objects.`)
  const read = tools.map(one => readTool(asObject(one, 'each of tools')))
  if (new Set(read.map(({ tool }) => tool)).size < read.length)
    refuse('invalid_request', 'List each tool of a resource once.')
  return { tools: read }
}

function readTool(object: JsonObject): ResourceTool {
  const tool = textMember(object, 'tool')
  if (!TOOL.test(tool)) refuse('invalid_request', 'Give each tool in at most 200 visible characters.')
  const consequence = optionalText(object, 'consequence')
  return { tool, ...(consequence === undefined ? {} : { consequence }) }
}

function shown(text: string, max: number): string {
  return text.length <= max && !text.includes('\0')
    ? text
    : refuse('invalid_request', `Give names and types in at most ${max} characters, without NUL.`)
}
