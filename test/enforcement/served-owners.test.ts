/**
 * contract, "Single-use grant" and "Tally for a jointly held resource": what a sidecar knows of spent grants
 * outlives a change of its file.
 */
import { expect, it } from 'vitest'
import type { SidecarOwner } from '../../src/config.ts'
import type { Route } from '../../src/enforcement/request/routes.ts'
import { serveOwners } from '../../src/enforcement/served-owners.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

const TALLY = 'https://tally.example'

/** As much of a configuration as is looked at here. */
function configured(pinned: string[], tally = TALLY): SidecarOwner {
  return { owner: asOwner('family-1'), joint: { tally, pinned }, tools: [] } as unknown as SidecarOwner
}

/** A route of what is configured, that remembers by itself. */
function open(of: SidecarOwner): Route {
  const { tally, pinned } = (of as unknown as { joint: { tally: string; pinned: string[] } }).joint
  const resource = 'https://tools.example/mcp/family-1'
  const path = '/mcp/family-1'
  const joint = { tally, account: of.owner, pinned, spent: { once: () => undefined } }
  return { owner: of.owner, resource, path, client: {}, tools: new Map(), joint } as unknown as Route
}

function jointAfter(next: SidecarOwner): [before: Route['joint'], after: Route['joint']] {
  const served = serveOwners({ owners: [configured(['s256:one'])], open, register: () => undefined })
  const [before] = served.table.routes
  served.serve([next])
  const [after] = served.table.routes
  served.stop()
  return [before!.joint, after!.joint]
}

it('another pinned digest is in force, and what was spent of the account stays known', () => {
  const [before, after] = jointAfter(configured(['s256:one', 's256:two']))
  expect(after!.pinned).toEqual(['s256:one', 's256:two'])
  expect(after!.spent).toBe(before!.spent)
})

it('of another tally nothing is known that another one granted', () => {
  const [before, after] = jointAfter(configured(['s256:one'], 'https://other.example'))
  expect(after!.spent).not.toBe(before!.spent)
})
