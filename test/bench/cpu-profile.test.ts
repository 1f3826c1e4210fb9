/**
 * What a CPU profile comes to: docs/performance.md (a profile that says where the time goes).
 */
import { describe, expect, it } from 'vitest'
import { threadTimes, type CpuProfile } from '../../bench/cpu-profile.ts'
import { labelOf } from '../../bench/statement-samples.ts'

const root = 'file:///app'
const node = (id: number, functionName: string, url: string, children: number[] = []) => ({
  id,
  callFrame: { functionName, url },
  children,
})
/** The check calls gRPC, which calls Node, which calls native code; beside it garbage is collected. */
const NODES: CpuProfile['nodes'] = [
  node(1, '(root)', '', [2, 6, 7, 8]),
  node(2, 'check', `${root}/src/enforcement/check.ts`, [3, 9]),
  node(3, 'send', `${root}/node_modules/@grpc/grpc-js/build/src/call.js`, [4]),
  node(4, 'write', 'node:internal/http2/core', [5]),
  node(5, 'writev', ''),
  node(6, '(garbage collector)', ''),
  node(7, '(idle)', ''),
  node(8, '(program)', ''),
  node(9, '', 'node:internal/crypto/sig'),
]
/** One sample each 10 µs, the first at 1,010. */
const profileOf = (samples: number[]): CpuProfile => ({
  nodes: NODES,
  samples,
  timeDeltas: samples.map(() => 10),
  startTime: 1_000,
})

describe('The times of a thread', () => {
  it('count what Node and native code do for the package or the folder that called it', () => {
    const { parts, busy, idle } = threadTimes(profileOf([2, 3, 4, 5, 9, 7, 7, 2]), 0, 10_000)
    expect(parts).toEqual([
      ['@grpc/grpc-js', 30],
      ['src/enforcement', 20],
    ])
    expect([busy, idle]).toEqual([50, 20])
  })

  it('name the function that the thread was in, and where it stands', () => {
    const { functions } = threadTimes(profileOf([5, 5, 2, 9, 2, 2, 2]), 0, 10_000)
    expect(functions).toEqual([
      ['check (src/enforcement)', 30],
      ['writev (native)', 20],
      ['(anonymous) (node:internal/crypto/sig)', 10],
    ])
  })

  it('tell garbage and what no function called apart from the program', () => {
    const { parts } = threadTimes(profileOf([6, 6, 8, 2]), 0, 10_000)
    expect(parts).toEqual([
      ['garbage collection', 20],
      ['native code that no function called', 10],
    ])
  })

  it('name a folder below the second by the second', () => {
    const profile = profileOf([2, 2])
    const nodes = [node(2, 'tree', `${root}/src/storage/authority/ledger/ledger-tree.ts`)]
    expect(threadTimes({ ...profile, nodes }, 0, 10_000).parts).toEqual([['src/storage/authority', 10]])
  })

  it('are those between two moments alone', () => {
    const { busy, idle } = threadTimes(profileOf([2, 2, 7, 2, 2, 2]), 1_020, 1_050)
    expect([busy, idle]).toEqual([20, 10])
  })
})

describe('A statement', () => {
  it('is named by its first words on one line', () => {
    expect(labelOf('\n  SELECT 1\n    FROM grants  ')).toBe('SELECT 1 FROM grants')
    expect(labelOf(`SELECT ${'x'.repeat(200)}`)).toMatch(/^SELECT x{63}…$/)
  })
})
