/** Owns how a violation is told: the seed, and of the history what it takes to see it. */
import type { Op, Violation } from './record.ts'
import type { Ran } from './run.ts'

const TOLD_MAX = 5
const LINES_MAX = 30
/** What touches more than what it names. */
const REACHES_FAR = new Set<Op['op']>(['fault', 'edit', 'allow', 'block', 'unblock'])

/** Empty if nothing is wrong. */
export function tellViolations(
  { violations, history }: Pick<Ran, 'violations' | 'history'>,
  seed: number,
): string {
  if (violations.length === 0) return ''
  const told = violations.slice(0, TOLD_MAX).map(violation => tellOne(violation, history))
  return [
    `violations with seed ${seed}: ${violations.length}, the first ${violations[0]!.says}`,
    ...told,
  ].join('\n')
}

/** The operations that show it, with neighbouring ones that are about the same. */
function tellOne({ rule, says, ops }: Violation, history: readonly Op[]): string {
  const shown = new Set(ops)
  const about = new Set(ops.flatMap(n => namesIn(history[n]!)))
  const [first, last] = [Math.min(...ops), Math.max(...ops)]
  const beside = history.slice(0, last + 1).filter(op => {
    const isNear = REACHES_FAR.has(op.op) && op.n > first - 50
    return shown.has(op.n) || isNear || namesIn(op).some(name => about.has(name))
  })
  // The latest say most; what shows it is never left out.
  const lines = beside.filter((op, at) => shown.has(op.n) || at >= beside.length - LINES_MAX)
  const start = lines[0]?.at ?? 0
  return [`${rule}: ${says}`, ...lines.map(op => `  ${shown.has(op.n) ? '*' : ' '} ${line(op, start)}`)].join(
    '\n',
  )
}

function namesIn(op: Op): string[] {
  if (op.op === 'call') return [op.jti]
  if (op.op === 'present')
    return [op.ticket, op.family, op.same, op.grant?.jti].filter(name => name !== undefined)
  if (op.op === 'decide') return [op.family]
  return op.op === 'revoke' ? [op.whom] : []
}

function line(op: Op, start: number): string {
  const { n, at, until, outcome, code, via, ...more } = op
  const rest = Object.fromEntries(
    Object.entries(more).filter(([, value]) => typeof value !== 'object' || value === null),
  )
  const windows = op.op === 'allow' || op.op === 'uses' ? ` ${JSON.stringify(op.windows)}` : ''
  const grant = op.op === 'present' && op.grant !== undefined ? ` ${JSON.stringify(op.grant)}` : ''
  const times = `${(at - start).toFixed(1)}–${(until - start).toFixed(1)} ms`
  return `${n} ${times} ${via} ${outcome}${code === undefined ? '' : ` ${code}`} ${JSON.stringify(rest)}${grant}${windows}`
}
