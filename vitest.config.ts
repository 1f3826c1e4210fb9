/**
 * Three projects: `pure` needs nothing, `postgres` one database server per run, `product` also a real Envoy,
 * or the built package.
 */
import { defineConfig } from 'vitest/config'

const POSTGRES = [
  'test/storage/**/*.test.ts',
  'test/authority/**/*.test.ts',
  'test/admin/**/*.test.ts',
  'test/organization/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/strangers/**/*.test.ts',
  'test/agent/bridge/**/*.test.ts',
]
const PRODUCT = ['test/envoy/**/*.test.ts', 'test/image.test.ts', 'test/package.test.ts']
/** How long `expect.poll` waits, which by default is a second. */
const WAITING = { poll: { timeout: 15_000 } }
const SERVER = './test/support/postgres-server.ts'

export default defineConfig({
  test: {
    reporters: [
      'default',
      './test/support/executed-tests-reporter.ts',
      './test/support/closing-line-reporter.ts',
    ],
    // A file whose tests all need something that this machine lacks has none (test/support/requirement.ts).
    passWithNoTests: true,
    projects: [
      {
        test: {
          name: 'pure',
          include: ['test/**/*.test.ts'],
          exclude: [...POSTGRES, ...PRODUCT, 'test/cluster/**', 'test/gateway/**'],
          // The default leaves one processor out, which on a machine of two is half of it. In the other
          // projects Postgres takes it.
          maxWorkers: '100%',
          testTimeout: 60_000,
          expect: WAITING,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'postgres',
          include: POSTGRES,
          globalSetup: SERVER,
          testTimeout: 120_000,
          hookTimeout: 60_000,
          expect: WAITING,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'product',
          include: PRODUCT,
          globalSetup: SERVER,
          fileParallelism: false,
          testTimeout: 120_000,
          // The first run may have to fetch Envoy.
          hookTimeout: 240_000,
          expect: WAITING,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
