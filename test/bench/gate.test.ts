import { describe, expect, it } from 'vitest'
import type { FigureName } from '../../bench/figures.ts'
import { judge, judgeBeside, merged, type Baseline, type GateReport } from '../../bench/gate.ts'

const NAMES = ['standing_over_verify', 'single_use_over_verify', 'negotiation_over_bare'] as const
const HERE = { cpu: 'A CPU', cores: 2, node: 'v24.0.0' }
const BASELINE: Baseline = {
  machine: HERE,
  ratios: Object.fromEntries(NAMES.map(name => [name, { median: 0.4 }])),
}
const FAR_BELOW: [number, number, number] = [0.2, 0.25, 0.29]

interface Circumstances {
  others?: number
  machine?: GateReport['machine']
}

/** A run in which every ratio held but for those given; others took a share of the CPU. */
function run(
  ratios: Partial<Record<FigureName, [min: number, median: number, max: number]>>,
  { others = 0, machine = HERE }: Circumstances = {},
): GateReport {
  const figures = NAMES.map(name => {
    const [min, median, max] = ratios[name] ?? [0.35, 0.4, 0.45]
    return [name, { spread: { min, median, max } }]
  })
  return {
    figures: Object.fromEntries(figures) as GateReport['figures'],
    others_cpu_share: { min: others, median: others, max: others },
    machine,
  }
}

describe('The gate', () => {
  it('lets pass what is as good as what was committed', () => {
    expect(judge(run({}), BASELINE).kind).toBe('held')
  })

  it.each(NAMES)('fails where %s is below three quarters in every cycle', name => {
    const { kind, lines } = judge(run({ [name]: FAR_BELOW }), BASELINE)
    expect(kind).toBe('lost')
    expect(lines.filter(line => line.includes('LOST'))).toEqual([expect.stringContaining(name)])
  })

  it('lets a cycle be disturbed, as long as the best one holds', () => {
    expect(judge(run({ standing_over_verify: [0.05, 0.1, 0.31] }), BASELINE).kind).toBe('held')
  })

  it('takes nothing for a loss on a machine that was busy with other work', () => {
    expect(judge(run({ standing_over_verify: [0.1, 0.1, 0.1] }, { others: 0.5 }), BASELINE).kind).toBe('busy')
  })

  it('says nothing without something to compare', () => {
    expect(() => judge(run({}), { machine: HERE, ratios: {} })).toThrow('missing')
  })

  it.each([
    { ...HERE, cpu: 'Another CPU' },
    { ...HERE, cores: 4 },
    { ...HERE, node: 'v26.0.0' },
  ])('neither fails nor passes on a machine of which nothing was committed: %j', machine => {
    for (const ratios of [{}, { standing_over_verify: FAR_BELOW }]) {
      const { kind, lines } = judge(run(ratios, { machine }), BASELINE)
      expect(kind).toBe('unknown machine')
      expect(lines.join()).not.toContain('LOST')
      for (const { cpu, cores, node } of [machine, HERE])
        expect(lines[0]).toContain(`${cpu}, ${cores} cores, Node ${node}`)
    }
  })
})

describe('The gate beside another checkout', () => {
  const elsewhere = { machine: { ...HERE, cpu: 'Another CPU' } }

  it('holds what is as good as the other, whatever was committed on another machine', () => {
    const both = run({ standing_over_verify: FAR_BELOW }, elsewhere)
    expect(judgeBeside(both, both).kind).toBe('held')
  })

  it('fails if a ratio is below three quarters of the other in every cycle', () => {
    const { kind, lines } = judgeBeside(
      run({ standing_over_verify: FAR_BELOW }, elsewhere),
      run({}, elsewhere),
    )
    expect(kind).toBe('lost')
    expect(lines[0]).toContain('LOST')
  })

  it('takes nothing for a loss where either was disturbed by other work', () => {
    expect(judgeBeside(run({ standing_over_verify: FAR_BELOW }, { others: 0.5 }), run({})).kind).toBe('busy')
  })

  it('judges by the best cycle of all turns', () => {
    const turns = merged([
      run({ standing_over_verify: FAR_BELOW }),
      run({ standing_over_verify: [0.1, 0.2, 0.31] }),
    ])
    expect(turns.figures.standing_over_verify!.spread).toEqual({ min: 0.1, median: 0.225, max: 0.31 })
    expect(judgeBeside(turns, run({})).kind).toBe('held')
  })
})
