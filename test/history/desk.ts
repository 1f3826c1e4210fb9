/**
 * Owns the second resource server of owners with an allowance: both are governed by one tier, so that what
 * is taken at one is missing at the other.
 */
import { PUBLIC_URL } from '../enforcement/calls.ts'
import { CLIENT_ID, provisionDocument, WORLD, type ProvisionDocument } from '../support/authority.ts'
import type { Person } from './processes.ts'

const DESK_ID = 'desk-tools'

/** Where it is, below the URL of the sidecars. */
export const deskOf = (owner: string): string => `/desk/${owner}`

/** The worlds of these people, with the desks of those who have one. */
export function worldsOf(people: readonly Person[]): ProvisionDocument {
  const document = provisionDocument([...people])
  for (const [at, { owner, deskSecret }] of people.entries()) {
    if (deskSecret === undefined) continue
    const { resource_servers, resources, tiers } = document.owners[at]!
    resource_servers.push({
      client_id: DESK_ID,
      name: 'Desk tools',
      client_secret: deskSecret,
      resource_uri: PUBLIC_URL + deskOf(owner),
    })
    const trades = resources.find(({ id }) => id === `${owner}/trades`)!
    resources.push({ ...trades, id: `${owner}/desk`, client_id: DESK_ID, name: 'desk' })
    tiers.find(({ id }) => id === 'trading')!.resources.push(`${owner}/desk`)
  }
  return document
}

/** An owner as a sidecar's file has her. */
export function sidecarEntry({ owner, clientSecret, deskSecret }: Person, authority: string): object {
  const toolOf = ({ tool, resource, scope, consequence }: (typeof WORLD)[number]): object => ({
    tool,
    resource_id: `${owner}/${resource}`,
    scopes: [scope],
    consequence,
  })
  const own = {
    client_id: CLIENT_ID,
    client_secret: clientSecret,
    tools: WORLD.slice(0, 3).map(toolOf),
  }
  if (deskSecret === undefined) return { owner, authority, ...own }
  const trade = WORLD.find(({ tool }) => tool === 'place_trade')!
  const desk = {
    path: deskOf(owner),
    client_id: DESK_ID,
    client_secret: deskSecret,
    tools: [{ ...toolOf(trade), resource_id: `${owner}/desk` }],
  }
  return { owner, authority, resources: [{ path: `/mcp/${owner}`, ...own }, desk] }
}
