/**
 * contract, "Connection" and "Agreement (claim_token, beat 3)": what the bridge keeps for a client counts as
 * that person's own. Where somebody else could have put it there, it counts for nothing.
 */
import { chmod } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bridgeState, unusable, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { ExposedFile } from '../../../src/files/private-file.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { openedBridge } from '../../support/opened-bridge.ts'
import { startScriptedTools } from '../../support/scripted-tools.ts'

let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState
beforeEach(async () => {
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
})
afterEach(() => folder.remove())

const OWNER = { as_uri: 'https://as.example', owner: 'alice' }
const READS: [string, (of: BridgeState) => Promise<unknown>][] = [
  ['that a person agreed', of => of.agreed({ terms: 1 })],
  ['what a tool was agreed to be', of => of.tool('https://r.example', 'read')],
  ['whose a resource is', of => of.ownerOf('https://r.example')],
  ['a key', of => of.identity(OWNER)],
  ['the key that the doctor looks at', of => of.keyOf(OWNER)],
  ['the secret of states', of => of.secret()],
  ['a request', of => of.family('id')],
  ['all requests', of => of.families()],
]

describe('A folder into which others can put files', () => {
  it.each(READS)('says nothing to the bridge: not %s', async (_what, read) => {
    await state.keepAgreed({ terms: 1 })
    await read(state)
    await chmod(state.folder, 0o770)
    const refused = await read(state).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(ExposedFile)
    expect(unusable(refused)).toMatchObject({ code: 'state_unusable', terminal: false })
    expect((unusable(refused) as Error).message).toContain(
      `its group can put files there: look at what is in it`,
    )
    await chmod(state.folder, 0o700)
    await read(state)
  })

  it('leaves its client without a list and without calls, in words that say what to run', async () => {
    const tools = await startScriptedTools()
    const { bridge, folder: root, close } = await openedBridge(tools.url.href)
    try {
      await bridge.secret()
      const own = bridgeState(root, 'client').folder
      await chmod(own, 0o702)
      await expect(bridge.tools()).rejects.toThrow(`chmod 700 ${own}`)
      const { signal } = new AbortController()
      await expect(
        bridge.calls.enter({ resource: tools.url.href, call: { tool: 'read' }, signal }),
      ).rejects.toThrow(`others can put files there`)
    } finally {
      await close()
      await tools.close()
    }
  })
})
