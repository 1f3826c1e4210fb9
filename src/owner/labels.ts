/**
 * The owner's names for her agents, for every list that names an agent by its handle. Contract: "Owner API"
 * (`/owner/connections`): a label is hers, and no other answer contains it.
 */
import { ApiError } from '../client/api-error.ts'
import { readAll } from '../client/exchange.ts'
import { shortName } from '../client/names.ts'
import type { Session } from './session.ts'

/** The names by handle; only for agents that she has named. */
export type Labels = ReadonlyMap<string, string>

export const NO_LABELS: Labels = new Map()

/**
 * Her present names, for people; none for a script, which has the connections. If they cannot be read, the
 * other list has no labels.
 */
export async function labelsOf({ client, json }: Pick<Session, 'client' | 'json'>): Promise<Labels> {
  if (json) return NO_LABELS
  try {
    const connections = await readAll(client.connections())
    return new Map(connections.flatMap(({ handle, label }) => (label ? [[handle, label]] : [])))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return NO_LABELS
  }
}

/** How a sentence names an agent: `"Tax bot"` if she has named it, otherwise `Agent jkt:VWo19Q8H`. */
export function agentName(handle: string, labels: Labels): string {
  const label = labels.get(handle)
  return label === undefined ? `Agent ${shortName(handle)}` : `"${label}"`
}
