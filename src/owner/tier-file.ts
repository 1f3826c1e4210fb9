/**
 * Owns tiers as an owner writes them in a file, or names them. Contract: "Owner API" (`/owner/policies`):
 * what she is shown can be sent back.
 */
import { ApiError } from '../client/api-error.ts'
import { nameOf } from '../client/names.ts'
import { readObjectFile } from '../client/object-file.ts'
import { UsageError } from '../terminal/command.ts'
import { isJsonObject, type JsonObject } from '../wire/json.ts'
import type { Tier } from '../wire/owner/owner-api.ts'
import type { OwnerClient } from './client.ts'

/** One tier in a file, or on standard input for `-`. Throws `UsageError`. */
export async function readTier(file: string): Promise<JsonObject> {
  return withoutVersion(await readObjectFile(file, 'a tier'))
}

/** One tier, or those in `tiers` as `policies --json` shows them. Throws `UsageError`. */
export async function readTiers(file: string): Promise<(JsonObject & { id: string })[]> {
  const content = await readObjectFile(file, 'tiers')
  const listed = 'tiers' in content ? content['tiers'] : [content]
  if (!Array.isArray(listed) || listed.length === 0)
    throw new UsageError(`Give at least one tier in \`tiers\`: ${file} lists none.`)
  const tiers = listed.map((tier, at) => {
    if (!isJsonObject(tier) || typeof tier['id'] !== 'string')
      throw new UsageError(`Give each tier an id: the one at ${at + 1} in ${file} has none.`)
    return { ...withoutVersion(tier), id: tier['id'] }
  })
  const twice = tiers.find(({ id }, at) => tiers.findIndex(other => other.id === id) !== at)
  if (twice !== undefined)
    throw new UsageError(`Give each tier once: ${twice.id} is listed twice in ${file}.`)
  return tiers
}

/** Her tier of that name, or the only one whose id begins with it. Fails with `not_found` if she has none. */
export async function tierOf(client: OwnerClient, name: string): Promise<Tier> {
  const tiers = await client.policies()
  const id = nameOf(
    name,
    tiers.map(tier => tier.id),
  )
  const tier = tiers.find(one => one.id === id)
  if (tier === undefined) throw new ApiError('not_found', `You have no tier ${name}.`, { status: 404 })
  return tier
}

/** The authority counts the version, and includes it in what it shows. */
export function withoutVersion(tier: JsonObject): JsonObject {
  const { terms } = tier
  if (terms === undefined || !isJsonObject(terms)) return tier
  const { template_id: _version, ...rest } = terms
  return { ...tier, terms: rest }
}
