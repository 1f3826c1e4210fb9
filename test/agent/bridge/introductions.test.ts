/**
 * contract, "What the service does": the client is unmodified, so its first answer has what servers say of
 * themselves.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openIntroductions } from '../../../src/agent/bridge/listing/introductions.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

const RESOURCE = 'https://r.example/mcp'
const SAID = { serverInfo: { name: 'portfolio' }, instructions: 'Call read first.' }
const NOTHING = { resource: RESOURCE, serverInfo: undefined, instructions: undefined }
let folder: Awaited<ReturnType<typeof bridgeFolder>>
beforeEach(async () => (folder = await bridgeFolder()))
afterEach(() => folder.remove())

const introductionsOf = (introduction: () => Promise<typeof SAID>, firstMs: number) =>
  openIntroductions({
    resources: [RESOURCE],
    folder: folder.folder,
    upstreamOf: () => ({ introduction }),
    firstMs,
  })

describe('What a server says of itself', () => {
  it('is waited for by the first client of a server that was never reached', async () => {
    const late = () => new Promise<typeof SAID>(resolve => setImmediate(() => resolve(SAID)))
    expect(await introductionsOf(late, PATIENCE_MS).all()).toEqual([{ resource: RESOURCE, ...SAID }])
  })

  it('is nothing where the server does not answer in time, and no client waits longer', async () => {
    const silent = () => new Promise<typeof SAID>(() => undefined)
    expect(await introductionsOf(silent, 1).all()).toEqual([NOTHING])
  })

  it('is told to the next client at once, without a question', async () => {
    await introductionsOf(() => Promise.resolve(SAID), PATIENCE_MS).note(RESOURCE)
    const asked = introductionsOf(() => Promise.reject(new Error('it is asked again')), PATIENCE_MS)
    expect(await asked.all()).toEqual([{ resource: RESOURCE, ...SAID }])
  })
})
