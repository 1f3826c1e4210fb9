/**
 * Owns tests that are named after a row of the contract (test/contract-rows.yaml): `<id>: <what the row
 * says>`.
 */
import { test } from 'vitest'
import { readContractRows } from './contract-rows.ts'

const says = new Map(readContractRows().rows.map(({ id, says: words }) => [id, words]))

/** Registers the test of a row, named after it. */
export function row(id: string, body: () => unknown): void {
  const words = says.get(id)
  if (words === undefined) throw new Error(`test/contract-rows.yaml has no row ${id}`)
  test(`${id}: ${words}`, async () => {
    await body()
  })
}
