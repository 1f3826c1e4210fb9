/** Contract, "Events" and "Health": a security event is one line and one more of a counter. */
import { describe, expect, it } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createSecurityLog } from '../../src/http/telemetry/security-log.ts'

interface Line {
  event: string
  [member: string]: unknown
}

function listening() {
  const lines: Line[] = []
  const counted: string[] = []
  const clock = { ms: 0 }
  const security = createSecurityLog({
    log: createLogger({ name: 'test', level: 'info', write: line => void lines.push(JSON.parse(line)) }),
    count: event => void counted.push(event),
    answered: () => undefined,
    clock: () => clock.ms,
  })
  return { lines, counted, clock, security }
}

describe('The security log of a party', () => {
  it('writes a line for each event and counts it', () => {
    const { lines, counted, security } = listening()
    for (let nth = 1; nth <= 100; nth++) security.report({ event: 'joined', seq: nth })
    expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1))
    expect(lines[0]).toMatchObject({ level: 'info', event: 'joined', msg: 'security' })
    expect(counted).toHaveLength(100)
  })

  it('counts every event that others cause, and writes 60 lines a minute of one source at most', () => {
    const { lines, counted, clock, security } = listening()
    const refuse = (owner: string) => security.reportLimited(owner, { event: 'decision_refused', owner })
    for (let nth = 0; nth < 100; nth++) refuse('alice')
    expect([lines.length, counted.length]).toEqual([60, 100])
    refuse('bea')
    clock.ms += 1_000
    refuse('alice')
    expect(lines.slice(60).map(({ owner }) => owner)).toEqual(['bea', 'alice'])
  })
})
