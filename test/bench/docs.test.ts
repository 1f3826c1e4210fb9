import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { PAGE, PEERS, RESULTS, withFigures, withPeers } from '../../bench/docs.ts'
import type { Report } from '../../bench/report.ts'
import type { PeersRun } from '../../bench/scenarios/peers.ts'

describe('The figures in docs/performance.md', () => {
  const page = readFileSync(PAGE, 'utf8')

  it('are those of bench/results.json, and none where there is no such file', () => {
    if (existsSync(RESULTS)) {
      const report = JSON.parse(readFileSync(RESULTS, 'utf8')) as Report
      expect(withFigures(page, report)).toBe(page)
    } else expect(page).toMatch(/bench-docs` -->\s*<!-- end of the figures -->/)
  })

  it('are, of what others reach, those of bench/peers.json', () => {
    const run = JSON.parse(readFileSync(PEERS, 'utf8')) as PeersRun
    expect(withPeers(page, run)).toBe(page)
  })

  it('have a place of their own, without which nothing is written', () => {
    expect(() => withFigures('no marks', {} as Report)).toThrow('no place')
    expect(page).toContain('<!-- figures: written by `make bench-docs` -->')
  })
})
