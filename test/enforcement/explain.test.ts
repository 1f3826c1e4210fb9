/**
 * `usher sidecar explain` (contract, "Events": one log line per decision): an operator is told in plain words
 * why a call was refused.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { explain } from '../../src/enforcement/explain/main.ts'
import { REASONS } from '../../src/enforcement/explain/words.ts'
import { INACTIVE_REASONS } from '../../src/rules/grant-end.ts'
import { REFUSALS } from '../../src/wire/refusal.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder('explain')

const line = (members: object = {}): string =>
  JSON.stringify({
    level: 'info',
    time: '2026-11-23T09:00:00Z',
    decision: 'deny',
    reason: 'operation_mismatch',
    status: 403,
    step: 'operation',
    owner: 'alice',
    tool: 'place_trade',
    family: 'fam_one',
    handle: 'jkt:bot',
    msg: 'decided',
    ...members,
  })

describe('a decision line', () => {
  it('is told as who called what, why it was refused, at which step, and what to do', async () => {
    expect(await explain(line(), undefined)).toEqual([
      '2026-11-23T09:00:00Z: place_trade of alice by jkt:bot under fam_one was refused with 403.',
      'Why (operation_mismatch): the owner approved another operation, or other arguments.',
      'It ended at the step of comparing the call with the operation that was approved.',
      'What to do: The agent must change its request. Only exactly what was approved is let through.',
    ])
  })

  it('of an outage tells what the sidecar noted', async () => {
    const told = await explain(line({ reason: 'temporarily_unavailable', detail: 'It is away.' }), undefined)
    expect(told).toContain('The sidecar noted: It is away.')
  })

  it('of an allowed call says that it was let through', async () => {
    const told = await explain(line({ decision: 'allow', reason: 'granted', step: 'allow' }), undefined)
    expect(told[0]).toMatch(/was let through\.$/)
  })

  it('of the call that the doctor makes says that nothing is to be done, and of no other', async () => {
    const toldOf = async (members: object) => (await explain(line(members), undefined)).at(-1)
    const probe = { reason: 'unknown_tool', step: 'request', tool: 'usher_doctor' }
    expect(await toldOf(probe)).toMatch(/^What to do: Nothing, if `usher doctor` was run then/)
    expect(await toldOf({ ...probe, tool: 'usher_doctors' })).toMatch(/^What to do: Add it to `tools`/)
    expect(await toldOf({ ...probe, reason: 'operation_mismatch' })).toMatch(/The agent must change/)
  })

  it.each(['constructor', 'future_word', 7])('with a word that is not known says so: %s', async reason => {
    expect((await explain(line({ reason }), undefined))[1]).toMatch(/a word that is not known here/)
  })

  it.each(['{"level":"info"}', '{'])('that is none is refused: %s', async given => {
    await expect(explain(given, undefined)).rejects.toThrow(/[Gg]ive a line/)
  })
})

describe('a family', () => {
  const log = join(folder, 'sidecar.log')
  writeFileSync(
    log,
    [
      'not JSON',
      line(),
      `2026-11-23T09:00:01Z stdout F ${line({ reason: 'expired' })}`,
      line({ family: 'fam_two_and_more' }),
      '{}',
    ].join('\n'),
  )

  it('is looked up in the log, whatever the runtime puts before a line', async () => {
    const told = (await explain('fam_one', log)).filter(text => text.startsWith('Why'))
    expect(told).toEqual([
      expect.stringContaining('operation_mismatch') as string,
      expect.stringContaining('expired') as string,
    ])
  })

  it('is found by its beginning, if that is not shorter than eight characters', async () => {
    await expect(explain('fam_on', log)).rejects.toThrow(/No decision about fam_on/)
    expect(await explain('fam_two_', log)).toHaveLength(4)
  })

  it.each([
    ['fam_three', log, /No decision about fam_three/],
    ['fam_one', undefined, /Name the log/],
    ['fam_one', '/nowhere/sidecar.log', /--log: \/nowhere/],
  ])('%s in %s is refused by a sentence', async (family, where, said) => {
    await expect(explain(family, where)).rejects.toThrow(said)
  })
})

describe('decisions that are the same', () => {
  it('are explained once, with how often and when the last was made', async () => {
    const log = join(folder, 'repeats.log')
    const times = ['2026-11-23T09:00:00Z', '2026-11-23T09:00:02Z', '2026-11-23T09:00:04Z']
    const same = times.map(time => line({ time, family: 'fam_again' }))
    writeFileSync(log, [...same, line({ family: 'fam_again', reason: 'expired' })].join('\n'))
    const lines = await explain('fam_again', log)
    expect(lines.filter(text => text.startsWith('Why (operation_mismatch)'))).toHaveLength(1)
    expect(lines[1]).toBe('The same happened 3 times, the last time at 2026-11-23T09:00:04Z.')
    expect(lines.filter(text => text.startsWith('Why (expired)'))).toHaveLength(1)
  })
})

describe('a refusal before a grant was known', () => {
  const log = join(folder, 'early.log')
  const early = { family: null, handle: null, reason: 'unknown_tool', step: 'request', owner: 'bea' }
  writeFileSync(
    log,
    [
      line({ ...early, request_id: 'req-1' }),
      line({ ...early, tool: 'other', request_id: 'req-2' }),
      line({ owner: 'bea', handle: 'jkt:of-bea', decision: 'allow', reason: 'granted' }),
    ].join('\n'),
  )

  it('is found by the request id that the gateway gave it', async () => {
    expect((await explain('req-2', log)).at(0)).toContain('other of bea was refused')
  })

  it('is found by the owner, whose allowed calls are not told', async () => {
    const told = await explain('bea', log)
    expect(told.filter(text => text.startsWith('Why'))).toHaveLength(2)
  })

  it('is found by the agent, once that is known', async () => {
    expect((await explain('jkt:of-b', log)).at(0)).toContain('was let through')
  })
})

describe('a call that was judged by a kept answer', () => {
  it('is told as such, and no other is', async () => {
    const told = await explain(line({ leased: true, decision: 'allow', reason: 'granted' }), undefined)
    expect(told).toContainEqual(expect.stringContaining('under a lease (`liveness: leased`)'))
    expect((await explain(line({ leased: 'x' }), undefined)).join('\n')).not.toContain('lease')
  })
})

describe('the words', () => {
  it('are there for every word that the door refuses with, and every reason of a grant that is not live', () => {
    const door = join(import.meta.dirname, '..', '..', 'src', 'enforcement')
    const sources = readdirSync(door, { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ts') && !path.startsWith('explain'))
      .map(path => readFileSync(join(door, path), 'utf8'))
      .join('\n')
    const refused = [...sources.matchAll(/(?:refuse|Refusal)\(\s*'(\w+)'/g)].map(([, word]) => word!)
    expect(refused.length).toBeGreaterThan(20)
    const wanted = new Set([...refused, ...INACTIVE_REASONS].filter(word => word in REFUSALS))
    expect([...wanted].filter(word => !(word in REASONS))).toEqual([])
  })
})
