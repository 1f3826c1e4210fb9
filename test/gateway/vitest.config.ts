/** What `make gateway-test` runs, inside the API server that test/cluster/main.sh started. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    reporters: ['verbose', '../support/closing-line-reporter.ts'],
    bail: 1,
    testTimeout: 120_000,
    hookTimeout: 240_000,
  },
})
