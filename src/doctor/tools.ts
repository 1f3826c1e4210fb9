/**
 * Owns what `usher doctor` says about the tools of a sidecar: what each needs, and the tier of the owner that
 * could let it through. Contract: "Protection API" (/perm), "Policy vocabulary and tiers" (a resource without
 * a tier is denied).
 */
import type { SidecarConfig } from '../config.ts'
import type { Outbound, OutboundAnswer } from '../http/outbound/outbound.ts'
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { answererOf, ask, jsonOf, Unwell } from './checks.ts'
import type { Look } from './look.ts'

type Served = SidecarConfig['owners'][number]
type ServedTool = Served['tools'][number]

/** Tools that need the same are asked about once; at most so many questions for each resource. */
const ASKED_MAX = 200

/**
 * Prints a line for the tools that need the same of one resource. `pat` is the protection access token of the
 * resource server.
 */
export async function examineTools(
  look: Look,
  outbound: Outbound,
  { served, whose, pat }: { served: Served; whose: string; pat: string },
): Promise<void> {
  const groups = [...groupsOf(served.tools).values()]
  for (const tools of groups.slice(0, ASKED_MAX)) {
    const names = tools.map(({ tool }) => tool).join(', ')
    await look(`${tools.length === 1 ? 'tool' : 'tools'} ${names} of ${whose}`, () =>
      checkTools(outbound, { served, tool: tools[0]!, pat }),
    )
  }
  if (groups.length > ASKED_MAX)
    await look(`tools of ${whose}`, () => `${groups.length - ASKED_MAX} more needs were not looked at`)
}

/** The tools by what they need. */
function groupsOf(tools: readonly ServedTool[]): Map<string, ServedTool[]> {
  const groups = new Map<string, ServedTool[]>()
  for (const tool of tools) {
    const { resource_id, scopes, consequence, owner_approval } = tool
    const need = [resource_id, [...scopes].sort(), consequence ?? null, owner_approval !== undefined]
    const key = JSON.stringify(need)
    groups.set(key, [...(groups.get(key) ?? []), tool])
  }
  return groups
}

/** `it needs trade of alice/trades; what it does is irreversible`. */
function needText({ resource_id, scopes, consequence, owner_approval }: ServedTool): string {
  const leads =
    consequence === undefined ? 'nobody declared its consequence' : `its consequence is ${consequence}`
  const signed = owner_approval === undefined ? '' : ', and needs a decision that the owner signed'
  return `it needs a grant for ${scopes.join(' ')} of ${resource_id}${signed}; ${leads}`
}

/** What the authority says of the need. Throws `Unwell` if no approval could let the tool through. */
async function checkTools(
  outbound: Outbound,
  { served, tool, pat }: { served: Served; tool: ServedTool; pat: string },
): Promise<string> {
  const { authority, client_id, joint } = served
  const { resource_id, scopes } = tool
  const { what, setting } = answererOf(joint !== undefined)
  const answer = await ask(outbound, setting, {
    method: 'POST',
    url: `${authority}/perm`,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      authorization: `Bearer ${pat}`,
    },
    body: JSON.stringify({ resource_id, resource_scopes: scopes, with_offer: true }),
  })
  const json = jsonOf(answer)
  const needs = needText(tool)
  if (answer.status === 201 && isJsonObject(json)) return `${needs}; ${offerText(tool, json)}`
  const word = wordOf(json, answer)
  if (word === 'invalid_resource_id')
    throw new Unwell(
      `${needs}, and the ${what} does not have ${resource_id} among the resources of ${client_id}. Make resource_id of the tool here and id of a resource in the file of UMA_AS_PROVISION (for a joint account UMA_TALLY_PROVISION) equal.`,
    )
  if (word === 'invalid_scope')
    throw new Unwell(
      `${needs}, and the ${what} has other scopes of it on record. Make scopes of the tool here and resource_scopes of the resource in the file of UMA_AS_PROVISION fit. The ${what} says: ${sentenceOf(json)}`,
    )
  throw new Unwell(`${needs}; asked about it, the ${what} answered ${word}. See its log.`)
}

/** Which tier offers it, and for how many calls a grant is; `json` is the answer of /perm. */
function offerText({ resource_id, scopes }: ServedTool, json: JsonObject): string {
  const { offered_scopes, offered_by: by } = json
  if (!Array.isArray(offered_scopes)) return 'the authority does not say who offers it'
  const offered = offered_scopes.filter(scope => typeof scope === 'string')
  if (offered.length === 0)
    throw new Unwell(
      `no tier has ${resource_id}, so every agent is refused. The owner puts it into a tier with \`usher owner tier apply\`.`,
    )
  const tier = isJsonObject(by) && typeof by['tier'] === 'string' ? `the tier ${by['tier']}` : 'a tier'
  const missing = scopes.filter(scope => !offered.includes(scope))
  if (missing.length > 0)
    throw new Unwell(
      `it needs ${scopes.join(' ')} of ${resource_id}, and ${tier} offers ${offered.join(' ')} alone, so no agent can call it. The owner adds ${missing.join(' ')} to the scope of the tier with \`usher owner tier apply\`, or the tool needs less.`,
    )
  return `${tier} offers it${callsText(isJsonObject(by) ? by['ask_me'] : undefined)}`
}

function callsText(asksEachTime: Json | undefined): string {
  if (asksEachTime === true) return ', for one call each time that the owner approves'
  return asksEachTime === false ? ', for any number of calls until the grant ends' : ''
}

function wordOf(json: Json | undefined, { status }: OutboundAnswer): string {
  return isJsonObject(json) && typeof json['error'] === 'string' ? json['error'] : `status ${status}`
}

function sentenceOf(json: Json | undefined): string {
  return isJsonObject(json) && typeof json['error_description'] === 'string'
    ? json['error_description'].slice(0, 300)
    : 'nothing more.'
}
