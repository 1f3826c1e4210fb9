/**
 * Five projects: `pure` needs nothing, `postgres` one database server per run, `product` also a real Envoy or
 * a browser. The files of `alone` measure, build the package in this tree or use the ports that a page names,
 * so they run one after the other; `history` starts and kills servers of its own, and runs last, by itself.
 * Projects of one group run as one: whoever has no file left of the first begins with the next.
 */
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import LongestFirst from './test/support/longest-first.ts'
import { PATIENCE_MS } from './test/support/patience.ts'

/** The tests that need the database server of the run. */
export const POSTGRES = [
  'test/storage/**/*.test.ts',
  'test/authority/**/*.test.ts',
  'test/admin/**/*.test.ts',
  'test/organization/**/*.test.ts',
  'test/tally/**/*.test.ts',
  'test/witness/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/strangers/**/*.test.ts',
  'test/agent/bridge/**/*.test.ts',
  'test/start/**/*.test.ts',
  'test/doctor/**/*.test.ts',
  'test/upgrade/**/*.test.ts',
]
const PRODUCT = ['test/envoy/**/*.test.ts', 'test/console/**/*.test.ts']
const ALONE = [
  'test/docs/pages/**/*.test.ts',
  'test/bench/**/*.full.test.ts',
  'test/image.full.test.ts',
  'test/package.full.test.ts',
]
/**
 * How long `expect.poll` waits, which by default is a second; as long as `until` does. A test that asserts
 * nothing cannot fail, so it is red.
 */
const EXPECT = { poll: { timeout: PATIENCE_MS }, requireAssertions: true }
/**
 * Tests of servers wait for pauses and for the database: on two processors 310 of them took 213 s with two
 * workers and 165 s with three, and 132 s where the files of a worker share what they import. With three, a
 * fifth to a third of the processors' time was still idle. Of `pure`, 60 s had more than a third of it idle
 * with two workers.
 */
const MORE_THAN_PROCESSORS = availableParallelism() * 2
const LANDING = process.env['TEST_LAYER'] === 'landing'
/** What `make test` leaves to `make test-full` (CONTRIBUTING.md). */
const LATER = LANDING ? ['test/**/*.full.test.ts'] : []
/** Races of a hundred rounds take minutes where much runs beside them. */
const TEST_MS = LANDING ? 120_000 : 600_000
const HISTORY = ['test/history/history.full.test.ts', 'test/history/versions.full.test.ts']
const SERVER = './test/support/postgres-server.ts'
const PROPERTIES = ['./test/support/property-seed.ts']
/** `make refused-once`. */
const REFUSING = process.env['REFUSED_ONCE'] === undefined ? [] : ['./test/support/refused-once.ts']

export default defineConfig({
  test: {
    reporters: [
      'default',
      './test/support/executed-tests-reporter.ts',
      './test/support/closing-line-reporter.ts',
    ],
    // A file whose tests all need something that this machine lacks has none (test/support/requirement.ts).
    passWithNoTests: true,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'pure',
          include: ['test/**/*.test.ts'],
          setupFiles: PROPERTIES,
          exclude: [
            ...POSTGRES,
            ...PRODUCT,
            ...ALONE,
            ...HISTORY,
            ...LATER,
            'test/cluster/**',
            'test/gateway/**',
          ],
          maxWorkers: MORE_THAN_PROCESSORS,
          // They share nothing but what they import, which is then read once for each worker: 68 files of
          // `wire` and `rules` took 52 s of processor so, and take 19.
          isolate: false,
          testTimeout: TEST_MS,
          hookTimeout: 60_000,
          expect: EXPECT,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'postgres',
          include: POSTGRES,
          exclude: LATER,
          setupFiles: [...PROPERTIES, ...REFUSING],
          globalSetup: SERVER,
          maxWorkers: MORE_THAN_PROCESSORS,
          isolate: false,
          testTimeout: TEST_MS,
          hookTimeout: 120_000,
          expect: EXPECT,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'product',
          include: PRODUCT,
          exclude: LATER,
          setupFiles: PROPERTIES,
          globalSetup: SERVER,
          // They wait for Envoy and for a browser more than they work, and `make test` has few of them.
          maxWorkers: LANDING ? MORE_THAN_PROCESSORS : availableParallelism(),
          isolate: !LANDING,
          testTimeout: TEST_MS,
          // The first run may have to fetch Envoy.
          hookTimeout: 240_000,
          expect: EXPECT,
          sequence: { groupOrder: LANDING ? 0 : 1 },
        },
      },
      {
        test: {
          name: 'alone',
          include: ALONE,
          exclude: LATER,
          setupFiles: PROPERTIES,
          globalSetup: SERVER,
          fileParallelism: false,
          testTimeout: TEST_MS,
          hookTimeout: 240_000,
          expect: EXPECT,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          name: 'history',
          include: HISTORY,
          exclude: LATER,
          expect: EXPECT,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
