/**
 * The owner's names for her agents and the names of her resources, for every list that has their handles and
 * ids. Contract: "Owner API" (`/owner/connections`): a label is hers, and no other answer contains it.
 */
import { ApiError } from '../../client/api-error.ts'
import { NOT_SERVED, readAll } from '../../client/exchange.ts'
import { UsageError } from '../../terminal/command.ts'
import { nameOf, shortName } from '../../client/names.ts'
import { NO_RESOURCE_NAMES, resourceNames, type ResourceNames } from '../../rules/words/resource-words.ts'
import type { OwnerSession } from '../session.ts'

/** The names by handle; only for agents that she has named. */
export type Labels = ReadonlyMap<string, string>

const NO_LABELS: Labels = new Map()

/** How a person at a terminal knows agents and resources. */
export interface DisplayNames {
  labels: Labels
  resources: ResourceNames
}

export const NO_NAMES: DisplayNames = { labels: NO_LABELS, resources: NO_RESOURCE_NAMES }

/** Both, for people; none for a script, and none that cannot be read. */
export async function namesOf(session: Pick<OwnerSession, 'client' | 'json'>): Promise<DisplayNames> {
  const [labels, resources] = await Promise.all([labelsOf(session), resourceNamesOf(session)])
  return { labels, resources }
}

/** The names of her resources, for people; none for a script, and none if they cannot be read. */
export async function resourceNamesOf({
  client,
  json,
}: Pick<OwnerSession, 'client' | 'json'>): Promise<ResourceNames> {
  if (json) return NO_RESOURCE_NAMES
  try {
    return resourceNames(await readAll(client.resources()))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return NO_RESOURCE_NAMES
  }
}

/**
 * Her present names, for people; none for a script, which has the connections. If they cannot be read, the
 * other list has no labels.
 */
async function labelsOf({ client, json }: Pick<OwnerSession, 'client' | 'json'>): Promise<Labels> {
  if (json) return NO_LABELS
  try {
    const connections = await readAll(client.connections())
    return new Map(connections.flatMap(({ handle, label }) => (label ? [[handle, label]] : [])))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return NO_LABELS
  }
}

/**
 * Does `act` with the handle as it was given. If the authority knows no such agent, it uses the one that she
 * calls so, or whose handle is the only one that begins so.
 */
export async function namedAgent<T>(
  { client }: Pick<OwnerSession, 'client'>,
  name: string,
  act: (handle: string) => Promise<T>,
  among: Among = {},
): Promise<T> {
  try {
    return await act(name)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404 || error.reason === NOT_SERVED) throw error
    const handle = await handleOf({ client }, name, among)
    if (handle === undefined || handle === name)
      throw new ApiError(error.code, `${error.detail} Your agents: usher owner connections`, {
        status: error.status,
        cause: error,
      })
    return act(handle)
  }
}

/** Whether agents that only wait for her are meant, too. */
interface Among {
  waiting?: boolean
}

/**
 * The handle of the agent that she calls so, or the only one that begins so. Undefined if there is none;
 * several are a `UsageError`.
 */
export async function handleOf(
  { client }: Pick<OwnerSession, 'client'>,
  name: string,
  { waiting = false }: Among = {},
): Promise<string | undefined> {
  const known = await readAll(client.connections())
  const called = known.filter(({ label }) => label === name).map(({ handle }) => handle)
  if (called.length > 1)
    throw new UsageError(`You call ${called.length} agents so: ${called.join(', ')}. Give the handle of one.`)
  if (called[0] !== undefined) return called[0]
  const handles = known.map(({ handle }) => handle)
  const asking = waiting ? (await readAll(client.pending())).map(({ handle }) => handle) : []
  return nameOf(name, [...handles, ...asking])
}

/** How a sentence names an agent: `"Tax bot"` if she has named it, otherwise `Agent jkt:VWo19Q8H`. */
export function agentName(handle: string, labels: Labels): string {
  const label = labels.get(handle)
  return label === undefined ? `Agent ${shortName(handle)}` : `"${label}"`
}
