/**
 * `usher owner joint …` at a real server, about an account of a real tally: contract, "Tally for a jointly
 * held resource" (on each holder's authorization server).
 */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { writeNewKey } from '../../src/terminal/key-file.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { runCaptured } from '../support/captured-terminal.ts'
import { changeMandate, startRealHolders } from '../support/real-holders.ts'
import { startedOnce } from '../support/started.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const stand = startedOnce(() => startRealHolders())
const directory = temporaryFolder('joint')

beforeAll(async () => {
  const key = await writeNewKey(join(directory, 'key.json'))
  const json = { name: 'her terminal', jwk: publicJwk(key) }
  const added = await stand.own('bea', { method: 'POST', target: '/owner/device-keys', json })
  if (added.status >= 300) throw new Error(added.text)
  vi.stubEnv('UMA_OWNER_API', stand.authorities[0][0].ownerUrl)
  vi.stubEnv('UMA_OWNER_ISSUER', stand.doors.bea.url)
  vi.stubEnv('UMA_OWNER_KEY', join(directory, 'key.json'))
})
afterAll(async () => {
  vi.unstubAllEnvs()
})

const owner = (...args: string[]) => runCaptured(terminal => runOwner(['joint', ...args], terminal))

test('what preview shows is agreed to by the command that it prints, listed, and left', async () => {
  const tally = stand.doors.tally.url
  const preview = await owner('preview', 'family-1', '--tally', tally)
  expect(preview.printed).toContain(
    'An agent is let in if holders with a weight of 2 of 3 together allow it.',
  )
  expect(preview.printed).toContain('You have no terms over it')
  expect((await owner('list')).printed).toBe('You hold nothing together with others.\n')

  const [, words] = /usher owner joint (agree .*)/.exec(preview.printed)!
  const agreed = await owner(...words!.split(' '))
  expect([agreed.code, agreed.printed]).toEqual([0, expect.stringContaining('You hold it from now on:')])
  expect((await owner('list')).printed).toContain(`dora at ${stand.account.holders[2]!.issuer}, weight 1`)

  const replica = await changeMandate(stand, { rule: { kind: 'threshold', threshold: 3 } })
  try {
    const later = await owner(...words!.split(' '))
    expect([later.code, later.said]).toEqual([1, expect.stringContaining('Read the mandate again')])
    expect((await owner('leave', 'family-1')).printed).toBe('You hold family-1 no more; your terms stay.\n')
    expect((await owner('list')).printed).toBe('You hold nothing together with others.\n')
  } finally {
    await replica.close()
  }
})

test('an account that does not name her, and a tally that is not listed, are refused in a sentence', async () => {
  const elsewhere = await owner('preview', 'family-1', '--tally', 'https://tally.elsewhere.example')
  expect([elsewhere.code, elsewhere.said]).toEqual([1, expect.stringContaining('that tally is not listed')])
  const unknown = await owner('preview', 'family-9', '--tally', stand.doors.tally.url)
  expect(unknown.code).not.toBe(0)
})
