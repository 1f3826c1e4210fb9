import { describe, expect, it } from 'vitest'
import type { FigureName } from '../../bench/figures.ts'
import { judge, type Baseline, type GateReport } from '../../bench/gate.ts'

const NAMES = ['standing_over_verify', 'single_use_over_verify', 'negotiation_over_bare'] as const
const BASELINE: Baseline = Object.fromEntries(NAMES.map(name => [name, { median: 0.4 }]))

/** A run in which every ratio held but for those given; others took a share of the CPU. */
function run(
  ratios: Partial<Record<FigureName, [min: number, median: number, max: number]>>,
  others = 0,
): GateReport {
  const figures = NAMES.map(name => {
    const [min, median, max] = ratios[name] ?? [0.35, 0.4, 0.45]
    return [name, { value: median, spread: { min, median, max }, goal: null }]
  })
  return {
    figures: Object.fromEntries(figures) as GateReport['figures'],
    others_cpu_share: { min: others, median: others, max: others },
  }
}

describe('The gate', () => {
  it('lets pass what is as good as what was committed', () => {
    expect(judge(run({}), BASELINE).kind).toBe('held')
  })

  it.each(NAMES)('fails where %s is below three quarters in every cycle', name => {
    const { kind, lines } = judge(run({ [name]: [0.2, 0.25, 0.29] }), BASELINE)
    expect(kind).toBe('lost')
    expect(lines.filter(line => line.includes('LOST'))).toEqual([expect.stringContaining(name)])
  })

  it('lets a cycle be disturbed, as long as the best one holds', () => {
    expect(judge(run({ standing_over_verify: [0.05, 0.1, 0.31] }), BASELINE).kind).toBe('held')
  })

  it('takes nothing for a loss on a machine that was busy with other work', () => {
    expect(judge(run({ standing_over_verify: [0.1, 0.1, 0.1] }, 0.5), BASELINE).kind).toBe('busy')
  })

  it('says nothing without something to compare', () => {
    expect(() => judge(run({}), {})).toThrow('missing')
  })
})
