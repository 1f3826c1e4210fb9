/** contract, "Errors": a fault of the file system that a bridge keeps its state on is told as one. */
import { describe, expect, it } from 'vitest'
import { unusable } from '../../src/agent/bridge/negotiation/state.ts'

describe('A fault of the file system', () => {
  it.each([
    ['ENOTSUP', { syscall: 'link', path: '/state/key.json' }, 'ENOTSUP link /state/key.json'],
    ['ESTALE', { syscall: 'open', path: '/state' }, 'ESTALE open /state'],
    ['ENOSPC', { syscall: 'write' }, 'ENOSPC write'],
  ])('%s is told as one, with the folder and the cause', (code, more, says) => {
    expect(unusable(Object.assign(new Error(code), { code, ...more }))).toMatchObject({
      code: 'state_unusable',
      detail: expect.stringContaining(says) as string,
    })
  })

  it.each([
    ['ECONNRESET', { syscall: 'read' }],
    ['ENOENT', { syscall: 'spawn usher', path: 'usher' }],
  ])('is not what %s of something else says', (code, more) => {
    const error = Object.assign(new Error(code), { code, ...more })
    expect(unusable(error)).toBe(error)
  })
})
