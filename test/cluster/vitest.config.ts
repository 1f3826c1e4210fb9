/**
 * What `make cluster-test` runs, inside the cluster that test/cluster/main.sh started: apart from the other
 * tests, which need none.
 */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    reporters: ['verbose', '../support/closing-line-reporter.ts'],
    // One cluster, and each file's tests build on those before.
    fileParallelism: false,
    bail: 1,
    // A test that asserts nothing cannot fail.
    expect: { requireAssertions: true },
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
})
