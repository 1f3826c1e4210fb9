/** docs/owner-api.md: every call of the owner API, by its method and path, and no other. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ENDPOINTS, JOINT_ENDPOINTS, LOG_ENDPOINTS } from '../../src/authority/endpoints.ts'
import { ROOT } from '../support/repository.ts'

const served = [...ENDPOINTS.owner, ...JOINT_ENDPOINTS.owner, ...LOG_ENDPOINTS.owner]
  .filter(({ path }) => path.startsWith('/owner/'))
  .map(({ method, path }) => `${method.toUpperCase()} ${path.replace('{+', '{')}`)

test('docs/owner-api.md lists each call of the owner API once, and no call that is not served', () => {
  const items = readFileSync(join(ROOT, 'docs/owner-api.md'), 'utf8')
    .replaceAll(/\n +/g, ' ')
    .split('\n')
    .filter(line => line.startsWith('- `'))
  const listed = items.flatMap(item =>
    [...item.split(':')[0]!.matchAll(/`((?:GET|POST|PUT|DELETE) \/owner\/[^`]*)`/g)].map(([, call]) => call),
  )
  expect(served.length).toBeGreaterThan(50)
  expect(listed.toSorted()).toEqual(served.toSorted())
})
