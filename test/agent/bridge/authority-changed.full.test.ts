/**
 * contract, "Challenge (beat 1)" and "Connection", for a resource that names another authority than before:
 * what a person agreed to with the one counts for nothing with the other, and the other learns neither the
 * key nor the grant that the agent has with the first.
 */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesIn, ownerOf, pendingOf, type BridgedClient } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { readSent, sendingInto } from '../../support/sent-requests.ts'
import { startStack } from '../../support/stack.ts'

const stand = useBridges({ args: ['--hold', '30'] })

/** The public keys, as a request would show them, and the grants, in the bridge's files. */
async function secretsIn(folder: string): Promise<{ keys: string[]; grants: string[] }> {
  const files = await filesIn(folder)
  const keys = files.filter(({ path }) => path.endsWith('key.json'))
  const grants = files.filter(({ path }) => path.includes('/grants/'))
  return {
    keys: keys.map(({ text }) => (JSON.parse(text) as { x: string }).x),
    grants: grants.flatMap(({ text }) => text.match(/[\w-]{20,}\.[\w-]{20,}\.[\w-]{20,}/g) ?? []),
  }
}

describe('A resource that changes its authority between calls', () => {
  it('has the terms asked again, under another key, and the new authority sees nothing of the old one', async () => {
    const { stack, folder } = stand
    const sent = join(folder, 'sent')
    const client = await stand.bridge({
      name: 'moved',
      capabilities: { elicitation: {} },
      environment: sendingInto(sent),
    })
    const answer = client.call('portfolio_read')
    answer.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    expect((await answer).text).toBe('12 VTI, 40 BND')
    const before = await secretsIn(folder)
    expect(before).toMatchObject({ keys: [expect.any(String)], grants: [expect.any(String)] })

    await stack.toolServer.stop()
    const moved = await startStack({ preferredPorts: { tool: Number(new URL(stack.resource).port) } })
    try {
      expect(moved.resource).toBe(stack.resource)
      await askedAnew(client, moved)
      const to = (await readSent(sent)).filter(({ url }) => url.startsWith(moved.issuer))
      expect(to.length).toBeGreaterThan(1)
      const after = await secretsIn(folder)
      expect(after.keys).toHaveLength(2)
      for (const secret of [...before.keys, ...before.grants])
        expect(JSON.stringify(to.map(({ headers, body }) => [headers, decoded(body)]))).not.toContain(secret)
      const ours = after.keys.find(key => !before.keys.includes(key))!
      expect(JSON.stringify(to.map(({ body }) => decoded(body)))).toContain(ours)
    } finally {
      await client.close()
      await moved.stop()
    }
  })
})

/**
 * The person is shown the new authority's terms, and its owner is asked; nothing ran under what was agreed to
 * before.
 */
async function askedAnew(
  client: BridgedClient,
  moved: Awaited<ReturnType<typeof startStack>>,
): Promise<void> {
  const owner = ownerOf(moved)
  const again = client.call('portfolio_read')
  again.catch(() => undefined)
  await expect.poll(() => pendingOf(owner)).toHaveLength(1)
  expect(client.elicited.map(({ message }) => message.includes(moved.issuer))).toEqual([false, true])
  expect(moved.toolServer.record.executions).toEqual([])
  await owner.decide((await pendingOf(owner))[0]!.family, 'approved')
  expect((await again).text).toBe('12 VTI, 40 BND')
  expect(moved.toolServer.record.executions).toHaveLength(1)
}

/** A body with whatever is encoded in it read, also within each other. */
function decoded(body: string, depth = 3): string {
  const words = decodeURIComponent(body.replaceAll('+', ' ').replaceAll(/%(?![0-9A-F]{2})/gi, '%25'))
  if (depth === 0) return words
  const parts = (words.match(/[\w-]{16,}/g) ?? []).map(part =>
    Buffer.from(part, 'base64url').toString('utf8'),
  )
  return [words, ...parts.map(part => decoded(part, depth - 1))].join(' ')
}
