/**
 * contract, "Authorized call": the owner of a call follows from its path and from the configuration.
 */
import { describe, expect, test } from 'vitest'
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import { routeTable, type Route } from '../../src/enforcement/request/routes.ts'
import { refusalOf } from '../support/refusals.ts'

describe('The route of a call', () => {
  const API: ApiOperation[] = [{ method: 'GET', path: '', tool: 'index' }]
  const route = (path: string, owner: string, api?: ApiOperation[]) =>
    ({ path, owner, api }) as unknown as Route
  const table = routeTable([
    route('/api/alice', 'alice', API),
    route('/api/alice/v2', 'bea', API),
    route('/mcp/carl', 'carl'),
    route('/api/alice/mcp', 'dave'),
  ])
  const ownerAt = (path: string, context: Record<string, string> = {}) => table.find({ path, context }).owner

  test('is the API whose base it lies below, the longest of several, by whole segments', () => {
    expect(ownerAt('/api/alice')).toBe('alice')
    expect(ownerAt('/api/alice/')).toBe('alice')
    expect(ownerAt('/api/alice/x/y/z')).toBe('alice')
    expect(ownerAt('/api/alice/v2/x')).toBe('bea')
    expect(ownerAt('/api/alice/v20')).toBe('alice')
    expect(ownerAt('/api/alice/mcp')).toBe('dave')
    expect(ownerAt('/api/alice/mcp/x')).toBe('alice')
  })
  test.each(['/api/alicex', '/api', '/api/bob/x', '/mcp/carl/x', '/API/alice/x', '/'])(
    'is none for %s',
    path => {
      expect(refusalOf(() => ownerAt(path))).toMatchObject({ code: 'not_found', status: 404 })
    },
  )
  test.each([
    '/api/alice/%762/x',
    '/api/alice/V2',
    '/api/alice/V2/x',
    '/api/alice/%6dcp',
    '/api/alice/Mcp/',
    '/api/alice/mcp/',
  ])(
    'is none for %s, which is below another to a server that decodes, folds case or drops a last slash',
    path => {
      expect(refusalOf(() => ownerAt(path))).toMatchObject({ code: 'invalid_request', status: 400 })
    },
  )
  test('is never another owner than the proxy was configured with', () => {
    expect(ownerAt('/api/alice/x', { owner: 'alice' })).toBe('alice')
    expect(refusalOf(() => ownerAt('/api/alice/x', { owner: 'bea' })).code).toBe('not_found')
  })
  test('is looked for in bounded time, however many segments a path has', () => {
    const path = `/api/bob${'/x'.repeat(30_000)}`
    // Of the processor, not of the wall: others may have it meanwhile.
    const before = process.cpuUsage()
    for (let n = 0; n < 100; n++) refusalOf(() => ownerAt(path))
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1_000).toBeLessThan(1_000)
  })
})
