/**
 * `usher owner notifications` (contract, "Owner API"): where she is told that something waits.
 */
import { describe, expect, it } from 'vitest'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()
const AT = '2026-11-24T09:00:00.000Z'
const one = (changes: object = {}) => ({
  id: 'sub_abcdefgh',
  kind: 'webhook',
  name: 'my relay',
  origin: 'https://hooks.example',
  created_at: AT,
  sent_at: null,
  failing_since: null,
  quiet_hours: null,
  digest_minutes: null,
  ...changes,
})
const sent = () => {
  const { method, path, body } = api.received.at(-1)!
  return [method, path, body.length === 0 ? undefined : (JSON.parse(body.toString()) as unknown)]
}

describe('usher owner notifications', () => {
  it('list says of each whether its last message was taken, with names escaped', async () => {
    answers['/owner/notifications'] = {
      body: [
        one({ name: 're\u001blay' }),
        one({ id: 'sub_b', sent_at: AT }),
        one({ id: 'sub_c', kind: 'push', failing_since: AT }),
      ],
    }
    const { code, printed } = await owner('notifications', 'list')
    expect(code).toBe(0)
    expect(printed).toContain('re\\u{1b}lay')
    expect(printed).toMatch(/sub_abcdefgh.*nothing sent yet/)
    expect(printed).toMatch(/sub_b .*sent 2026/)
    expect(printed).toMatch(/sub_c .*push.*fails since 2026/)
    answers['/owner/notifications'] = { body: [] }
    expect((await owner('notifications', 'list')).printed).toContain('only the page and')
  })

  it('add names a webhook, and prints its secret this once', async () => {
    answers['/owner/notifications'] = { status: 201, body: { ...one(), secret: 'whsec_c2VjcmV0' } }
    const { printed } = await owner('notifications', 'add', 'https://hooks.example/x', '--name', 'my relay')
    expect(printed).toContain('my relay gets messages from now on: sub_abcdefgh.')
    expect(printed).toContain('whsec_c2VjcmV0')
    expect(sent()).toEqual([
      'POST',
      '/owner/notifications',
      { kind: 'webhook', name: 'my relay', url: 'https://hooks.example/x' },
    ])
    const { code, said } = await owner('notifications', 'add', 'https://hooks.example/x')
    expect([code, said]).toEqual([2, expect.stringContaining('--name')])
  })

  it('when sets quiet hours and a digest, and ends what is left out', async () => {
    answers['/owner/notifications'] = { body: [one()] }
    const path = '/owner/notifications/sub_abcdefgh'
    const quiet_hours = { from: '22:00', until: '07:00', time_zone: 'Europe/Zurich' }
    answers[path] = { body: one({ quiet_hours, digest_minutes: 30 }) }
    const quiet = ['--quiet', '22:00-07:00', '--time-zone', 'Europe/Zurich']
    const { printed } = await owner('notifications', 'when', 'sub_abcd', ...quiet, '--digest', '30')
    expect(sent()).toEqual(['PUT', path, { quiet_hours, digest_minutes: 30 }])
    expect(printed).toBe(
      'my relay is told of what can be undone not from 22:00 to 07:00 (Europe/Zurich), together after 30 min.\n',
    )
    answers[path] = { body: one() }
    expect((await owner('notifications', 'when', 'sub_abcd')).printed).toMatch(/ at once\.\n$/)
    expect(sent()).toEqual(['PUT', path, { quiet_hours: null, digest_minutes: null }])
    const { code, said } = await owner('notifications', 'when', 'sub_abcd', '--digest', 'soon')
    expect([code, said]).toEqual([2, expect.stringContaining('Give a whole number, not soon.')])
    answers['/owner/notifications'] = { body: [one({ quiet_hours })] }
    expect((await owner('notifications', 'list')).printed).toContain(
      'not from 22:00 to 07:00 (Europe/Zurich)',
    )
  })

  it('remove and test take the beginning of an id', async () => {
    answers['/owner/notifications'] = { body: [one(), one({ id: 'sub_xyzwuvst' })] }
    answers['/owner/notifications/sub_abcdefgh'] = { body: { deleted: 'sub_abcdefgh' } }
    expect((await owner('notifications', 'remove', 'sub_abcd')).printed).toBe(
      'sub_abcdefgh gets no more messages.\n',
    )
    expect(sent()).toEqual(['DELETE', '/owner/notifications/sub_abcdefgh', undefined])
    const answer = (body: object) => ({ body: { id: 'sub_xyzwuvst', delivered: false, ...body } })
    const path = '/owner/notifications/sub_xyzwuvst/test'
    const test = async (body: object) => {
      answers[path] = answer(body)
      return (await owner('notifications', 'test', 'sub_xyzw')).printed
    }
    expect(await test({ delivered: true, status: 204, why: null })).toBe('The test was taken.\n')
    expect(await test({ status: 500, why: null })).toBe('The test was not taken: it answered 500.\n')
    expect(await test({ status: null, why: 'it cannot be reached' })).toBe(
      'The test was not taken: it cannot be reached.\n',
    )
  })
})
