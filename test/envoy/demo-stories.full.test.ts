/** The command behind `make demo`, with the other stories that it tells, and as it stays up. */
import { expect, test } from 'vitest'
import { JOINT_STORY } from '../../src/dev/joint-story.ts'
import { ORGANIZATION_STORY } from '../../src/dev/organization-story.ts'
import { dev, startDev } from '../support/dev-command.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await envoy(), 'usher dev', () => {
  test.each([
    ['organization', 'of an organization above her', ORGANIZATION_STORY],
    ['joint', 'of what she holds with others', JOINT_STORY],
  ])('with --story %s it tells that %s', async (name, _of, story) => {
    const { code, out, err } = await dev(['--story', name, '--once'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    for (const [index, { title }] of story.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    const held = `All ${story.length} steps held`
    expect(out.trimEnd().split('\n').at(-1)?.startsWith(held)).toBe(true)
  })

  test('without --once it stays up: on the page whose link it prints a request of an unknown agent waits for alice', async () => {
    const demo = startDev([])
    try {
      await expect.poll(() => demo.printed()).toContain('It all stays up until you press Ctrl-C.')
      const [, origin, token] = /^ {2}(http:\/\/127\.0\.0\.1:\d+)\/#token=(\S+)$/m.exec(demo.printed())!
      const page = await fetch(origin!)
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const waiting = async (): Promise<unknown> => {
        const headers = { authorization: `Bearer ${token}` }
        return (await fetch(`${origin}/owner/pending`, { headers })).json()
      }
      await expect.poll(waiting).toMatchObject([{ kind: 'connection', resource_id: 'alice/portfolio' }])
    } finally {
      expect(await demo.end()).toBe(0)
    }
  })
})
